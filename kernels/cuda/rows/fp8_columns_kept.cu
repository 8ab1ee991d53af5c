// This file rounds columns of bf16 to e4m3 with a scale each, and transposes them, on GPUs with
// clusters of blocks (sm_90 and later). It reads its input once; fp8_columns.cu calls it where the
// columns fit, and has the kernels for all else. Both give the bits that strata/ops/fp8.h defines.
//
// scale = fp8_scale(max |x|) of each column, q = (x / scale)^T.
//
// Shapes: x [N, C], q [C, N], rows may be strided; scale [C] f32.
// Tile: a cluster of one to eight blocks keeps a stripe of 32 columns, each block some of its rows,
// up to 72 KiB. The blocks take the maxima of what they have, write them to each other, and write
// codes of what they kept. Three blocks share a multiprocessor, so that others load while one waits
// for its cluster.
// Shared memory: lines of 128 bytes hold two rows as 8 pieces of 16 bytes, and the piece at p is
// moved to p ^ g for the line's group g of 16 rows, modulo 8. A warp writes all pieces of a line
// together. It reads words of one piece of 8 groups, which are then in different banks: 128 rows
// of 8 columns, two columns a thread. Codes leave as 16 bytes, 128 bytes of a row of q.
// Numerics: quotients by powers of two are exact; bitwise equal to the CPU but for the bits of
// NaNs. Naive version: kernels/cpu.

#include "kernels/cuda/rows/fp8_columns_kept.h"

#include "kernels/cuda/common/cluster.cuh"
#include "kernels/cuda/common/copy_async.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/rows/fp8_divisor.cuh"
#include "kernels/cuda/rows/magnitudes.cuh"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kBlocks = 3;        ///< of a multiprocessor
constexpr int kPieceColumns = 8;  ///< 16 bytes of bf16
constexpr int kPieces = 4;        ///< of a row of the stripe
constexpr int kColumns = kPieces * kPieceColumns;
constexpr int kWords = kColumns / 2;  ///< of a row, two columns each
constexpr int kRowBytes = 2 * kColumns;
constexpr int kLoadRows = kThreads / kPieces;  ///< that a block loads at a time
constexpr int kGroupRows = 16;                 ///< 16 bytes of codes
constexpr int kGroups = 8;                     ///< of a warp, and of different swizzles
constexpr int kTileRows = kGroups * kGroupRows;
constexpr int kMostRows = 1152;  ///< of a block

struct Arguments {
  Rows<const __nv_bfloat16> x;
  Rows<std::uint8_t> q;
  float* scale;
  std::int64_t rows;
  std::int64_t columns;
  int block_rows;  ///< a multiple of kLoadRows
};

/// What a block has of the matrix: so many rows from `row` on, and the stripe from `column` on.
struct Share {
  std::int64_t row;
  std::int64_t column;
  int rows;  ///< a multiple of kGroupRows, may be 0

  __device__ explicit Share(const Arguments& p)
      : row(static_cast<std::int64_t>(cluster_rank()) * p.block_rows),
        column(static_cast<std::int64_t>(blockIdx.x / cluster_blocks()) * kColumns),
        rows(static_cast<int>(
            max(min(p.rows - row, static_cast<std::int64_t>(p.block_rows)), std::int64_t{0}))) {}
};

/// Maxima of magnitudes of the stripe's columns, two to a word.
struct Maxima {
  unsigned of_warps[kWarps][kWords];
  unsigned of_blocks[kMostClusterBlocks][kWords];
};

/// Returns where shared memory has a piece of a row of the share.
__device__ __forceinline__ unsigned piece_offset(unsigned row, unsigned piece) {
  const unsigned place = (row % 2 * kPieces + piece) ^ (row / kGroupRows % kGroups);
  return row / 2 * (2 * kRowBytes) + place * 16;
}

/// Starts to copy the pieces of this thread: one of each of its rows, kLoadRows apart.
__device__ __forceinline__ void start_copies(const Arguments& p, const Share& share,
                                             std::uint32_t shared) {
  const int piece = static_cast<int>(threadIdx.x) % kPieces;
  const std::int64_t c = share.column + piece * kPieceColumns;
  if (c < p.columns) {
    int row = static_cast<int>(threadIdx.x) / kPieces;
    const __nv_bfloat16* from = p.x.row(share.row + row) + c;
    for (; row < share.rows; row += kLoadRows, from += kLoadRows * p.x.stride) {
      start_copy(shared + piece_offset(row, piece), from);
    }
  }
  end_copy_group();
}

/// Takes the maxima of what this thread copied, which has arrived, and of its warp; lane i has
/// those of piece i % kPieces.
__device__ __forceinline__ Packed<__nv_bfloat16, kPieceColumns> warp_maxima(
    const Arguments& p, const Share& share, const unsigned char* shared) {
  const int piece = static_cast<int>(threadIdx.x) % kPieces;
  Packed<__nv_bfloat16, kPieceColumns> most{};
  if (share.column + piece * kPieceColumns < p.columns) {
#pragma unroll 4
    for (int row = static_cast<int>(threadIdx.x) / kPieces; row < share.rows; row += kLoadRows) {
      const auto x = *reinterpret_cast<const uint4*>(shared + piece_offset(row, piece));
      most.words[0] = __vmaxu2(most.words[0], x.x & kMagnitudes);
      most.words[1] = __vmaxu2(most.words[1], x.y & kMagnitudes);
      most.words[2] = __vmaxu2(most.words[2], x.z & kMagnitudes);
      most.words[3] = __vmaxu2(most.words[3], x.w & kMagnitudes);
    }
  }
#pragma unroll
  for (int distance = kPieces; distance < kWarp; distance *= 2) {
#pragma unroll
    for (unsigned& word : most.words) {
      word = __vmaxu2(word, __shfl_xor_sync(kAllLanes, word, distance));
    }
  }
  return most;
}

/// Gives this block's maxima to all blocks of the cluster, which have started. Returns when it has
/// theirs, and when all threads of the block have come.
__device__ __forceinline__ void exchange(const Packed<__nv_bfloat16, kPieceColumns>& of_warp,
                                         Maxima& maxima) {
  static_assert(kMostClusterBlocks * kWords <= kThreads);
  const unsigned thread = threadIdx.x;
  if (thread % kWarp < kPieces) {
    const unsigned first = thread % kWarp * of_warp.kWords;
#pragma unroll
    for (int i = 0; i < of_warp.kWords; ++i) {
      maxima.of_warps[thread / kWarp][first + i] = of_warp.words[i];
    }
  }
  __syncthreads();
  if (thread < cluster_blocks() * kWords) {
    const unsigned word = thread % kWords;
    unsigned most = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) most = __vmaxu2(most, maxima.of_warps[warp][word]);
    const auto own = static_cast<std::uint32_t>(
        __cvta_generic_to_shared(&maxima.of_blocks[cluster_rank()][word]));
    store_in_block(in_block(own, thread / kWords), most);
  }
  cluster_sync();
}

/// Returns the numbers in the halves of a word.
__device__ __forceinline__ float low_of(unsigned word) { return __uint_as_float(word << 16); }
__device__ __forceinline__ float high_of(unsigned word) {
  return __uint_as_float(word & 0xffff0000u);
}

/// Writes scales and codes of the share. A thread takes 16 rows of two columns at a time.
__device__ __forceinline__ void write_codes(const Arguments& p, const Share& share,
                                            const Maxima& maxima, const unsigned char* shared) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int group = lane % kGroups;
  const int piece = warp % kPieces;
  const int word = lane / kGroups;  // of the piece
  const std::int64_t c = share.column + piece * kPieceColumns + 2 * word;
  if (c >= p.columns) return;
  unsigned most = 0;
  for (unsigned block = 0; block < cluster_blocks(); ++block) {
    most = __vmaxu2(most, maxima.of_blocks[block][piece * (kPieceColumns / 2) + word]);
  }
  const Fp8Divisor low = Fp8Divisor::of(__float_as_uint(low_of(most)));
  const Fp8Divisor high = Fp8Divisor::of(__float_as_uint(high_of(most)));
  if (cluster_rank() == 0 && warp < kPieces && group == 0) {
    p.scale[c] = low.scale;
    p.scale[c + 1] = high.scale;
  }
  constexpr int kLineWords = 2 * kRowBytes / 4;
  for (int row = warp / kPieces * kTileRows + group * kGroupRows; row < share.rows;
       row += kWarps / kPieces * kTileRows) {
    const auto* even = reinterpret_cast<const unsigned*>(shared + piece_offset(row, piece)) + word;
    const auto* odd =
        reinterpret_cast<const unsigned*>(shared + piece_offset(row + 1, piece)) + word;
    unsigned low_codes[4];
    unsigned high_codes[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // four rows each
      const unsigned x[4] = {even[2 * i * kLineWords], odd[2 * i * kLineWords],
                             even[(2 * i + 1) * kLineWords], odd[(2 * i + 1) * kLineWords]};
      low_codes[i] = fp8_word(low_of(x[0]) * low.inverse, low_of(x[1]) * low.inverse,
                              low_of(x[2]) * low.inverse, low_of(x[3]) * low.inverse);
      high_codes[i] = fp8_word(high_of(x[0]) * high.inverse, high_of(x[1]) * high.inverse,
                               high_of(x[2]) * high.inverse, high_of(x[3]) * high.inverse);
    }
    std::uint8_t* const to = p.q.row(c) + share.row + row;
    store_words(to, low_codes[0], low_codes[1], low_codes[2], low_codes[3]);
    store_words(to + p.q.stride, high_codes[0], high_codes[1], high_codes[2], high_codes[3]);
  }
}

extern __shared__ uint4 kept_lines[];

__global__ void __launch_bounds__(kThreads, kBlocks)
    quantize_kept(const __grid_constant__ Arguments p) {
  __shared__ Maxima maxima;
  const auto* shared = reinterpret_cast<const unsigned char*>(kept_lines);
  const Share share(p);
  start_copies(p, share, static_cast<std::uint32_t>(__cvta_generic_to_shared(kept_lines)));
  cluster_sync();  // all blocks have started, so that they can be written to
  wait_for_copy_groups<0>();
  exchange(warp_maxima(p, share, shared), maxima);
  write_codes(p, share, maxima, shared);
}

/// Returns the blocks of a cluster that keep so many rows; kMostClusterBlocks may be too few.
int blocks_of(std::int64_t rows) {
  int blocks = 1;
  while (blocks < kMostClusterBlocks && std::int64_t{blocks} * kMostRows < rows) blocks *= 2;
  return blocks;
}

/// Returns whether a multiprocessor of the current device runs kBlocks of the largest blocks.
bool has_shared_memory() {
  constexpr int kReserved = 1024;  // by the runtime, in every block
  constexpr int kBlockBytes = kMostRows * kRowBytes + static_cast<int>(sizeof(Maxima)) + kReserved;
  return device_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor) >= kBlocks * kBlockBytes;
}

}  // namespace

bool keeps_columns(const QuantizeFp8Columns& op) {
  const std::int64_t rows = op.x.rows();
  return op.x.dtype == DType::kBF16 && rows > 0 && rows <= kMostClusterBlocks * kMostRows &&
         rows % kGroupRows == 0 && op.x.shape[1] % kPieceColumns == 0 &&
         rows_aligned({op.x, op.q}) && has_clusters() && has_shared_memory();
}

void quantize_kept_columns(const Context& context, const QuantizeFp8Columns& op) {
  const std::int64_t rows = op.x.rows();
  const std::int64_t columns = op.x.shape[1];
  const int blocks = blocks_of(rows);
  const std::int64_t of_each = (rows + blocks - 1) / blocks;
  const auto block_rows = static_cast<int>((of_each + kLoadRows - 1) / kLoadRows * kLoadRows);
  const std::int64_t stripes = (columns + kColumns - 1) / kColumns;
  const Arguments arguments{.x = Rows<const __nv_bfloat16>(op.x),
                            .q = Rows<std::uint8_t>(op.q),
                            .scale = data<float>(op.scale),
                            .rows = rows,
                            .columns = columns,
                            .block_rows = block_rows};
  const Launch where{.name = op.kName,
                     .stream = context.stream,
                     .grid = blocks_for(stripes * blocks, 1),
                     .block = kThreads,
                     .shared_bytes = static_cast<std::size_t>(block_rows) * kRowBytes,
                     .cluster = static_cast<unsigned>(blocks)};
  launch(where, quantize_kept, arguments);
}

const void* fp8_columns_kept_module() { return reinterpret_cast<const void*>(&quantize_kept); }

}  // namespace strata::cuda
