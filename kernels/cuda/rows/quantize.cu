// This file rounds rows to int8 and e4m3 with a scale each, and back, on CUDA; CudaKernels
// launches them through operators.h. They take rows of any width and alignment, in bf16 or f32, and
// give the bits that strata/ops/quantize.h and fp8.h define.
//
// Quantise: scale = max |x| / 127, q = x / scale to the nearest integer, row by row; for e4m3 scale
// is a power of two, and q the nearest e4m3.
// Dequantise: x = q * scale.
//
// Shapes: x [N, C], q [N, C] int8 or e4m3, rows may be strided; scale [N] f32.
// Tile: quantise takes a block a row, of which a thread holds four pieces of W columns; what is
// beyond these is read twice, the second time from a cache. Dequantise takes a thread for W columns
// of one row. W = 8 in bf16, 4 in f32: 16 bytes of x. Numerics: f32, as if divided exactly; the
// maximum is that of the bits of magnitudes, so NaNs come out on top and the order does not matter;
// bitwise equal to the CPU but for the bits of NaNs. Naive version: kernels/cpu.

#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/grid.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/rows/fp8_divisor.cuh"
#include "kernels/cuda/rows/int8_divisor.cuh"
#include "kernels/cuda/rows/magnitudes.cuh"

namespace strata::cuda {
namespace {

constexpr int kHeld = 4;  ///< pieces of a row that a thread of quantize_rows keeps in registers

/// The most threads of a block, and how many blocks of these a multiprocessor has at least: for
/// int8 so many that a few registers spill. Codes in e4m3 take fewer registers, and rows are as
/// wide as q, k and v together.
template <class D>
struct BlockShape {
  static constexpr int kThreads = 256;
  static constexpr int kResident = 5;
};
template <>
struct BlockShape<Fp8Divisor> {
  static constexpr int kThreads = 512;
  static constexpr int kResident = 3;
};

/// `D` says what a row is divided by, and what the quotients become.
template <class D, class T, int W>
__global__ void __launch_bounds__(BlockShape<D>::kThreads, BlockShape<D>::kResident)
    quantize_rows(Rows<const T> x, Rows<typename D::Code> q, float* scales, int columns) {
  __shared__ Largest scratch[kMostWarps];
  const std::int64_t n = blockIdx.x;
  const int first = static_cast<int>(threadIdx.x) * W;
  const int step = static_cast<int>(blockDim.x) * W;
  const T* const row = x.row(n);
  Packed<T, W> held[kHeld] = {};
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int c = first + i * step;
    if (c < columns) held[i] = load_packed<T, W>(row + c);
  }
  Largest largest{0};
#pragma unroll
  for (int i = 0; i < kHeld; ++i) largest.bits = max(largest.bits, largest_magnitude(held[i]));
  for (int c = first + kHeld * step; c < columns; c += step) {
    largest.bits = max(largest.bits, largest_magnitude(load_packed<T, W>(row + c)));
  }
  largest = block_reduce_once(largest, Largest{0}, scratch, TakeLarger{});
  const auto divisor = D::of(largest.bits);
  if (threadIdx.x == 0) scales[n] = divisor.scale;
  const auto store_levels = [&](int c, const Packed<T, W>& piece) {
    float values[W];
    unpack(piece, values);
    if constexpr (D::kReadSoon) {
      store_raw(q.row(n) + c, divisor.levels(values));
    } else {
      store_raw_streaming(q.row(n) + c, divisor.levels(values));
    }
  };
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int c = first + i * step;
    if (c < columns) store_levels(c, held[i]);
  }
  for (int c = first + kHeld * step; c < columns; c += step) {
    store_levels(c, load_packed<T, W>(row + c));
  }
}

template <class D, class T, int W>
__global__ void dequantize_rows(Rows<const typename D::Code> q, const float* scales, Rows<T> x,
                                Extent extent) {
  for_each_piece<W>(extent, [&](std::int64_t n, std::int64_t c) {
    const float scale = scales[n];
    const auto levels = load_raw<typename D::Code, W>(q.row(n) + c);
    float values[W];
#pragma unroll
    for (int i = 0; i < W; ++i) {
      values[i] = __fmul_rn(D::number(levels.values[i]), scale);
    }
    store(x.row(n) + c, values);
  });
}

/// Calls `body.operator()<T, W>()` for the widest access that both sides allow.
template <class Body>
void with_width(std::string_view name, const ConstTensorView& x, const ConstTensorView& q,
                const Body& body) {
  const int width = 16 / static_cast<int>(size_of(x.dtype));
  const bool wide = is_wide(x.dtype, x.shape[1], {x}) && rows_aligned_to(width, {q});
  with_dtype_and_width(name, x.dtype, wide, body);
}

/// Launches an operator that divides rows by `D`.
template <class D, class O>
void launch_quantize_rows(const Context& context, const O& op) {
  const std::int64_t columns = op.x.shape[1];
  with_width(op.kName, op.x, op.q, [&]<class T, int W>() {
    launch({.name = op.kName,
            .stream = context.stream,
            .grid = blocks_for(op.x.rows(), 1),
            .block = whole_warps((columns + W * kHeld - 1) / (W * kHeld), BlockShape<D>::kThreads)},
           quantize_rows<D, T, W>, Rows<const T>(op.x), Rows<typename D::Code>(op.q),
           data<float>(op.scale), static_cast<int>(columns));
  });
}

/// Launches the way back.
template <class D>
void launch_dequantize_rows(const Context& context, const DequantizeRows& op) {
  const Extent extent{op.x.rows(), op.x.shape[1]};
  with_width(op.kName, op.x, op.q, [&]<class T, int W>() {
    launch(over(op.kName, context.stream, extent, W), dequantize_rows<D, T, W>,
           Rows<const typename D::Code>(op.q), data<float>(op.scale), Rows<T>(op.x), extent);
  });
}

}  // namespace

void enqueue(const Context& context, const QuantizeRows& op) {
  launch_quantize_rows<Divisor>(context, op);
}

void enqueue(const Context& context, const QuantizeFp8Rows& op) {
  launch_quantize_rows<Fp8Divisor>(context, op);
}

void enqueue(const Context& context, const DequantizeRows& op) {
  if (op.q.dtype == DType::kE4M3) {
    launch_dequantize_rows<Fp8Divisor>(context, op);
  } else {
    launch_dequantize_rows<Divisor>(context, op);
  }
}

const void* quantize_module() {
  return reinterpret_cast<const void*>(&quantize_rows<Divisor, float, 1>);
}

}  // namespace strata::cuda
