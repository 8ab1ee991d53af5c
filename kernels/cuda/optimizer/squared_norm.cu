// This file computes squared norms on CUDA, with and without a cast, for the gradient's norm;
// CudaKernels launches both through operators.h. They take tensors of any length and alignment, in
// bf16 or f32, and give the bits of the CPU's.
//
// Squared norm: partial[i] = sum of x^2 over elements [4096 i, 4096 (i + 1)), in f64.
// Cast and squared norm: y = x, rounded to the dtype of y, and the same sums of y.
//
// Shapes: x and y [n], contiguous; partial [ceil(n / 4096)] f64.
// Tile: one warp for 32 runs of 4096 elements, a run per lane. The warp copies 256 bytes of each
// run, coalesced, into shared memory, where each lane adds its own run in index order; the pieces
// of a row are permuted, which spreads 16-byte accesses down a column and along a row over all
// banks. While a tile is added up the next one is under way. Tiles are no larger than their
// content, so that a multiprocessor holds 13 warps and an H200 the 53k runs of an 8B model's layer.
// Numerics: bitwise equal to the CPU: squares of bf16 and f32 are exact in f64, and are added in
// index order. Conversions to bf16 and f64 one by one (F2F) run at a fraction of the rate of
// arithmetic; bf16 is rounded in pairs, and shifts and a product make the f64.
// Measured on one H200, 2026-11-21, 200M elements, TB/s (a copy moves 4.2): squared norm 4.4 in
// f32, 4.2 in bf16 (2.9 with F2F and larger tiles); cast with squared norm 3.8. Naive version:
// kernels/cpu.

#include <type_traits>

#include "kernels/cuda/common/copy_async.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"

namespace strata::cuda {
namespace {

constexpr std::int64_t kRun = SquaredNorm::kBlock;
/// How many pieces of 16 bytes a tile has of each run.
constexpr int kPieces = 16;
/// How many rows a warp copies at once.
constexpr int kRowsAtOnce = kWarp / kPieces;

template <class T>
using Tile = Vector<T, kWide<T>>[kWarp][kPieces];

/// Returns where a tile has a piece of row r.
__device__ __forceinline__ int place(int r, int piece) {
  constexpr int kPiecesOfAllBanks = 8;
  return piece ^ (r & (kPiecesOfAllBanks - 1));
}

/// How many columns a tile has.
template <class T>
constexpr int kColumns = kPieces * kWide<T>;

/// The runs of one warp.
template <class From, class To>
struct Runs {
  const From* x;  ///< the first element of the first run
  To* y;          ///< the same place of the output; null if only the norm is wanted
  std::int64_t elements;
  int count;
  int whole;  ///< how many of these, from the first, are complete and aligned
};

/// Calls fn(first) for every row `first` + lane / kPieces that is whole.
template <class Fn>
__device__ __forceinline__ void for_whole_rows(int whole, int lane, Fn fn) {
  if (whole == kWarp) {  // nearly always: addresses are then a constant apart
#pragma unroll
    for (int first = 0; first < kWarp; first += kRowsAtOnce) fn(first);
    return;
  }
#pragma unroll 1
  for (int first = 0; first + lane / kPieces < whole; first += kRowsAtOnce) fn(first);
}

/// Starts to copy columns [column, column + kColumns) of the runs into the tile.
template <class From, class To>
__device__ __forceinline__ void start_tile(Tile<From>& tile, const Runs<From, To>& runs, int column,
                                           int lane) {
  constexpr int W = kWide<From>;
  const int row = lane / kPieces;
  const int piece = lane % kPieces;
  const From* x = runs.x + row * kRun + column + piece * W;
  for_whole_rows(runs.whole, lane, [&](int first) {
    const int r = first + row;
    copy_async<From, W>(tile[r][place(r, piece)].values, x + first * kRun);
  });
  for (int r = runs.whole; r < runs.count; ++r) {  // one by one, with zeros after the last
    for (int i = lane; i < kColumns<From>; i += kWarp) {
      const std::int64_t at = r * kRun + column + i;
      tile[r][place(r, i / W)].values[i % W] =
          at < runs.elements ? runs.x[at] : narrow_to<From>(0.0f);
    }
  }
}

/// Rounds a tile that has arrived and writes it.
template <class From, class To>
__device__ __forceinline__ void write_tile(const Tile<From>& tile, const Runs<From, To>& runs,
                                           int column, int lane) {
  constexpr int W = kWide<From>;
  const int row = lane / kPieces;
  const int piece = lane % kPieces;
  To* y = runs.y + row * kRun + column + piece * W;
  for_whole_rows(runs.whole, lane, [&](int first) {
    const int r = first + row;
    float values[W];
    unpack(load_packed<From, W>(tile[r][place(r, piece)].values), values);
    store(y + first * kRun, values);
  });
  for (int r = runs.whole; r < runs.count; ++r) {
    for (int i = lane; i < kColumns<From>; i += kWarp) {
      const std::int64_t at = r * kRun + column + i;
      const From value = tile[r][place(r, i / W)].values[i % W];
      if (at < runs.elements) runs.y[at] = narrow_to<To>(widen(value));
    }
  }
}

/// A sum of squares in f64.
class SumOfSquares {
 public:
  __device__ __forceinline__ void add(float value) {
    const unsigned magnitude = __float_as_uint(value) & 0x7fffffffu;
    largest_ = max(largest_, magnitude);
    // As the upper bits of an f64 they are |value| * 2^(127 - 1023), subnormal numbers included;
    // infinities and NaNs become finite.
    const double scaled =
        __hiloint2double(static_cast<int>(magnitude >> 3), static_cast<int>(magnitude << 29));
    const double exact = scaled * 0x1p896;
    sum_ = fma(exact, exact, sum_);
  }

  [[nodiscard]] __device__ __forceinline__ double result() const {
    constexpr unsigned kInfinity = 0x7f800000;
    if (largest_ < kInfinity) return sum_;
    return static_cast<double>(__uint_as_float(largest_));
  }

 private:
  double sum_ = 0;
  unsigned largest_ = 0;  ///< bits of the largest |value|; NaNs are above infinity
};

/// Rounds W numbers to bf16, two by two.
template <int W>
__device__ __forceinline__ void round_to_bf16(float (&values)[W]) {
#pragma unroll
  for (int j = 0; j < W; j += 2) {
    const __nv_bfloat162_raw pair = __floats2bfloat162_rn(values[j], values[j + 1]);
    values[j] = __uint_as_float(static_cast<unsigned>(pair.x) << 16);
    values[j + 1] = __uint_as_float(static_cast<unsigned>(pair.y) << 16);
  }
}

/// Adds the squares of row r of a tile, rounded to To, in order.
template <class From, class To>
__device__ __forceinline__ void add_row(const Tile<From>& tile, int r, SumOfSquares& sum) {
  constexpr int W = kWide<From>;
#pragma unroll 4
  for (int piece = 0; piece < kPieces; ++piece) {
    float values[W];
    unpack(load_packed<From, W>(tile[r][place(r, piece)].values), values);
    if constexpr (!std::is_same_v<From, To>) round_to_bf16(values);
#pragma unroll
    for (const float value : values) sum.add(value);
  }
}

template <class From, class To>
__global__ void __launch_bounds__(kWarp)
    squared_norm(const From* x, To* y, std::int64_t n, bool aligned, double* partial,
                 std::int64_t run_count) {
  __shared__ Tile<From> tiles[2];
  const int lane = static_cast<int>(threadIdx.x);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kWarp;
  const int count = static_cast<int>(min(run_count - first, std::int64_t{kWarp}));
  const Runs<From, To> runs{
      .x = x + first * kRun,
      .y = y == nullptr ? nullptr : y + first * kRun,
      .elements = n - first * kRun,
      .count = count,
      .whole = aligned ? static_cast<int>(min(n / kRun - first, std::int64_t{count})) : 0};
  SumOfSquares sum;
  start_tile(tiles[0], runs, 0, lane);
  end_copy_group();
  for (int column = 0, now = 0; column < kRun; column += kColumns<From>, now ^= 1) {
    const int next = column + kColumns<From>;
    if (next < kRun) start_tile(tiles[now ^ 1], runs, next, lane);
    end_copy_group();
    wait_for_copy_groups<1>();
    __syncwarp();
    if (runs.y != nullptr) write_tile(tiles[now], runs, column, lane);
    add_row<From, To>(tiles[now], lane, sum);
    __syncwarp();  // the tile may be filled again
  }
  if (lane < count) partial[first + lane] = sum.result();
}

template <class From, class To>
void launch_runs(std::string_view name, cudaStream_t stream, const ConstTensorView& x,
                 const TensorView& y, const TensorView& partial) {
  const std::int64_t runs = partial.elements();
  const Launch where{
      .name = name, .stream = stream, .grid = blocks_for(runs, kWarp), .block = kWarp};
  launch(where, squared_norm<From, To>, data<From>(x), data<To>(y), x.elements(),
         rows_aligned({x, y}), data<double>(partial), runs);
}

}  // namespace

void enqueue(const Context& context, const SquaredNorm& op) {
  with_dtype(op.kName, op.x.dtype,
             [&]<class T>() { launch_runs<T, T>(op.kName, context.stream, op.x, {}, op.partial); });
}

void enqueue(const Context& context, const CastSquaredNorm& op) {
  if (op.x.dtype != DType::kF32) throw_unsupported(op.kName, op.x.dtype);
  with_dtype(op.kName, op.y.dtype, [&]<class To>() {
    launch_runs<float, To>(op.kName, context.stream, op.x, op.y, op.partial);
  });
}

const void* squared_norm_module() {
  return reinterpret_cast<const void*>(&squared_norm<float, float>);
}

}  // namespace strata::cuda
