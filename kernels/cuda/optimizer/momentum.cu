// This file computes Lion and SGD on CUDA, for resident and interleaved units: the sequences of
// IEEE operations of Momentum in strata/ops/optimizer.h. CudaKernels launches it through
// operators.h. It gives the bits of the CPU's, and sets op.nonfinite if a new weight is not finite.
//
// Shapes: all [n], contiguous.
// Tile: that of adamw.cu, four parameters a thread.
// Numerics: bitwise equal to the CPU: every operation is written as an intrinsic with its rounding.
// Naive version: kernels/cpu.

#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/optimizer/adamw.cuh"

namespace strata::cuda {
namespace {

constexpr int kBlocksPerMultiprocessor = 5;

/// What the kernel is given, with the types of AdamW's.
template <class W, class M, class G>
struct MomentumArguments {
  W* weight;
  std::int16_t* low;
  M* m;
  const G* grad;
  const AdamWScalars* scalars;
  double lr_factor;
  double weight_decay;
  std::uint64_t rounding_stream;
  std::int64_t rounding_begin;
  std::int32_t* nonfinite;
  std::int64_t n;
};

template <MomentumFormula kFormula>
__device__ __forceinline__ float moved(const AdamWNumbers& s, float grad, float w, float& m) {
  const float g = __fmul_rn(grad, s.grad_factor);
  float u = 0;
  if constexpr (kFormula == MomentumFormula::kLion) {
    const float mixed = __fmaf_rn(s.beta1, m, __fmul_rn(s.rest1, g));
    m = __fmaf_rn(s.beta2, m, __fmul_rn(s.rest2, g));
    u = mixed > 0 ? 1.0f : (mixed < 0 ? -1.0f : mixed);
  } else {
    m = __fmaf_rn(s.beta1, m, g);
    u = kFormula == MomentumFormula::kNesterov ? __fmaf_rn(s.beta1, m, g) : m;
  }
  w = __fmaf_rn(-s.decay, w, w);
  return __fmaf_rn(-s.lr, u, w);
}

/// Writes the moments of kCount parameters from i on, which are in one block.
template <int kCount, class W, class M, class G>
__device__ __forceinline__ void write_moments(const MomentumArguments<W, M, G>& p,
                                              const AdamWNumbers& s, std::int64_t i,
                                              const float (&m)[kCount]) {
  if constexpr (sizeof(M) == sizeof(float)) {
    store(p.m + i, m);
  } else {
    const std::int64_t place = p.rounding_begin + i;
    const std::uint64_t key = rounding_key(s.rounding, place);
    const auto first = static_cast<std::uint32_t>(place % SquaredNorm::kBlock);
    Vector<M, kCount> rounded;
#pragma unroll
    for (unsigned j = 0; j < kCount; ++j) {
      rounded.values[j] = round_by(m[j], bits_of(key, first + j) & 0xffffu);
    }
    store_raw(p.m + i, rounded);
  }
}

template <MomentumFormula kFormula, int kCount, class W, class M, class G>
__device__ __forceinline__ void move(const MomentumArguments<W, M, G>& p, const AdamWNumbers& s,
                                     std::int64_t i) {
  float w[kCount];
  float m[kCount];
  float grad[kCount];
  Master<W, kCount>::read(p, i, w);
  load(p.m + i, m);
  load(p.grad + i, grad);
  bool finite = true;
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    w[j] = moved<kFormula>(s, grad[j], w[j], m[j]);
    finite = finite && isfinite(w[j]);
  }
  Master<W, kCount>::write(p, s, i, w);
  write_moments(p, s, i, m);
  if (!finite) *p.nonfinite = 1;  // every thread that writes, writes this
}

template <MomentumFormula kFormula, int kCount, class W, class M, class G>
__global__ void __launch_bounds__(kAdamWThreads, kBlocksPerMultiprocessor)
    momentum(MomentumArguments<W, M, G> p) {
  __shared__ AdamWNumbers shared;
  if (threadIdx.x == 0) shared = round_scalars(*p.scalars, p);
  __syncthreads();
  const AdamWNumbers s = shared;
  if (!s.apply) return;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kAdamWThreads + threadIdx.x;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * kAdamWThreads;
  const std::int64_t whole = p.n / kCount;
  for (std::int64_t i = thread; i < whole; i += threads) move<kFormula, kCount>(p, s, i * kCount);
  const std::int64_t rest = whole * kCount + thread;
  if (rest < p.n) move<kFormula, 1>(p, s, rest);
}

template <MomentumFormula kFormula>
void launch_momentum(const Context& context, const Momentum& op) {
  const std::int64_t n = op.weight.elements();
  // The parameters of a thread take their random bits from one block of them.
  const bool wide =
      rows_aligned({op.weight, op.low, op.m, op.grad}) && op.rounding_begin % kAdamWParameters == 0;
  with_weights(op, [&]<class W>() {
    with_dtype(op.kName, op.m.dtype, [&]<class M>() {
      with_dtype(op.kName, op.grad.dtype, [&]<class G>() {
        const MomentumArguments<W, M, G> arguments{.weight = data<W>(op.weight),
                                                   .low = data<std::int16_t>(op.low),
                                                   .m = data<M>(op.m),
                                                   .grad = data<G>(op.grad),
                                                   .scalars = op.scalars,
                                                   .lr_factor = op.lr_factor,
                                                   .weight_decay = op.weight_decay,
                                                   .rounding_stream = op.rounding_stream,
                                                   .rounding_begin = op.rounding_begin,
                                                   .nonfinite = data<std::int32_t>(op.nonfinite),
                                                   .n = n};
        const auto kernel =
            wide ? momentum<kFormula, kAdamWParameters, W, M, G> : momentum<kFormula, 1, W, M, G>;
        const auto most = static_cast<unsigned>(kBlocksPerMultiprocessor * multiprocessors());
        launch({.name = op.kName,
                .stream = context.stream,
                .grid = std::min(
                    most, blocks_for(n, wide ? kAdamWThreads * kAdamWParameters : kAdamWThreads)),
                .block = kAdamWThreads},
               kernel, arguments);
      });
    });
  });
}

}  // namespace

void enqueue(const Context& context, const Momentum& op) {
  if (op.weight.elements() == 0) return;
  switch (op.formula) {
    case MomentumFormula::kLion: return launch_momentum<MomentumFormula::kLion>(context, op);
    case MomentumFormula::kSgd: return launch_momentum<MomentumFormula::kSgd>(context, op);
    case MomentumFormula::kNesterov:
      return launch_momentum<MomentumFormula::kNesterov>(context, op);
  }
}

const void* momentum_module() {
  return reinterpret_cast<const void*>(
      &momentum<MomentumFormula::kLion, kAdamWParameters, float, float, float>);
}

}  // namespace strata::cuda
