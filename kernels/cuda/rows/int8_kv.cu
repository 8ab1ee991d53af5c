// This file keeps keys and values as int8 on CUDA: it adds those of new tokens to a cache, and
// brings those that prompts see back; CudaKernels launches both through operators.h. Rows must lie
// within the cache, which the device does not check. Attention to int8 is in
// kernels/cuda/attention/portable/decode_int8_attention.cu.
//
// Append: for each head of row n of k and v, scale = max |x| / 127 and x / scale to the nearest
// integer, to row rows[n]. Dequantise: x = level * scale for the rows that segments see.
//
// Shapes: k and v [N, K, D], caches [R, K, D] int8 and [R, K] f32, rows [N], segments [M, 5].
// Tile: append takes a warp for each head of a row of k or v; dequantise a block for some rows of
// a segment, of which a thread has W elements. Both move little beside the products of a layer.
// Numerics: those of quantize.cu; bitwise equal to the CPU but for the bits of NaNs.
// Naive version: kernels/cpu.

#include <algorithm>

#include "kernels/cuda/attention/attention_segments.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/rows/int8_divisor.cuh"
#include "kernels/cuda/rows/magnitudes.cuh"

namespace strata::cuda {
namespace {

constexpr int kAppendWarps = 8;
constexpr int kThreads = 256;
constexpr std::int64_t kBlocks = 1024;  ///< of dequantise, about: all multiprocessors have some

/// Where the levels and scales of keys or values are.
template <class Level, class Scale>
struct Int8Rows {
  Rows<Level> levels;
  Rows<Scale> scales;
};

/// Keys or values, and where they go.
template <class T>
struct Appended {
  Rows<const T> from;
  Int8Rows<std::int8_t, float> to;
};

template <class T>
__global__ void __launch_bounds__(32 * kAppendWarps)
    append_int8_kv(const std::int32_t* rows, Appended<T> k, Appended<T> v, std::int64_t tokens,
                   int heads, int width) {
  const std::int64_t item =
      std::int64_t{blockIdx.x} * kAppendWarps + static_cast<int>(threadIdx.x) / kWarp;
  if (item >= 2 * tokens * heads) return;
  const Appended<T>& which = item < tokens * heads ? k : v;
  const std::int64_t at = item % (tokens * heads);
  const std::int64_t n = at / heads;
  const int head = static_cast<int>(at % heads);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t row = rows[n];
  const T* const x = which.from.row(n) + head * width;
  Largest largest{0};
  for (int d = lane; d < width; d += kWarp) {
    largest.bits = max(largest.bits, __float_as_uint(widen(x[d])) & kMagnitude);
  }
  const auto divisor = Divisor::of(warp_reduce(largest, TakeLarger{}).bits);
  if (lane == 0) which.to.scales.row(row)[head] = divisor.scale;
  std::int8_t* const levels = which.to.levels.row(row) + head * width;
  for (int d = lane; d < width; d += kWarp) {
    levels[d] = static_cast<std::int8_t>(divisor.divided(widen(x[d])));
  }
}

/// Keys or values, and what they become.
template <class T>
struct Dequantized {
  Int8Rows<const std::int8_t, const float> from;
  Rows<T> to;

  template <int W>
  __device__ __forceinline__ void piece(std::int64_t row, int column, int width) const {
    const float scale = from.scales.row(row)[column / width];
    const auto levels = load_raw<std::int8_t, W>(from.levels.row(row) + column);
    float values[W];
#pragma unroll
    for (int i = 0; i < W; ++i) {
      values[i] = __fmul_rn(static_cast<float>(levels.values[i]), scale);
    }
    store(to.row(row) + column, values);
  }
};

/// A piece lies within a head: W divides its width.
template <class T, int W>
__global__ void __launch_bounds__(kThreads)
    dequantize_kv(const Segments segments, Dequantized<T> k, Dequantized<T> v, int columns,
                  int width) {
  const Segment segment = segments.at(static_cast<int>(blockIdx.y));
  if (segment.q_length == 0) return;
  const int seen = min(segment.k_length, segment.q_length + segment.q_offset);
  const int pieces = columns / W;  // of a row
  const std::int64_t all = std::int64_t{max(seen, 0)} * pieces;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < all; i += step) {
    const std::int64_t row = segment.k_begin + i / pieces;
    const int column = static_cast<int>(i % pieces) * W;
    k.template piece<W>(row, column, width);
    v.template piece<W>(row, column, width);
  }
}

}  // namespace

void enqueue(const Context& context, const AppendInt8Kv& op) {
  const std::int64_t tokens = op.k.rows();
  const std::int64_t heads = op.k.shape[1];
  with_dtype(op.kName, op.k.dtype, [&]<class T>() {
    const auto appended = [](const ConstTensorView& from, const TensorView& levels,
                             const TensorView& scales) {
      return Appended<T>{Rows<const T>(from), {Rows<std::int8_t>(levels), Rows<float>(scales)}};
    };
    launch({.name = op.kName,
            .stream = context.stream,
            .grid = blocks_for(2 * tokens * heads, kAppendWarps),
            .block = kWarp * kAppendWarps},
           append_int8_kv<T>, data<std::int32_t>(op.rows),
           appended(op.k, op.cache.k, op.cache.k_scale),
           appended(op.v, op.cache.v, op.cache.v_scale), tokens, narrow<int>(heads),
           narrow<int>(op.k.shape[2]));
  });
}

void enqueue(const Context& context, const DequantizeKv& op) {
  const std::int64_t width = op.k.shape[2];
  const int w = 16 / static_cast<int>(size_of(op.k.dtype));
  const bool wide =
      width % w == 0 && rows_aligned({op.k, op.v}) && rows_aligned_to(w, {op.cache.k, op.cache.v});
  const std::int64_t segments = op.segments.rows();
  if (segments == 0 || op.k.elements() == 0) return;
  with_dtype_and_width(op.kName, op.k.dtype, wide, [&]<class T, int W>() {
    const auto dequantized = [](const ConstTensorView& levels, const ConstTensorView& scales,
                                const TensorView& to) {
      return Dequantized<T>{{Rows<const std::int8_t>(levels), Rows<const float>(scales)},
                            Rows<T>(to)};
    };
    launch({.name = op.kName,
            .stream = context.stream,
            .grid = dim3(static_cast<unsigned>(std::max<std::int64_t>(1, kBlocks / segments)),
                         static_cast<unsigned>(segments)),
            .block = kThreads},
           dequantize_kv<T, W>, make_segments({.table = op.segments}, 0),
           dequantized(op.cache.k, op.cache.k_scale, op.k),
           dequantized(op.cache.v, op.cache.v_scale, op.v), narrow<int>(op.k.shape.row_elements()),
           narrow<int>(width));
  });
}

const void* int8_kv_module() { return reinterpret_cast<const void*>(&append_int8_kv<float>); }

}  // namespace strata::cuda
