// This file computes AdamW on CUDA, for resident and interleaved units: the sequence of IEEE
// operations in strata/ops/optimizer.h. CudaKernels launches it through operators.h. It gives the
// bits of the CPU's AdamW, and sets op.nonfinite if a new weight is not finite. Moments in 8 bits
// have a kernel of their own (adamw_codes.cu).
//
// Shapes: all [n], contiguous.
// Tile: as many blocks as fit at once walk the tensor, four parameters a thread, because every
// block reads the scalars first, and those may lie in host memory, on the other side of the link.
// Numerics: bitwise equal to the CPU: every operation is written as an intrinsic with its rounding,
// so the compiler neither fuses nor approximates.
// Measured on one H200, 2026-11-21, 200M parameters (a copy moves 4.1 TB/s), split weights: 4.0
// TB/s, with bf16 moments 3.9.
// Naive version: kernels/cpu.

#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/optimizer/adamw.cuh"

namespace strata::cuda {
namespace {

/// Keeps the registers of a thread under 52, so that five blocks fit.
constexpr int kBlocksPerMultiprocessor = 5;

/// What the kernel is given. W is bf16 (the high half of a split master, `low` beside it) or f32; M
/// and G, the types of the moments and the gradient, are bf16 or f32.
template <class W, class M, class G>
struct AdamWArguments {
  W* weight;
  std::int16_t* low;
  M* m;
  M* v;
  const G* grad;
  const AdamWScalars* scalars;
  double lr_factor;
  double weight_decay;
  std::uint64_t rounding_stream;
  std::int64_t rounding_begin;
  std::int32_t* nonfinite;
  std::int64_t n;
};

/// Writes the moments of kCount parameters from i on, which are in one block.
template <int kCount, class W, class M, class G>
__device__ __forceinline__ void write_moments(const AdamWArguments<W, M, G>& p,
                                              const AdamWNumbers& s, std::int64_t i,
                                              const float (&m)[kCount], const float (&v)[kCount]) {
  if constexpr (sizeof(M) == sizeof(float)) {
    store(p.m + i, m);
    store(p.v + i, v);
  } else {
    const std::int64_t place = p.rounding_begin + i;
    const std::uint64_t key = rounding_key(s.rounding, place);
    const auto first = static_cast<std::uint32_t>(place % SquaredNorm::kBlock);
    Vector<M, kCount> rounded_m;
    Vector<M, kCount> rounded_v;
#pragma unroll
    for (unsigned j = 0; j < kCount; ++j) {
      const std::uint32_t random = bits_of(key, first + j);
      rounded_m.values[j] = round_by(m[j], random & 0xffffu);
      rounded_v.values[j] = round_by(v[j], random >> 16);
    }
    store_raw(p.m + i, rounded_m);
    store_raw(p.v + i, rounded_v);
  }
}

template <int kCount, class W, class M, class G>
__device__ __forceinline__ void update(const AdamWArguments<W, M, G>& p, const AdamWNumbers& s,
                                       std::int64_t i) {
  float w[kCount];
  float m[kCount];
  float v[kCount];
  float grad[kCount];
  Master<W, kCount>::read(p, i, w);
  load(p.m + i, m);
  load(p.v + i, v);
  load(p.grad + i, grad);
  bool finite = true;
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    w[j] = updated(s, grad[j], w[j], m[j], v[j]);
    finite = finite && isfinite(w[j]);
  }
  Master<W, kCount>::write(p, s, i, w);
  write_moments(p, s, i, m, v);
  if (!finite) *p.nonfinite = 1;  // every thread that writes, writes this
}

template <class W, class M, class G, int kCount>
__global__ void __launch_bounds__(kAdamWThreads, kBlocksPerMultiprocessor)
    adamw(AdamWArguments<W, M, G> p) {
  __shared__ AdamWNumbers shared;
  if (threadIdx.x == 0) shared = round_scalars(*p.scalars, p);
  __syncthreads();
  const AdamWNumbers s = shared;
  if (!s.apply) return;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kAdamWThreads + threadIdx.x;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * kAdamWThreads;
  const std::int64_t whole = p.n / kCount;
  for (std::int64_t i = thread; i < whole; i += threads) update<kCount>(p, s, i * kCount);
  const std::int64_t rest = whole * kCount + thread;
  if (rest < p.n) update<1>(p, s, rest);
}

}  // namespace

void enqueue(const Context& context, const AdamW& op) {
  const std::int64_t n = op.weight.elements();
  if (n == 0) return;
  if (op.m.dtype == kMomentCode) return launch_adamw_codes(context.stream, op);
  // The parameters of a thread take their random bits from one block of them.
  const bool wide = rows_aligned({op.weight, op.low, op.m, op.v, op.grad}) &&
                    op.rounding_begin % kAdamWParameters == 0;
  with_weights(op, [&]<class W>() {
    with_dtype(op.kName, op.m.dtype, [&]<class M>() {
      with_dtype(op.kName, op.grad.dtype, [&]<class G>() {
        const AdamWArguments<W, M, G> arguments{.weight = data<W>(op.weight),
                                                .low = data<std::int16_t>(op.low),
                                                .m = data<M>(op.m),
                                                .v = data<M>(op.v),
                                                .grad = data<G>(op.grad),
                                                .scalars = op.scalars,
                                                .lr_factor = op.lr_factor,
                                                .weight_decay = op.weight_decay,
                                                .rounding_stream = op.rounding_stream,
                                                .rounding_begin = op.rounding_begin,
                                                .nonfinite = data<std::int32_t>(op.nonfinite),
                                                .n = n};
        const auto kernel = wide ? adamw<W, M, G, kAdamWParameters> : adamw<W, M, G, 1>;
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

const void* adamw_module() {
  return reinterpret_cast<const void*>(&adamw<float, float, float, kAdamWParameters>);
}

}  // namespace strata::cuda
