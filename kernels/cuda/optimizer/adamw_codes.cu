// This file computes AdamW with moments in 8 bits on CUDA: the sequence of operations in
// strata/ops/optimizer.h, and codes and scales as strata/ops/moment_codes.h has them. AdamW's
// enqueue() launches it. It gives the bits of the CPU's AdamW.
//
// Shapes: all [n], contiguous; scales [ceil(n / 64), 2].
// Tile: 16 lanes take a block of 64 parameters, which share two scales, so that the largest moments
// are found by four exchanges within the lanes. A lane has four parameters: those that follow each
// other, as one access of each tensor, or in the last block and in tensors that are not aligned
// every 16th. As many blocks of threads as fit at once walk the tensor, because each reads the
// step's numbers first, and those may lie in host memory.
// Numerics: bitwise equal to the CPU: f32 operations are intrinsics with their rounding, the
// largest of numbers does not depend on order, and codes are made by integers. Measured: not yet.
// Naive version: kernels/cpu.

#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/optimizer/adamw.cuh"

namespace strata::cuda {
namespace {

constexpr int kLanes = static_cast<int>(kMomentBlock) / kAdamWParameters;  ///< of a block of codes
static_assert(kLanes == 16);
/// Keeps the registers of a thread under 64: with 48, as AdamW has, two would be spilled.
constexpr int kBlocksPerMultiprocessor = 4;

/// What the kernel is given. W is bf16 (the high half of a split master, `low` beside it) or f32; G
/// is bf16 or f32.
template <class W, class G>
struct CodedArguments {
  W* weight;
  std::int16_t* low;
  std::uint8_t* m;
  std::uint8_t* v;
  std::uint8_t* scale;
  const G* grad;
  const AdamWScalars* scalars;
  double lr_factor;
  double weight_decay;
  std::uint64_t rounding_stream;
  std::int64_t rounding_begin;
  std::int32_t* nonfinite;
  std::int64_t n;
};

/// Returns the bits of 2^(scale - 127) times 2^places.
__device__ __forceinline__ int scaled_bits(int scale, int places) { return (scale + places) << 23; }

/// Returns the number of a code without its sign.
__device__ __forceinline__ float decoded(int code, int scale) {
  const int sixteen = scaled_bits(scale, 4);
  const int implied = code < 16 ? sixteen : scaled_bits(scale, 3);
  const int excess = code < 16 ? sixteen : 0;
  // Unsigned, since a scale that a checkpoint makes up may be larger than any that is written.
  const auto bits = (static_cast<std::uint32_t>(code) << 19) + static_cast<std::uint32_t>(implied);
  return __fsub_rn(__uint_as_float(bits), __int_as_float(excess));
}

/// Returns the code of |x|, of which these are the bits, rounded by 16 random bits.
__device__ __forceinline__ int coded(int bits, int scale, std::uint32_t random) {
  const int sixteen = scaled_bits(scale, 4);
  const int small =
      __float_as_int(__fadd_rn(__int_as_float(bits), __int_as_float(sixteen))) - sixteen;
  const int large = bits - scaled_bits(scale, 3);
  return ((bits < sixteen ? small : large) + 8 * static_cast<int>(random) + 4) >> 19;
}

/// Returns the scale of a block whose largest number has these bits, `reach` binary places below
/// the largest numbers of the format; negative if that number is not finite.
__device__ __forceinline__ int scale_of(int largest, int reach) {
  const std::uint32_t top = (static_cast<std::uint32_t>(largest) + 0x7ffffu) >> 23;
  if (top >= 255) return -1;
  return largest == 0 ? 0 : max(static_cast<int>(top) - reach, 1);
}

/// Returns the largest of a number of each of the lanes of a block, which all call it.
__device__ __forceinline__ int largest_of_block(int x, unsigned lanes) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    x = max(x, __shfl_xor_sync(lanes, x, distance));
  }
  return x;
}

/// The four parameters of a lane. With kWide they follow each other and are all there; else they
/// are 16 apart and the last may be missing.
template <bool kWide>
struct LaneParameters {
  static constexpr int kCount = kAdamWParameters;
  std::int64_t first;  ///< the block's first parameter
  int lane;            ///< in the block
  int count;           ///< of the block's parameters

  /// Returns the place in the block of parameter j.
  [[nodiscard]] __device__ int place(int j) const {
    return kWide ? kCount * lane + j : lane + kLanes * j;
  }
  [[nodiscard]] __device__ bool has(int j) const { return kWide || place(j) < count; }

  /// Reads these parameters of a tensor; those that are missing are 0.
  template <class T>
  __device__ void read(const T* from, T (&to)[kCount]) const {
    if constexpr (kWide) {
      const auto all = load_raw<T, kCount>(from + first + place(0));
#pragma unroll
      for (int j = 0; j < kCount; ++j) to[j] = all.values[j];
    } else {
#pragma unroll
      for (int j = 0; j < kCount; ++j) to[j] = has(j) ? from[first + place(j)] : T{};
    }
  }
  template <class T>
  __device__ void write(T* to, const T (&from)[kCount]) const {
    if constexpr (kWide) {
      Vector<T, kCount> all;
#pragma unroll
      for (int j = 0; j < kCount; ++j) all.values[j] = from[j];
      store_raw(to + first + place(0), all);
    } else {
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        if (has(j)) to[first + place(j)] = from[j];
      }
    }
  }
};

/// Reads and writes the f32 masters of a lane.
template <class Lane, class G>
__device__ __forceinline__ void read_masters(const CodedArguments<float, G>& p, const Lane& lane,
                                             float (&w)[Lane::kCount]) {
  lane.read(p.weight, w);
}
template <class Lane, class G>
__device__ __forceinline__ void read_masters(const CodedArguments<__nv_bfloat16, G>& p,
                                             const Lane& lane, float (&w)[Lane::kCount]) {
  __nv_bfloat16 high[Lane::kCount];
  std::int16_t low[Lane::kCount];
  lane.read(p.weight, high);
  lane.read(p.low, low);
#pragma unroll
  for (int j = 0; j < Lane::kCount; ++j) w[j] = join(high[j], low[j]);
}
template <class Lane, class G>
__device__ __forceinline__ void read_masters(const CodedArguments<OnlyBf16, G>& p, const Lane& lane,
                                             float (&w)[Lane::kCount]) {
  OnlyBf16 all[Lane::kCount];
  lane.read(p.weight, all);
#pragma unroll
  for (int j = 0; j < Lane::kCount; ++j) w[j] = __bfloat162float(all[j].value);
}
template <class Lane, class G>
__device__ __forceinline__ void write_masters(const CodedArguments<float, G>& p,
                                              const AdamWNumbers&, const Lane& lane,
                                              const float (&w)[Lane::kCount]) {
  lane.write(p.weight, w);
}
template <class Lane, class G>
__device__ __forceinline__ void write_masters(const CodedArguments<OnlyBf16, G>& p,
                                              const AdamWNumbers& s, const Lane& lane,
                                              const float (&w)[Lane::kCount]) {
  const std::int64_t begin = p.rounding_begin + lane.first;
  const std::uint64_t key = rounding_key(s.weight_rounding, begin);
  const auto in_key = static_cast<std::uint32_t>(begin % SquaredNorm::kBlock);
  OnlyBf16 all[Lane::kCount];
#pragma unroll
  for (int j = 0; j < Lane::kCount; ++j) {
    const std::uint32_t random = bits_of(key, in_key + static_cast<std::uint32_t>(lane.place(j)));
    all[j].value = round_by(w[j], random & 0xffffu);
  }
  lane.write(p.weight, all);
}
template <class Lane, class G>
__device__ __forceinline__ void write_masters(const CodedArguments<__nv_bfloat16, G>& p,
                                              const AdamWNumbers&, const Lane& lane,
                                              const float (&w)[Lane::kCount]) {
  __nv_bfloat16 high[Lane::kCount];
  std::int16_t low[Lane::kCount];
#pragma unroll
  for (int j = 0; j < Lane::kCount; ++j) split(w[j], high[j], low[j]);
  lane.write(p.weight, high);
  lane.write(p.low, low);
}

/// Updates the parameters that a lane has of a block. All lanes of the block call it.
template <bool kWide, class W, class G>
__device__ __forceinline__ void update(const CodedArguments<W, G>& p, const AdamWNumbers& s,
                                       const LaneParameters<kWide>& lane, unsigned lanes) {
  constexpr int kCount = kAdamWParameters;
  float w[kCount];
  G grad[kCount];
  std::uint8_t code_m[kCount];
  std::uint8_t code_v[kCount];
  read_masters(p, lane, w);
  lane.read(p.grad, grad);
  lane.read(p.m, code_m);
  lane.read(p.v, code_v);
  std::uint8_t* const scales = p.scale + kMomentScales * (lane.first / kMomentBlock);
  const int old_m = scales[0];
  const int old_v = scales[1];
  float m[kCount];
  float v[kCount];
  int largest_m = 0;
  int largest_v = 0;
  bool finite = true;
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    const float size = decoded(code_m[j] & 0x7f, old_m);
    m[j] = (code_m[j] & 0x80) != 0 ? -size : size;
    v[j] = decoded(code_v[j], old_v);
    w[j] = updated(s, widen(grad[j]), w[j], m[j], v[j]);
    if (!lane.has(j)) continue;
    largest_m = max(largest_m, __float_as_int(m[j]) & 0x7fffffff);
    largest_v = max(largest_v, __float_as_int(v[j]) & 0x7fffffff);
    finite = finite && isfinite(w[j]);
  }
  write_masters(p, s, lane, w);
  // Every lane has read the old scales before the first exchange ends.
  const int scale_m = scale_of(largest_of_block(largest_m, lanes), 10);
  const int scale_v = scale_of(largest_of_block(largest_v, lanes), 18);
  const std::int64_t begin = p.rounding_begin + lane.first;
  const std::uint64_t key = rounding_key(s.rounding, begin);
  const auto in_key = static_cast<std::uint32_t>(begin % SquaredNorm::kBlock);
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    const std::uint32_t random = bits_of(key, in_key + static_cast<std::uint32_t>(lane.place(j)));
    const int bits_m = __float_as_int(m[j]);
    const int size_v = __float_as_int(v[j]) & 0x7fffffff;
    const int sign = bits_m < 0 ? 0x80 : 0;
    const int new_m = coded(bits_m & 0x7fffffff, scale_m, random & 0xffffu) | sign;
    const int new_v = max(coded(size_v, scale_v, random >> 16), size_v != 0 ? 1 : 0);
    code_m[j] = static_cast<std::uint8_t>(scale_m > 0 ? new_m : 0);
    code_v[j] = static_cast<std::uint8_t>(scale_v > 0 ? new_v : 0);
  }
  lane.write(p.m, code_m);
  lane.write(p.v, code_v);
  if (lane.lane == 0) {
    scales[0] = static_cast<std::uint8_t>(max(scale_m, 0));
    scales[1] = static_cast<std::uint8_t>(max(scale_v, 0));
  }
  // Every thread that writes, writes this.
  if (!finite || scale_m < 0 || scale_v < 0) *p.nonfinite = 1;
}

template <class W, class G, bool kWide>
__global__ void __launch_bounds__(kAdamWThreads, kBlocksPerMultiprocessor)
    adamw_codes(CodedArguments<W, G> p) {
  __shared__ AdamWNumbers shared;
  if (threadIdx.x == 0) shared = round_scalars(*p.scalars, p);
  __syncthreads();
  const AdamWNumbers s = shared;
  if (!s.apply) return;
  constexpr int kBlocksAtOnce = kAdamWThreads / kLanes;  // of codes, in a block of threads
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const unsigned lanes = 0xffffu << (threadIdx.x % 32 / kLanes * kLanes);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kBlocksAtOnce * kMomentBlock;
  std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kBlocksAtOnce +
                        static_cast<int>(threadIdx.x) / kLanes) *
                       kMomentBlock;
  for (; first < p.n; first += step) {  // the same for all lanes of a block of codes
    const std::int64_t left = p.n - first;
    const int count = static_cast<int>(left < kMomentBlock ? left : kMomentBlock);
    if (kWide && count == kMomentBlock) {
      update(p, s, LaneParameters<true>{first, lane, count}, lanes);
    } else {
      update(p, s, LaneParameters<false>{first, lane, count}, lanes);
    }
  }
}

}  // namespace

void launch_adamw_codes(cudaStream_t stream, const AdamW& op) {
  const std::int64_t n = op.weight.elements();
  const bool wide = rows_aligned({op.weight, op.low, op.m, op.v, op.grad});
  with_weights(op, [&]<class W>() {
    with_dtype(op.kName, op.grad.dtype, [&]<class G>() {
      const CodedArguments<W, G> arguments{.weight = data<W>(op.weight),
                                           .low = data<std::int16_t>(op.low),
                                           .m = data<std::uint8_t>(op.m),
                                           .v = data<std::uint8_t>(op.v),
                                           .scale = data<std::uint8_t>(op.scale),
                                           .grad = data<G>(op.grad),
                                           .scalars = op.scalars,
                                           .lr_factor = op.lr_factor,
                                           .weight_decay = op.weight_decay,
                                           .rounding_stream = op.rounding_stream,
                                           .rounding_begin = op.rounding_begin,
                                           .nonfinite = data<std::int32_t>(op.nonfinite),
                                           .n = n};
      const auto kernel = wide ? adamw_codes<W, G, true> : adamw_codes<W, G, false>;
      const auto most = static_cast<unsigned>(kBlocksPerMultiprocessor * multiprocessors());
      launch({.name = op.kName,
              .stream = stream,
              .grid = std::min(most, blocks_for(n, kAdamWThreads * kAdamWParameters)),
              .block = kAdamWThreads},
             kernel, arguments);
    });
  });
}

const void* adamw_codes_module() {
  return reinterpret_cast<const void*>(&adamw_codes<float, float, true>);
}

}  // namespace strata::cuda
