// This file computes SwiGLU, forward and backward, on CUDA; CudaKernels launches both through
// operators.h. They take rows of any width and alignment, in bf16 or f32; outputs of the backward
// may be its inputs.
//
// Forward: y = gate * s * up with s = sigmoid(gate), or what it is for GELU (swiglu_pieces.cuh).
// Backward: d_gate = d_y * up * s * (1 + gate * (1 - s)), d_up = d_y * gate * s, y as in forward.
//
// Shapes: gate_up and d_gate_up [N, 2F] (gate in columns [0, F)), y and d_y [N, F]; rows may be
// strided.
// Tile: one thread for W columns of one row (W = 8 in bf16: loads and stores of 16 bytes). Where y
// or d_gate_up is asked for in e4m3, a block takes a row. Of y a thread keeps eight pieces of W
// columns in registers, and the backward 44 KiB of d_gate_up in shared memory, since registers
// would leave two blocks on a multiprocessor; what is beyond these is computed or read again.
// Numerics: f32, each result rounded once. In bf16 the exponential and the division of the
// sigmoid are the fast ones (a few f32 ulp: far below bf16), because exact ones would take as long
// as the memory traffic; in f32 they are exact to the last bits.
// Measured on one H200, 2026-11-21, bf16: forward 4.3 TB/s, backward 4.2 (a copy moves 4.1).
// Naive version: kernels/cpu.

#include "kernels/cuda/common/chain.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/grid.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/rows/fp8_divisor.cuh"
#include "kernels/cuda/rows/magnitudes.cuh"
#include "kernels/cuda/rows/swiglu_pieces.cuh"

namespace strata::cuda {
namespace {

template <class T, int W, Activation kActivation>
__global__ void swiglu_forward(Rows<const T> gate_up, Rows<T> y, Extent extent) {
  begin_chained();
  for_each_piece<W>(extent, [&](std::int64_t n, std::int64_t c) {
    float gate[W];
    float up[W];
    load(gate_up.row(n) + c, gate);
    load(gate_up.row(n) + extent.columns + c, up);
    swiglu<T, kActivation>(gate, up);
    store(y.row(n) + c, gate);
  });
}

/// The pieces of a row that a thread of swiglu_forward_fp8 keeps.
constexpr int kHeld = 8;

/// Writes y as e4m3 with a scale for each row, and y itself if it is there.
template <class T, int W, Activation kActivation>
__global__ void __launch_bounds__(kElementwiseThreads)
    swiglu_forward_fp8(Rows<const T> gate_up, Rows<T> y, Rows<std::uint8_t> y8, float* scales,
                       int columns) {
  begin_chained();
  __shared__ Largest scratch[kMostWarps];
  const std::int64_t n = blockIdx.x;
  const int first = static_cast<int>(threadIdx.x) * W;
  const int step = static_cast<int>(blockDim.x) * W;
  const auto computed = [&](int c) {
    float gate[W];
    float up[W];
    load(gate_up.row(n) + c, gate);
    load(gate_up.row(n) + columns + c, up);
    swiglu<T, kActivation>(gate, up);
    return __builtin_bit_cast(Packed<T, W>, pack<T, W>(gate));
  };
  unsigned largest = 0;
  const auto visit = [&](int c) {
    const Packed<T, W> piece = computed(c);
    if (y.data != nullptr) store_raw(y.row(n) + c, piece);
    largest = max(largest, largest_magnitude(piece));
    return piece;
  };
  Packed<T, W> held[kHeld];
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int c = first + i * step;
    if (c < columns) held[i] = visit(c);
  }
  for (int c = first + kHeld * step; c < columns; c += step) visit(c);
  const Fp8Divisor divisor = divisor_of_row(largest, scratch, scales + n);
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int c = first + i * step;
    if (c < columns) store_codes(y8.row(n) + c, held[i], divisor);
  }
  for (int c = first + kHeld * step; c < columns; c += step) {
    store_codes(y8.row(n) + c, computed(c), divisor);
  }
}

/// W columns of the backward: what is read, and then what is written in its place.
template <class T, int W>
struct BackwardPiece {
  float d[W];     ///< d_y; then d_up
  float gate[W];  ///< then d_gate
  float up[W];    ///< then y

  __device__ __forceinline__ void read(const Rows<const T>& d_y, const Rows<const T>& gate_up,
                                       std::int64_t n, std::int64_t c, std::int64_t columns) {
    load(d_y.row(n) + c, d);
    load(gate_up.row(n) + c, gate);
    load(gate_up.row(n) + columns + c, up);
  }
  template <Activation kActivation>
  __device__ __forceinline__ void differentiate() {
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const float s = opening<T, kActivation>(gate[i]);
      const float opened = gate[i] * s;
      const float d_gate = gate_gradient<kActivation>(d[i] * up[i], gate[i], s);
      d[i] *= opened;
      up[i] *= opened;
      gate[i] = d_gate;
    }
  }
};

template <class T, int W, Activation kActivation>
__global__ void swiglu_backward(Rows<const T> d_y, Rows<const T> gate_up, Rows<T> d_gate_up,
                                Rows<T> y, Extent extent) {
  for_each_piece<W>(extent, [&](std::int64_t n, std::int64_t c) {
    BackwardPiece<T, W> piece;
    piece.read(d_y, gate_up, n, c, extent.columns);
    piece.template differentiate<kActivation>();
    store(d_gate_up.row(n) + c, piece.gate);
    store(d_gate_up.row(n) + extent.columns + c, piece.d);
    store(y.row(n) + c, piece.up);
  });
}

/// How much of d_gate_up's row a block of swiglu_backward_fp8 keeps in shared memory: what every
/// GPU gives without asking, and five blocks on a multiprocessor of compute capability 9.0.
constexpr int kKeptBytes = 44 * 1024;
constexpr int kBackwardBlocks = 5;

/// Does the same, and writes d_gate_up as e4m3 with a scale for each row. Columns from `kept` on,
/// a multiple of W, are read again. A thread reads what it wrote itself, so there is no barrier but
/// that of the reduction.
template <class T, int W, Activation kActivation>
__global__ void __launch_bounds__(kElementwiseThreads, kBackwardBlocks)
    swiglu_backward_fp8(Rows<const T> d_y, Rows<const T> gate_up, Rows<T> d_gate_up, Rows<T> y,
                        Rows<std::uint8_t> codes, float* scales, int columns, int kept) {
  extern __shared__ uint4 kept_gradients[];  // those of gates, then those of ups
  __shared__ Largest scratch[kMostWarps];
  T* const gates = reinterpret_cast<T*>(kept_gradients);
  T* const ups = gates + kept;
  const std::int64_t n = blockIdx.x;
  const int first = static_cast<int>(threadIdx.x) * W;
  const int step = static_cast<int>(blockDim.x) * W;
  unsigned largest = 0;
  for (int c = first; c < columns; c += step) {
    BackwardPiece<T, W> piece;
    piece.read(d_y, gate_up, n, c, columns);
    piece.template differentiate<kActivation>();
    const auto gate = __builtin_bit_cast(Packed<T, W>, pack<T, W>(piece.gate));
    const auto up = __builtin_bit_cast(Packed<T, W>, pack<T, W>(piece.d));
    store_raw(d_gate_up.row(n) + c, gate);
    store_raw(d_gate_up.row(n) + columns + c, up);
    store(y.row(n) + c, piece.up);
    if (c < kept) {
      store_raw(gates + c, gate);
      store_raw(ups + c, up);
    }
    largest = max(largest, max(largest_magnitude(gate), largest_magnitude(up)));
  }
  const Fp8Divisor divisor = divisor_of_row(largest, scratch, scales + n);
  int c = first;
  for (; c < kept; c += step) {
    store_codes(codes.row(n) + c, load_packed<T, W>(gates + c), divisor);
    store_codes(codes.row(n) + columns + c, load_packed<T, W>(ups + c), divisor);
  }
  for (; c < columns; c += step) {
    for (const int at : {c, columns + c}) {
      store_codes(codes.row(n) + at, load_packed<T, W>(d_gate_up.row(n) + at), divisor);
    }
  }
}

/// Calls run<activation>() for the activation of an operator.
template <class Run>
void with_activation(Activation activation, const Run& run) {
  switch (activation) {
    case Activation::kSilu: return run.template operator()<Activation::kSilu>();
    case Activation::kGeluTanh: return run.template operator()<Activation::kGeluTanh>();
    case Activation::kGelu: return run.template operator()<Activation::kGelu>();
  }
}

void launch_forward_fp8(const Context& context, const SwigluForward& op) {
  const DType dtype = op.gate_up.dtype;
  const std::int64_t columns = op.y8.shape[1];
  const bool wide = is_wide(dtype, columns, {op.gate_up, op.y}) &&
                    rows_aligned_to(16 / static_cast<int>(size_of(dtype)), {op.y8});
  with_dtype_and_width(op.kName, dtype, wide, [&]<class T, int W>() {
    with_activation(op.activation, [&]<Activation kActivation>() {
      // Two pieces a thread or more: what a thread loads is then under way together.
      launch({.name = op.kName,
              .stream = context.stream,
              .grid = blocks_for(op.y8.rows(), 1),
              .block = whole_warps((columns + 2 * W - 1) / (2 * W), kElementwiseThreads),
              .chained = true},
             swiglu_forward_fp8<T, W, kActivation>, Rows<const T>(op.gate_up), Rows<T>(op.y),
             Rows<std::uint8_t>(op.y8), data<float>(op.y_scale), static_cast<int>(columns));
    });
  });
}

void launch_backward_fp8(const Context& context, const SwigluBackward& op) {
  const DType dtype = op.y.dtype;
  const std::int64_t columns = op.y.shape[1];
  const bool wide = is_wide(dtype, columns, {op.d_y, op.gate_up, op.d_gate_up, op.y}) &&
                    rows_aligned_to(16 / static_cast<int>(size_of(dtype)), {op.d_gate_up8});
  with_dtype_and_width(op.kName, dtype, wide, [&]<class T, int W>() {
    constexpr std::int64_t kColumnBytes = 2 * sizeof(T);
    const std::int64_t kept = std::min<std::int64_t>(columns, kKeptBytes / kColumnBytes);
    with_activation(op.activation, [&]<Activation kActivation>() {
      launch({.name = op.kName,
              .stream = context.stream,
              .grid = blocks_for(op.y.rows(), 1),
              .block = whole_warps((columns + W - 1) / W, kElementwiseThreads),
              .shared_bytes = static_cast<std::size_t>(kept * kColumnBytes)},
             swiglu_backward_fp8<T, W, kActivation>, Rows<const T>(op.d_y),
             Rows<const T>(op.gate_up), Rows<T>(op.d_gate_up), Rows<T>(op.y),
             Rows<std::uint8_t>(op.d_gate_up8), data<float>(op.d_gate_up_scale),
             static_cast<int>(columns), static_cast<int>(kept));
    });
  });
}

}  // namespace

void enqueue(const Context& context, const SwigluForward& op) {
  if (op.y8) return launch_forward_fp8(context, op);
  const Extent extent{op.y.rows(), op.y.shape[1]};
  const bool wide = is_wide(op.y.dtype, extent.columns, {op.gate_up, op.y});
  with_dtype_and_width(op.kName, op.y.dtype, wide, [&]<class T, int W>() {
    with_activation(op.activation, [&]<Activation kActivation>() {
      launch(chained(over(op.kName, context.stream, extent, W)), swiglu_forward<T, W, kActivation>,
             Rows<const T>(op.gate_up), Rows<T>(op.y), extent);
    });
  });
}

void enqueue(const Context& context, const SwigluBackward& op) {
  if (op.d_gate_up8) return launch_backward_fp8(context, op);
  const Extent extent{op.y.rows(), op.y.shape[1]};
  const bool wide = is_wide(op.y.dtype, extent.columns, {op.d_y, op.gate_up, op.d_gate_up, op.y});
  with_dtype_and_width(op.kName, op.y.dtype, wide, [&]<class T, int W>() {
    with_activation(op.activation, [&]<Activation kActivation>() {
      launch(over(op.kName, context.stream, extent, W), swiglu_backward<T, W, kActivation>,
             Rows<const T>(op.d_y), Rows<const T>(op.gate_up), Rows<T>(op.d_gate_up), Rows<T>(op.y),
             extent);
    });
  });
}

const void* swiglu_module() {
  return reinterpret_cast<const void*>(&swiglu_forward<float, 1, Activation::kSilu>);
}

}  // namespace strata::cuda
