// This file rounds columns of bf16 to e4m3 with a scale each, and transposes them, on GPUs with
// clusters of blocks (sm_90 and later). It reads its input once; fp8_columns.cu calls it where the
// columns fit, and has the kernels for all else. Both give the bits that strata/ops/fp8.h defines.
//
// scale = fp8_scale(max |x|) of each column, q = (x / scale)^T.
//
// Shapes: x [N, C], q [C, N], rows may be strided; scale [C] f32.
// Tile: persistent clusters of one to eight blocks go through stripes of 32 columns. A block keeps
// some rows of the stripe, up to 72 KiB. The blocks take the maxima of what they have, send them to
// each other, and write codes of what they kept; the next stripe takes its place tile by tile, 128
// rows each. Three blocks share a multiprocessor, so that others load while one waits for its
// cluster. A stripe has 64 bytes of a row, too few for memory to be quick: what is loaded brings
// 256 to the L2 cache, and stripes beside each other are loaded at about the same time. Shared
// memory: lines of 128 bytes hold two rows as 8 pieces of 16 bytes, and the piece at p is moved to
// p ^ g for the line's group g of 16 rows, modulo 8. A warp writes all pieces of a line together.
// It reads words of one piece of 8 groups, which are then in different banks: 128 rows of 8
// columns, two columns a thread. Codes leave as 16 bytes, 128 bytes of a row of q. Numerics:
// quotients by powers of two are exact; bitwise equal to the CPU but for the bits of NaNs. Naive
// version: kernels/cpu.

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
constexpr int kGroupRows = 16;  ///< 16 bytes of codes
constexpr int kGroups = 8;      ///< of a warp, and of different swizzles
constexpr int kTileRows = kGroups * kGroupRows;
constexpr int kMostRows = 1152;           ///< of a block
constexpr int kTeams = kWarps / kPieces;  ///< a team has a warp for each piece
constexpr int kTeamThreads = kThreads / kTeams;
constexpr int kLoadRows = kTeamThreads / kPieces;  ///< that a team loads at a time

struct Arguments {
  Rows<const __nv_bfloat16> x;
  Rows<std::uint8_t> q;
  float* scale;
  std::int64_t rows;
  std::int64_t columns;
  int block_rows;  ///< a multiple of kTileRows, so that no two blocks write to one line of q
};

/// What a block has of each stripe: so many rows from `row` on.
struct Share {
  std::int64_t row;
  int rows;  ///< a multiple of kGroupRows, may be 0

  __device__ explicit Share(const Arguments& p)
      : row(static_cast<std::int64_t>(cluster_rank()) * p.block_rows),
        rows(static_cast<int>(
            max(min(p.rows - row, static_cast<std::int64_t>(p.block_rows)), std::int64_t{0}))) {}
};

/// The threads that load, take maxima of and round the same rows: every kTeams-th tile of the
/// share, from `index` on. It has a warp for each piece.
struct Team {
  int index = static_cast<int>(threadIdx.x) / kTeamThreads;
  int thread = static_cast<int>(threadIdx.x) % kTeamThreads;

  /// Calls body(tile) for the team's tiles of so many rows.
  template <class Body>
  __device__ __forceinline__ void for_each_tile(int rows, const Body& body) const {
    for (int tile = index; tile * kTileRows < rows; tile += kTeams) body(tile);
  }
  /// Calls body(row, piece) for what this thread loads of a tile.
  template <class Body>
  __device__ __forceinline__ void for_each_load(int tile, int rows, const Body& body) const {
#pragma unroll
    for (int i = 0; i < kTileRows / kLoadRows; ++i) {
      const int row = tile * kTileRows + i * kLoadRows + thread / kPieces;
      if (row < rows) body(row, thread % kPieces);
    }
  }
  /// Waits until all threads of the team have come.
  __device__ __forceinline__ void meet() const {
    static_assert(kTeams == 2);
    if (index == 0) {
      asm volatile("bar.sync 1, %0;" ::"n"(kTeamThreads) : "memory");
    } else {
      asm volatile("bar.sync 2, %0;" ::"n"(kTeamThreads) : "memory");
    }
  }
};

/// Maxima of magnitudes of a stripe's columns, two to a word.
using WarpMaxima = unsigned[kWarps][kWords];
using BlockMaxima = unsigned[kMostClusterBlocks][kWords];

/// Those of two stripes, in turns: threads and blocks may be one stripe ahead of others.
struct Maxima {
  WarpMaxima of_warps[2];
  BlockMaxima of_blocks[2];
  ClusterMailbox mailbox;
};

/// Returns where shared memory has a piece of a row of the share.
__device__ __forceinline__ unsigned piece_offset(unsigned row, unsigned piece) {
  const unsigned place = (row % 2 * kPieces + piece) ^ (row / kGroupRows % kGroups);
  return row / 2 * (2 * kRowBytes) + place * 16;
}

/// Starts to copy what this thread has of a tile of the stripe from `column` on.
__device__ __forceinline__ void start_tile(const Arguments& p, const Share& share, const Team& team,
                                           std::int64_t column, int tile, std::uint32_t shared) {
  team.for_each_load(tile, share.rows, [&](int row, int piece) {
    const std::int64_t c = column + piece * kPieceColumns;
    if (c >= p.columns) return;
    start_copy_of_line(shared + piece_offset(row, piece), p.x.row(share.row + row) + c);
  });
}

/// Takes the maxima of what this thread copied, which has arrived, and of its warp; lane i has
/// those of piece i % kPieces.
__device__ __forceinline__ Packed<__nv_bfloat16, kPieceColumns> warp_maxima(
    const Arguments& p, const Share& share, const Team& team, std::int64_t column,
    const unsigned char* shared) {
  Packed<__nv_bfloat16, kPieceColumns> most{};
  if (column + team.thread % kPieces * kPieceColumns < p.columns) {
    team.for_each_tile(share.rows, [&](int tile) {
      team.for_each_load(tile, share.rows, [&](int row, int piece) {
        const auto x = *reinterpret_cast<const uint4*>(shared + piece_offset(row, piece));
        most.words[0] = __vmaxu2(most.words[0], x.x & kMagnitudes);
        most.words[1] = __vmaxu2(most.words[1], x.y & kMagnitudes);
        most.words[2] = __vmaxu2(most.words[2], x.z & kMagnitudes);
        most.words[3] = __vmaxu2(most.words[3], x.w & kMagnitudes);
      });
    });
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

/// Gives this block's maxima to all blocks of the cluster, which have started, and returns theirs,
/// for the `call`-th stripe of the cluster. When it returns, all threads of the block have come.
__device__ __forceinline__ const BlockMaxima& exchange(
    const Packed<__nv_bfloat16, kPieceColumns>& of_warp, Maxima& maxima, unsigned call) {
  WarpMaxima& of_warps = maxima.of_warps[call % 2];
  BlockMaxima& of_blocks = maxima.of_blocks[call % 2];
  static_assert(kMostClusterBlocks * kWords <= kThreads);
  const unsigned thread = threadIdx.x;
  if (thread % kWarp < kPieces) {
    const unsigned first = thread % kWarp * of_warp.kWords;
#pragma unroll
    for (int i = 0; i < of_warp.kWords; ++i) {
      of_warps[thread / kWarp][first + i] = of_warp.words[i];
    }
  }
  const unsigned words = cluster_blocks() * kWords;
  if (thread == 0) maxima.mailbox.expect(words * 4, call);
  __syncthreads();
  if (thread < words) {
    const unsigned word = thread % kWords;
    unsigned most = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) most = __vmaxu2(most, of_warps[warp][word]);
    maxima.mailbox.send(of_blocks[cluster_rank()][word], most, thread / kWords, call);
  }
  maxima.mailbox.wait(call);
  return of_blocks;
}

/// Returns the numbers in the halves of a word.
__device__ __forceinline__ float low_of(unsigned word) { return __uint_as_float(word << 16); }
__device__ __forceinline__ float high_of(unsigned word) {
  return __uint_as_float(word & 0xffff0000u);
}

/// Codes of 16 rows of two neighbouring columns.
struct Codes {
  unsigned low[4];
  unsigned high[4];

  /// Rounds what a word of a piece has in the rows from `row` on.
  __device__ __forceinline__ void round(const unsigned char* shared, int row, int piece, int word,
                                        const Fp8Divisor& of_low, const Fp8Divisor& of_high) {
    constexpr int kLineWords = 2 * kRowBytes / 4;
    const auto* even = reinterpret_cast<const unsigned*>(shared + piece_offset(row, piece)) + word;
    const auto* odd =
        reinterpret_cast<const unsigned*>(shared + piece_offset(row + 1, piece)) + word;
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // four rows each
      const unsigned x[4] = {even[2 * i * kLineWords], odd[2 * i * kLineWords],
                             even[(2 * i + 1) * kLineWords], odd[(2 * i + 1) * kLineWords]};
      low[i] = fp8_word(low_of(x[0]) * of_low.inverse, low_of(x[1]) * of_low.inverse,
                        low_of(x[2]) * of_low.inverse, low_of(x[3]) * of_low.inverse);
      high[i] = fp8_word(high_of(x[0]) * of_high.inverse, high_of(x[1]) * of_high.inverse,
                         high_of(x[2]) * of_high.inverse, high_of(x[3]) * of_high.inverse);
    }
  }
};

/// Writes scales and codes of the stripe from `column` on. A thread takes 16 rows of two columns at
/// a time. The stripe from `next` on, if there is one, is loaded in its place, tile by tile and
/// before the codes of a tile are written: stores would hold it up.
__device__ __forceinline__ void write_codes(const Arguments& p, const Share& share,
                                            const Team& team, std::int64_t column,
                                            std::int64_t next, const BlockMaxima& of_blocks,
                                            const unsigned char* shared,
                                            std::uint32_t shared_address) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int group = lane % kGroups;
  const int piece = team.thread / kWarp;
  const int word = lane / kGroups;  // of the piece
  const std::int64_t c = column + piece * kPieceColumns + 2 * word;
  const bool there = c < p.columns;
  unsigned most = 0;
  for (unsigned block = 0; block < cluster_blocks(); ++block) {
    most = __vmaxu2(most, of_blocks[block][piece * (kPieceColumns / 2) + word]);
  }
  const Fp8Divisor low = Fp8Divisor::of(__float_as_uint(low_of(most)));
  const Fp8Divisor high = Fp8Divisor::of(__float_as_uint(high_of(most)));
  if (there && cluster_rank() == 0 && team.index == 0 && group == 0) {
    p.scale[c] = low.scale;
    p.scale[c + 1] = high.scale;
  }
  team.for_each_tile(share.rows, [&](int tile) {
    const int row = tile * kTileRows + group * kGroupRows;
    const bool has_rows = there && row < share.rows;
    Codes codes{};
    if (has_rows) codes.round(shared, row, piece, word, low, high);
    if (next < p.columns) {
      team.meet();  // all of it have read the tile
      start_tile(p, share, team, next, tile, shared_address);
    }
    if (!has_rows) return;
    std::uint8_t* const to = p.q.row(c) + share.row + row;
    store_words(to, codes.low[0], codes.low[1], codes.low[2], codes.low[3]);
    store_words(to + p.q.stride, codes.high[0], codes.high[1], codes.high[2], codes.high[3]);
  });
  end_copy_group();
}

extern __shared__ uint4 kept_lines[];

__global__ void __launch_bounds__(kThreads, kBlocks)
    quantize_kept(const __grid_constant__ Arguments p) {
  __shared__ Maxima maxima;
  const auto* shared = reinterpret_cast<const unsigned char*>(kept_lines);
  const auto shared_address = static_cast<std::uint32_t>(__cvta_generic_to_shared(kept_lines));
  const Share share(p);
  const Team team;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x / cluster_blocks()) * kColumns;
  std::int64_t column = static_cast<std::int64_t>(blockIdx.x / cluster_blocks()) * kColumns;
  team.for_each_tile(share.rows,
                     [&](int tile) { start_tile(p, share, team, column, tile, shared_address); });
  end_copy_group();
  maxima.mailbox.init();  // all blocks have started, so that they can be written to
  for (unsigned call = 0; column < p.columns; column += step, ++call) {
    wait_for_copy_groups<0>();
    const auto& of_blocks = exchange(warp_maxima(p, share, team, column, shared), maxima, call);
    write_codes(p, share, team, column, column + step, of_blocks, shared, shared_address);
  }
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
  const auto block_rows = static_cast<int>((of_each + kTileRows - 1) / kTileRows * kTileRows);
  const std::int64_t stripes = (columns + kColumns - 1) / kColumns;
  const Arguments arguments{.x = Rows<const __nv_bfloat16>(op.x),
                            .q = Rows<std::uint8_t>(op.q),
                            .scale = data<float>(op.scale),
                            .rows = rows,
                            .columns = columns,
                            .block_rows = block_rows};
  Launch where{.name = op.kName,
               .stream = context.stream,
               .block = kThreads,
               .shared_bytes = static_cast<std::size_t>(block_rows) * kRowBytes,
               .cluster = static_cast<unsigned>(blocks)};
  const std::int64_t clusters = std::min<std::int64_t>(stripes, resident(where, quantize_kept));
  where.grid = blocks_for(clusters * blocks, 1);
  launch(where, quantize_kept, arguments);
}

const void* fp8_columns_kept_module() { return reinterpret_cast<const void*>(&quantize_kept); }

}  // namespace strata::cuda
