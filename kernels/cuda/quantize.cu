// Quantise: scale = max |x| / 127, q = x / scale to the nearest integer, row by row.
// Dequantise: x = q * scale.
//
// Shapes: x [N, C], q [N, C] int8, rows may be strided; scale [N] f32.
// Tile: quantise takes a block a row, which reads it twice, the second time from a cache;
// dequantise takes a thread for W columns of one row. W = 8 in bf16, 4 in f32: 16 bytes of x.
// Numerics: f32, as if divided exactly; the maximum is that of the bits of magnitudes, so NaNs come
// out on top and the order does not matter; bitwise equal to the CPU but for the bits of NaNs.
// Naive version: kernels/cpu.

#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector.cuh"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;
constexpr unsigned kMagnitude = 0x7fffffffu;
constexpr unsigned kInfinity = 0x7f800000u;
constexpr unsigned kQuietNan = 0x7fc00000u;

/// A number that a warp can exchange.
struct Largest {
  unsigned bits;
  __device__ static Largest shuffle(Largest x, int distance) {
    return {__shfl_xor_sync(kAllLanes, x.bits, distance)};
  }
};

struct TakeLarger {
  __device__ Largest operator()(Largest a, Largest b) const { return {max(a.bits, b.bits)}; }
};

/// x / scale to the nearest integer, for |x| < 255 scale: what an exact division gives. A product
/// with the inverse is off by less than 255 * 2^-22, so it is on the same side of a half unless it
/// comes close to one; then it is divided after all.
__device__ __forceinline__ int nearest_level(float x, float scale, float inverse) {
  constexpr float kSurelyNearest = 0.5f - 1e-4f;
  const float product = x * inverse;
  const float level = rintf(product);
  const bool sure = fabsf(product - level) < kSurelyNearest;  // false for NaN
  return sure ? static_cast<int>(level) : __float2int_rn(__fdiv_rn(x, scale));
}

template <class T, int W>
__global__ void __launch_bounds__(kThreads)
    quantize_rows(Rows<const T> x, Rows<std::int8_t> q, float* scales, int columns) {
  __shared__ Largest scratch[kMostWarps];
  const std::int64_t n = blockIdx.x;
  const int first = static_cast<int>(threadIdx.x) * W;
  const int step = static_cast<int>(blockDim.x) * W;
  Largest largest{0};
  for (int c = first; c < columns; c += step) {
    float values[W];
    load(x.row(n) + c, values);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      largest.bits = max(largest.bits, __float_as_uint(values[i]) & kMagnitude);
    }
  }
  largest = block_reduce_once(largest, Largest{0}, scratch, TakeLarger{});
  const bool finite = largest.bits < kInfinity;
  const float scale =
      finite ? __fdiv_rn(__uint_as_float(largest.bits), static_cast<float>(QuantizeRows::kLevels))
             : __uint_as_float(kQuietNan);
  if (threadIdx.x == 0) scales[n] = scale;
  const bool zeros = !(scale > 0.0f);
  const float inverse = __fdiv_rn(1.0f, scale);
  for (int c = first; c < columns; c += step) {
    float values[W];
    load(x.row(n) + c, values);
    Vector<std::int8_t, W> rounded;
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const int level = zeros ? 0 : nearest_level(values[i], scale, inverse);
      rounded.values[i] =
          static_cast<std::int8_t>(min(max(level, -QuantizeRows::kLevels), QuantizeRows::kLevels));
    }
    store_raw(q.row(n) + c, rounded);
  }
}

template <class T, int W>
__global__ void dequantize_rows(Rows<const std::int8_t> q, const float* scales, Rows<T> x,
                                Extent extent) {
  for_each_piece<W>(extent, [&](std::int64_t n, std::int64_t c) {
    const float scale = scales[n];
    const auto levels = load_raw<std::int8_t, W>(q.row(n) + c);
    float values[W];
#pragma unroll
    for (int i = 0; i < W; ++i) {
      values[i] = __fmul_rn(static_cast<float>(levels.values[i]), scale);
    }
    store(x.row(n) + c, values);
  });
}

/// True if every row of q begins where `width` bytes may be moved at once.
bool bytes_aligned(const ConstTensorView& q, int width) {
  const auto address = reinterpret_cast<std::uintptr_t>(q.data);
  const auto w = static_cast<std::uintptr_t>(width);
  return address % w == 0 && (q.rows() <= 1 || static_cast<std::uintptr_t>(q.row_stride) % w == 0);
}

/// Calls `body.operator()<T, W>()` for the widest access that both sides allow.
template <class Body>
void with_width(std::string_view name, const ConstTensorView& x, const ConstTensorView& q,
                const Body& body) {
  const int width = 16 / static_cast<int>(size_of(x.dtype));
  const bool wide = is_wide(x.dtype, x.shape[1], {x}) && bytes_aligned(q, width);
  with_dtype_and_width(name, x.dtype, wide, body);
}

}  // namespace

void launch_quantize_rows(cudaStream_t stream, const QuantizeRows& op) {
  const std::int64_t columns = op.x.shape[1];
  with_width(op.kName, op.x, op.q, [&]<class T, int W>() {
    launch({.name = op.kName,
            .stream = stream,
            .grid = blocks_for(op.x.rows(), 1),
            .block = whole_warps((columns + W - 1) / W, kThreads)},
           quantize_rows<T, W>, Rows<const T>(op.x), Rows<std::int8_t>(op.q), data<float>(op.scale),
           static_cast<int>(columns));
  });
}

void launch_dequantize_rows(cudaStream_t stream, const DequantizeRows& op) {
  const Extent extent{op.x.rows(), op.x.shape[1]};
  with_width(op.kName, op.x, op.q, [&]<class T, int W>() {
    launch(over(op.kName, stream, extent, W), dequantize_rows<T, W>, Rows<const std::int8_t>(op.q),
           data<float>(op.scale), Rows<T>(op.x), extent);
  });
}

const void* quantize_module() { return reinterpret_cast<const void*>(&quantize_rows<float, 1>); }

}  // namespace strata::cuda
