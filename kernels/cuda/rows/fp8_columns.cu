// This file rounds columns to e4m3 with a scale each, and transposes codes, on CUDA; CudaKernels
// launches both through operators.h. They take matrices of any size and alignment, in bf16 or f32,
// and give the bits that strata/ops/fp8.h defines. Most columns of training are quantised by
// fp8_columns_kept.cu, which reads them once.
//
// Quantise: scale = fp8_scale(max |x|) of each column, q = (x / scale)^T.
// Transpose: t = (w * scale / t_scale)^T with the largest scale as t_scale.
//
// Shapes: x [N, C], q [C, N], w [R, C], t [C, R], rows may be strided; scales f32.
// Tile: maxima take 8 rows at a time and W columns a thread, some rows for each block, which adds
// its maxima to those of others by atomics on bits: their order does not matter. Transpositions
// take 128 rows and 8 * P columns. A thread has P columns (16 bytes of bf16 or of codes) of 4 rows,
// and rounds them down the columns, to words of 4 rows. These go through shared memory and leave as
// 16 bytes, 128 bytes of a row of the output.
// Numerics: quotients by powers of two are exact; bitwise equal to the CPU but for the bits of
// NaNs. Naive version: kernels/cpu.

#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/rows/fp8_columns_kept.h"
#include "kernels/cuda/rows/fp8_divisor.cuh"
#include "kernels/cuda/rows/magnitudes.cuh"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kGroups = 8;               ///< of columns, or of 8 rows where maxima are taken
constexpr int kTileRows = 128;           ///< of the input
constexpr int kChunks = kTileRows / 16;  ///< of 16 bytes, likewise

/// The maxima of W columns, as they lie in a Packed.
template <class T, int W>
struct ColumnMaxima {
  static constexpr bool kPairs = sizeof(T) == sizeof(__nv_bfloat16) && W > 1;
  Packed<T, W> bits{};

  __device__ __forceinline__ void take(const Packed<T, W>& x) {
#pragma unroll
    for (int i = 0; i < Packed<T, W>::kWords; ++i) {
      if constexpr (kPairs) {
        bits.words[i] = __vmaxu2(bits.words[i], x.words[i] & kMagnitudes);
      } else {
        constexpr unsigned kBits = sizeof(T) == sizeof(float) ? kMagnitude : kMagnitudes;
        const unsigned larger = max(static_cast<unsigned>(bits.words[i]), x.words[i] & kBits);
        bits.words[i] = static_cast<typename Packed<T, W>::Word>(larger);
      }
    }
  }
};

/// Takes the maxima of columns over some of the rows: blockIdx.y of gridDim.y. `largest` begins as
/// zeros.
template <class T, int W>
__global__ void __launch_bounds__(kThreads)
    column_maxima(Rows<const T> x, unsigned* largest, std::int64_t rows, std::int64_t columns) {
  __shared__ unsigned shared[kGroups][kWarp * W];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int group = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kWarp * W;
  const std::int64_t c = first + lane * W;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * kGroups;
  ColumnMaxima<T, W> maxima;
  if (c < columns) {
#pragma unroll 4
    for (std::int64_t n = blockIdx.y * std::int64_t{kGroups} + group; n < rows; n += step) {
      maxima.take(load_packed<T, W>(x.row(n) + c));
    }
  }
  float values[W];
  unpack(maxima.bits, values);
#pragma unroll
  for (int i = 0; i < W; ++i) shared[group][lane * W + i] = __float_as_uint(values[i]);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kWarp * W; i += kThreads) {
    unsigned most = 0;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) most = max(most, shared[g][i]);
    if (first + i < columns) atomicMax(largest + first + i, most);
  }
}

/// Makes scales of maxima, in place.
__global__ void scales_of(float* scales, std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) scales[i] = fp8_scale(__float_as_uint(scales[i]));
}

/// Writes the largest of scales to all of `to`; NaN if one is. One block.
__global__ void spread_largest(const float* scales, std::int64_t rows, float* to,
                               std::int64_t columns) {
  __shared__ Largest scratch[kMostWarps];
  Largest largest{__float_as_uint(fp8_scale(0))};
  for (std::int64_t r = threadIdx.x; r < rows; r += blockDim.x) {
    largest.bits = max(largest.bits, __float_as_uint(scales[r]) & kMagnitude);
  }
  largest = block_reduce_once(largest, Largest{0}, scratch, TakeLarger{});
  for (std::int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
    to[c] = __uint_as_float(largest.bits);
  }
}

/// The place of a block's tile: first row and column of the input.
struct TilePlace {
  std::int64_t row;
  std::int64_t column;

  __device__ static TilePlace of_block(std::int64_t columns, int tile_columns) {
    const std::int64_t across = (columns + tile_columns - 1) / tile_columns;
    return {blockIdx.x / across * kTileRows, blockIdx.x % across * tile_columns};
  }
};

/// A tile on its way from rows to columns: words of 4 rows by columns. Chunks of a column are
/// exchanged so that neither the threads that write the same word of 8 groups of columns nor those
/// that read a column meet in a bank.
template <int P>
struct Tile {
  static constexpr int kColumns = kGroups * P;
  uint4 chunks[kColumns][kChunks];

  /// Puts a word of rows 4 * `word` to 4 * `word` + 3 of a column.
  __device__ __forceinline__ void put(int column, int word, unsigned rows) {
    unsigned* const chunk = reinterpret_cast<unsigned*>(&chunks[column][(word / 4) ^ (column / P)]);
    chunk[word % 4] = rows;
  }
  /// Writes the tile to rows of `to` [columns, rows]. The block has put all of it.
  template <bool kWideStore>
  __device__ __forceinline__ void write(const Rows<std::uint8_t>& to, const TilePlace& place,
                                        std::int64_t rows, std::int64_t columns) const {
#pragma unroll
    for (int i = static_cast<int>(threadIdx.x); i < kColumns * kChunks; i += kThreads) {
      const int column = i / kChunks;
      const int chunk = i % kChunks;
      const std::int64_t n = place.row + 16 * chunk;
      if (place.column + column >= columns || n >= rows) continue;
      const uint4 codes = chunks[column][chunk ^ (column / P)];
      std::uint8_t* const at = to.row(place.column + column) + n;
      if constexpr (kWideStore) {
        store_words(at, codes.x, codes.y, codes.z, codes.w);
      } else {
        const auto bytes = __builtin_bit_cast(Vector<std::uint8_t, 16>, codes);
        for (int b = 0; b < 16 && n + b < rows; ++b) at[b] = bytes.values[b];
      }
    }
  }
};

/// Loads P columns of a row from c on, as f32; zeros beyond the matrix.
template <bool kWideLoad, class T, int P, class Widen>
__device__ __forceinline__ void load_columns(const Rows<const T>& x, std::int64_t n, std::int64_t c,
                                             std::int64_t rows, std::int64_t columns,
                                             const Widen& widen_all, float (&to)[P]) {
  Vector<T, P> values{};
  if (n < rows && c < columns) {
    if constexpr (kWideLoad) {
      values = load_raw<T, P>(x.row(n) + c);
    } else {
      for (int i = 0; i < P && c + i < columns; ++i) values.values[i] = x.row(n)[c + i];
    }
  }
  widen_all(values, to);
}

/// Transposes a tile. `widen_all` makes numbers of P elements, and quotient(j, i, x) what is to be
/// rounded of one in row j and column i of the thread.
template <bool kWideAccess, class T, int P, class Widen, class Quotient>
__device__ __forceinline__ void transpose_tile(const Rows<const T>& x, const Rows<std::uint8_t>& to,
                                               std::int64_t rows, std::int64_t columns,
                                               const TilePlace& place, const Widen& widen_all,
                                               const Quotient& quotient) {
  __shared__ Tile<P> tile;
  const int group = static_cast<int>(threadIdx.x) % kGroups;
  const int word = static_cast<int>(threadIdx.x) / kGroups;
  const std::int64_t n = place.row + 4 * word;
  float values[4][P];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    load_columns<kWideAccess>(x, n + j, place.column + group * P, rows, columns, widen_all,
                              values[j]);
  }
#pragma unroll
  for (int i = 0; i < P; ++i) {
    tile.put(group * P + i, word,
             fp8_word(quotient(0, i, values[0][i]), quotient(1, i, values[1][i]),
                      quotient(2, i, values[2][i]), quotient(3, i, values[3][i])));
  }
  __syncthreads();
  tile.template write<kWideAccess>(to, place, rows, columns);
}

template <class T, bool kWideAccess>
__global__ void __launch_bounds__(kThreads)
    quantize_columns(Rows<const T> x, Rows<std::uint8_t> q, const float* scales, std::int64_t rows,
                     std::int64_t columns) {
  constexpr int P = 8;
  const TilePlace place = TilePlace::of_block(columns, Tile<P>::kColumns);
  const std::int64_t c = place.column + static_cast<int>(threadIdx.x) % kGroups * P;
  float inverses[P];
#pragma unroll
  for (int i = 0; i < P; ++i) {
    inverses[i] = c + i < columns ? Fp8Divisor::by(scales[c + i]).inverse : 0.0f;
  }
  const auto widen_all = [](const Vector<T, P>& from, float(&to)[P]) { unpack(from, to); };
  const auto quotient = [&](int, int i, float value) { return value * inverses[i]; };
  transpose_tile<kWideAccess, T, P>(x, q, rows, columns, place, widen_all, quotient);
}

/// Returns codes as f32, exactly.
template <int P>
__device__ __forceinline__ void widen_codes(const Vector<std::uint8_t, P>& from, float (&to)[P]) {
#pragma unroll
  for (int i = 0; i < P; i += 2) {
    const auto pair = static_cast<__nv_fp8x2_storage_t>(from.values[i] | from.values[i + 1] << 8);
    const float2 numbers = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(pair, __NV_E4M3)));
    to[i] = numbers.x;
    to[i + 1] = numbers.y;
  }
}

template <bool kWideAccess>
__global__ void __launch_bounds__(kThreads)
    transpose_codes(Rows<const std::uint8_t> w, Rows<std::uint8_t> t, const float* scales,
                    const float* largest, std::int64_t rows, std::int64_t columns) {
  constexpr int P = 16;
  const TilePlace place = TilePlace::of_block(columns, Tile<P>::kColumns);
  const std::int64_t n = place.row + static_cast<int>(threadIdx.x) / kGroups * 4;
  const float inverse = Fp8Divisor::by(largest[0]).inverse;
  float factors[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) factors[j] = n + j < rows ? scales[n + j] * inverse : 0.0f;
  const auto widen_all = [](const Vector<std::uint8_t, P>& from, float(&to)[P]) {
    widen_codes<P>(from, to);
  };
  const auto quotient = [&](int j, int, float value) { return value * factors[j]; };
  transpose_tile<kWideAccess, std::uint8_t, P>(w, t, rows, columns, place, widen_all, quotient);
}

/// Returns the blocks that cover a matrix with tiles.
unsigned tiles_over(std::int64_t rows, std::int64_t columns, int tile_columns) {
  const std::int64_t across = (columns + tile_columns - 1) / tile_columns;
  return blocks_for((rows + kTileRows - 1) / kTileRows * across, 1);
}

/// Takes the maxima of all columns; `largest` [C] are zeros.
void launch_maxima(const Context& context, const QuantizeFp8Columns& op) {
  constexpr int kBlocksPerMultiprocessor = 8;
  const std::int64_t rows = op.x.rows();
  const std::int64_t columns = op.x.shape[1];
  const bool wide = is_wide(op.x.dtype, columns, {op.x});
  with_dtype_and_width(op.kName, op.x.dtype, wide, [&]<class T, int W>() {
    const unsigned across = blocks_for(columns, std::int64_t{kWarp} * W);
    const unsigned wanted = static_cast<unsigned>(kBlocksPerMultiprocessor * multiprocessors());
    const unsigned down = std::clamp((wanted + across - 1) / std::max(across, 1u), 1u,
                                     std::min(blocks_for(rows, kGroups), 65535u));
    launch(
        {.name = op.kName, .stream = context.stream, .grid = dim3(across, down), .block = kThreads},
        column_maxima<T, W>, Rows<const T>(op.x), data<unsigned>(op.scale), rows, columns);
  });
}

}  // namespace

void enqueue(const Context& context, const QuantizeFp8Columns& op) {
  const std::int64_t rows = op.x.rows();
  const std::int64_t columns = op.x.shape[1];
  if (columns == 0) return;
  if (keeps_columns(op)) return quantize_kept_columns(context, op);
  STRATA_CUDA_CHECK(cudaMemsetAsync(op.scale.data, 0, op.scale.bytes().bytes, context.stream));
  if (rows > 0) launch_maxima(context, op);
  const Launch by_columns{.name = op.kName,
                          .stream = context.stream,
                          .grid = blocks_for(columns, kThreads),
                          .block = kThreads};
  launch(by_columns, scales_of, data<float>(op.scale), columns);
  const bool wide = columns % 8 == 0 && rows % 16 == 0 && rows_aligned({op.x, op.q});
  const Launch where{.name = op.kName,
                     .stream = context.stream,
                     .grid = tiles_over(rows, columns, Tile<8>::kColumns),
                     .block = kThreads};
  with_dtype(op.kName, op.x.dtype, [&]<class T>() {
    const auto kernel = wide ? quantize_columns<T, true> : quantize_columns<T, false>;
    launch(where, kernel, Rows<const T>(op.x), Rows<std::uint8_t>(op.q), data<float>(op.scale),
           rows, columns);
  });
}

void enqueue(const Context& context, const TransposeFp8& op) {
  const std::int64_t rows = op.w.rows();
  const std::int64_t columns = op.w.shape[1];
  if (columns == 0) return;
  constexpr unsigned kMostThreads = 1024;
  const Launch one_block{.name = op.kName, .stream = context.stream, .block = kMostThreads};
  launch(one_block, spread_largest, data<float>(op.scale), rows, data<float>(op.t_scale), columns);
  const bool wide = columns % 16 == 0 && rows % 16 == 0 && rows_aligned({op.w, op.t});
  const Launch where{.name = op.kName,
                     .stream = context.stream,
                     .grid = tiles_over(rows, columns, Tile<16>::kColumns),
                     .block = kThreads};
  const auto kernel = wide ? transpose_codes<true> : transpose_codes<false>;
  launch(where, kernel, Rows<const std::uint8_t>(op.w), Rows<std::uint8_t>(op.t),
         data<float>(op.scale), data<float>(op.t_scale), rows, columns);
}

const void* fp8_columns_module() { return reinterpret_cast<const void*>(&scales_of); }

}  // namespace strata::cuda
