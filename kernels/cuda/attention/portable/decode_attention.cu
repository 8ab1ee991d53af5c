// This file computes attention where each segment is one query over a cache: generation, past the
// prompt. attention.cu launches it for bf16 with head dims 64, 128 and 256, on any GPU since
// compute capability 8.0.
//
// o = softmax(scale * q k^T) v per head, and lse = log(sum(exp(scores))). q [N, H, D], k, v [R, K,
// D], o [N, H, D] bf16, lse [H, N] f32; query n sees the keys of segment n alone.
//
// A query's keys are cut into parts of 256 (Flash-Decoding, Dao et al. 2023), so that one long
// sequence fills the GPU too. A block owns a part for one kv head: all query heads that read it
// together, 8 of them at once, which are the columns of tensor-core products whose rows are keys.
// Each of its 4 warps walks over strips of 16 keys with a running maximum and sum, through a ring
// in shared memory of its own: no barriers. Then warps are joined in their order, and the parts in
// theirs: two by their blocks, which are a cluster and read each other's sums (compute capability
// 9.0), more by a second kernel. Where there are fewer blocks than multiprocessors, rings hold all
// strips of a part at once, or with D = 256 most of them. Keys and values leave the L2 cache first,
// so that it keeps parts, tables and the kernels themselves.
//
// FusedAttend turns q and the new keys before: every block the heads that it has, and the one whose
// part has the new key also that one, which it puts into its strip and adds to the cache with the
// value. What was in the cache it reads while the kernel before this one still runs (chain.cuh).
//
// Numerics: as flash_forward.cu. What becomes of a query depends on its keys alone: not on other
// queries, nor on how many parts those have.
//
// Measured on one H200 (docs/measurements/kernels.md).
// The plain version of the same is attention_reference.cu.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <concepts>

#include "kernels/cuda/attention/attention_tensor_core.cuh"
#include "kernels/cuda/attention/portable/decode_join.cuh"
#include "kernels/cuda/attention/portable/decode_new_token.cuh"
#include "kernels/cuda/attention/portable/decode_parts.cuh"
#include "kernels/cuda/common/copy_async.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/rows/rope_pieces.cuh"

namespace strata::cuda {

namespace decode {

namespace {

template <ScoreKind kKind>
struct DecodeParams {
  static constexpr ScoreKind kScores = kKind;
  DecodeTask task;
  HeadRows<const std::uint16_t> k, v;
};

template <ScoreKind kKind>
struct FusedParams : DecodeParams<kKind> {
  NewTokens added;
};

/// Writes the queries of a block, which are turned already, as rows of a shared tile; rows without
/// a head are zeros.
template <int kHeadDim>
__device__ __forceinline__ void bring_queries(unsigned char* tile, const DecodeTask& task,
                                              const DecodeBlock& block) {
  using Tile = SharedTile<kHeadDim>;
  for (int piece = static_cast<int>(threadIdx.x); piece < kHeads * Tile::kChunks;
       piece += kDecodeThreads) {
    const int row = piece / Tile::kChunks;
    const int chunk = piece % Tile::kChunks;
    Vector<T, W> q{};
    if (row < block.heads) {
      const std::uint16_t* const head = task.q.row(block.query, block.head + row);
      q = load_raw<T, W>(reinterpret_cast<const T*>(head) + chunk * W);
    }
    store_raw(reinterpret_cast<T*>(tile + Tile::offset(row, chunk)), q);
  }
}

template <int kHeadDim, int kStages, class Params>
__global__ void __launch_bounds__(kDecodeThreads, decode_blocks<DecodeBf16Tile>(kHeadDim, kStages))
    decode_attention(const Params p) {
  constexpr bool kFused = std::same_as<Params, FusedParams<Params::kScores>>;
  using Tile = SharedTile<kHeadDim>;
  constexpr int kStageBytes = DecodeBf16Tile::stage_bytes(kHeadDim);
  constexpr int kSteps = 2 * kDecodeStrips;
  constexpr int kAhead = kStages == kSteps ? kStages : kStages - 1;
  let_next_start();
  extern __shared__ __align__(1024) unsigned char shared[];
  const DecodeTask& task = p.task;
  const DecodeBlock block =
      DecodeBlock::of<Params::kScores>(task);  // by a table that no kernel writes
  if constexpr (!kFused) wait_for_previous();
  if (!block.computes()) return;
  const int keys = block.keys;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  // Those that are in the cache: all but the last one that the query sees.
  const int old_keys = kFused ? min(keys, block.visible - 1 - block.begin) : keys;

  // The q tile is brought by all warps; each warp brings its own keys and values. Step 2 i are the
  // keys of strip i, step 2 i + 1 its values.
  unsigned char* const ring = shared + kHeads * Tile::kRowBytes + warp * kStages * kStageBytes;
  const auto bring = [&](int step, const HeadRows<const std::uint16_t>& rows) {
    const int first = DecodeBlock::first_key(step / 2, warp);
    if (step < kSteps && first < keys) {
      const std::uint32_t to = shared_address(ring + step % kStages * kStageBytes);
#pragma unroll
      for (int i = 0; i < kStripKeys * Tile::kChunks / 32; ++i) {
        const int row = (i * 32 + lane) / Tile::kChunks;
        const int chunk = (i * 32 + lane) % Tile::kChunks;
        const bool valid = first + row < old_keys;
        const int at = block.segment.k_begin + block.begin + (valid ? first + row : 0);
        copy_async_16_once(to + Tile::offset(row, chunk), rows.row(at, block.kv_head) + chunk * W,
                           valid);
      }
    }
    end_copy_group();  // also of nothing, so that the groups can be counted
  };
#pragma unroll
  for (int step = 0; step < kAhead; ++step) bring(step, step % 2 == 0 ? p.k : p.v);
  NewKey<kHeadDim> added(block, old_keys, warp, lane);
  if constexpr (kFused) {
    Angles<W> angles;
    angles.load_from(p.added.tables, block.query, lane % Pieces<kHeadDim>::kCount * W,
                     kHeadDim / 2);
    wait_for_previous();
    added.bring(p.added, block, task.group, angles);
    turn_queries<kHeadDim>(shared, task, block, angles);
  } else {
    bring_queries<kHeadDim>(shared, task, block);
  }
  __syncthreads();  // q is there
  // Operand b of two steps of k: heads are its columns.
  Bf16Pair q[kHeadDim / 32][4];
#pragma unroll
  for (int k = 0; k < kHeadDim / 32; ++k) {
    load_matrices(q[k], (shared_address(shared) + Tile::offset(lane % 8, lane / 8)) ^ (k << 6));
  }

  float o[kHeadDim / 16][4] = {};
  RunningHeads running;
  const auto next_stage = [&](int step, const HeadRows<const std::uint16_t>& rows) {
    wait_for_copy_groups<kAhead - 1>();
    __syncwarp();  // this stage is there, and no lane reads the one before any more
    bring(step + kAhead, rows);
    return ring + step % kStages * kStageBytes;
  };
  for (int strip = 0; strip < kDecodeStrips; ++strip) {
    const int left = keys - DecodeBlock::first_key(strip, warp);
    if (left <= 0) break;
    unsigned char* stage = next_stage(2 * strip, kAhead % 2 == 0 ? p.k : p.v);
    if constexpr (kFused) added.put_key(stage, strip);
    float s[4] = {};
    const std::uint32_t of_keys = shared_address(stage) + Tile::lane_offset_a(lane);
#pragma unroll
    for (int k = 0; k < kHeadDim / 16; ++k) {
      Bf16Pair a[4];
      load_matrices(a, of_keys ^ (k << 5));
      multiply_accumulate(s, a, q[k / 2][k % 2 * 2], q[k / 2][k % 2 * 2 + 1]);
    }
    if constexpr (Params::kScores == ScoreKind::kCapped) task.cap(s);
    float corrections[2];
    running.step(s, corrections, left, task.scale_log2, lane);
    const Bf16Pair first = transposed(pack_bf16(s[0], s[1]));
    const Bf16Pair second = transposed(pack_bf16(s[2], s[3]));
    stage = next_stage(2 * strip + 1, kAhead % 2 == 0 ? p.v : p.k);
    if constexpr (kFused) added.put_value(stage, strip);
    const std::uint32_t of_values = shared_address(stage) + Tile::lane_offset_b(lane);
#pragma unroll
    for (int m = 0; m < kHeadDim / 16; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) o[m][i] *= corrections[i % 2];
      Bf16Pair a[4];
      load_matrices_transposed(a, of_values ^ (m << 5));
      multiply_accumulate(o[m], a, first, second);
    }
  }
  wait_for_copies();
  __syncthreads();  // rings are free for the results of warps

  float* const results = reinterpret_cast<float*>(shared);  // [warps, heads, D]
  __shared__ Statistics statistics[kWarps][kHeads];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int head = lane % 4 * 2 + i;
    const Statistics& of = running.heads[i];
    const float sum = RunningHeads::over_keys_sum(of.sum);
    if (lane / 4 == 0) statistics[warp][head] = {of.maximum, sum};
    if (head < block.heads) {
      float* const to =
          results + (warp * kHeads + head) * DecodeTile::result_stride(kHeadDim) + lane / 4;
#pragma unroll
      for (int m = 0; m < kHeadDim / 16; ++m) {
        to[DecodeTile::result_at(m * 16)] = o[m][i];
        to[DecodeTile::result_at(m * 16 + 8)] = o[m][2 + i];
      }
    }
  }
  __syncthreads();
  join_warps<kHeadDim>(task, block, results, statistics);
}

template <ScoreKind kScores>
DecodeParams<kScores> decode_params(const AttentionForward& op) {
  DecodeTask task = decode_task(op, op.segments.table, op.k.shape[1]);
  task.lse = op.lse.as<float>();
  return {.task = task,
          .k = head_rows<const std::uint16_t>(op.k),
          .v = head_rows<const std::uint16_t>(op.v)};
}

template <ScoreKind kScores>
FusedParams<kScores> fused_params(const FusedAttend& op) {
  const AppendKv& append = op.added.append;
  const Rope& rope = op.added.rope;
  return {decode_params<kScores>(op.attention()),
          {.k = head_rows<const T>(append.k),
           .v = head_rows<const T>(append.v),
           .cache_k = head_rows<T>(append.cache_k),
           .cache_v = head_rows<T>(append.cache_v),
           .rows = append.rows.as<std::int32_t>(),
           .tables = {.positions = rope.positions.as<std::int32_t>(),
                      .cos = rope.cos.as<float>(),
                      .sin = rope.sin.as<float>(),
                      .sign = 1.0f}}};
}

template <int kHeadDim, int kStages, class Params>
void launch_decode(std::string_view name, cudaStream_t stream, const Params& params) {
  static_assert(DecodeTile::result_bytes(kHeadDim) <=
                DecodeBf16Tile::shared_bytes(kHeadDim, kStages));
  launch_decode_parts<kHeadDim>(name, stream, params.task,
                                decode_attention<kHeadDim, kStages, Params>, params,
                                DecodeBf16Tile::shared_bytes(kHeadDim, kStages));
}

template <int kHeadDim, class Params>
void launch_decode_of(std::string_view name, cudaStream_t stream, const Params& params) {
  if constexpr (Params::kScores != ScoreKind::kCapped) {  // capped scores have fewer instances
    if (may_have_many_stages<DecodeBf16Tile, kHeadDim>(params.task)) {
      return launch_decode<kHeadDim, DecodeBf16Tile::many_stages(kHeadDim)>(name, stream, params);
    }
  }
  launch_decode<kHeadDim, DecodeBf16Tile::few_stages(kHeadDim)>(name, stream, params);
}

template <class Params>
void launch_decode(std::string_view name, cudaStream_t stream, std::int64_t head_dim,
                   const Params& params) {
  switch (head_dim) {
    case 64: return launch_decode_of<64>(name, stream, params);
    case 128: return launch_decode_of<128>(name, stream, params);
    default: return launch_decode_of<256>(name, stream, params);
  }
}

}  // namespace

}  // namespace decode

void launch_decode_attention(cudaStream_t stream, const AttentionForward& op) {
  with_score_kind(op, 0, [&]<ScoreKind kScores>() {
    decode::launch_decode(op.kName, stream, op.q.shape[2], decode::decode_params<kScores>(op));
  });
}

void launch_fused_attend(cudaStream_t stream, const FusedAttend& op) {
  with_score_kind(op, 0, [&]<ScoreKind kScores>() {
    decode::launch_decode(op.kName, stream, op.o.shape[2], decode::fused_params<kScores>(op));
  });
}

const void* decode_attention_module() {
  return reinterpret_cast<const void*>(
      &decode::decode_attention<128, DecodeBf16Tile::few_stages(128),
                                decode::DecodeParams<ScoreKind::kPlain>>);
}

}  // namespace strata::cuda
