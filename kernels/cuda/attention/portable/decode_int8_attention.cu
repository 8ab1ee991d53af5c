// This file computes attention where each segment is one query over a cache of int8: generation,
// past the prompt. enqueue() launches it for bf16 with head dims 64, 128 and 256, on any GPU since
// compute capability 8.0, and the reference kernel for all else.
//
// scores = q k^T * k_scale * scale, o = sum(exp(scores - max) v_scale v) / sum(exp(scores - max))
// per head, see AttendInt8Kv. q [N, H, D], o [N, H, D] bf16, k, v [R, K, D] int8, scales [R, K]
// f32; query n sees the keys of segment n alone.
//
// Parts of keys, blocks, warps and their rings are those of decode_attention.cu: keys are the rows
// of tensor-core products, and up to 8 query heads their columns. But levels go from shared memory
// to registers as they are: int8 has no use for ldmatrix, and a lane can choose which columns of a
// product are its own. Of a strip of 16 keys it takes whole runs of 16 bytes for the dots, over
// which all sums go, in an order that q follows, and for the sums of v D / 8 bytes of each of its
// keys, in runs of up to 16. They become bf16, which has every level exactly, in four operations
// for two.
//
// Numerics: dots in f32 of exact products; scores, maximum and sum in f32; exp(scores - max) *
// v_scale is rounded to bf16 as the operand of a product, as the probabilities are in
// flash_forward.cu. A scale of NaN makes NaN of what sees it. What becomes of a query depends on
// its keys alone: not on other queries, nor on how many parts those have.
//
// Measured on one H200 (docs/measurements/kernels.md). The plain version of the same
// is attention_reference.cu.

#include <cuda_runtime.h>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/portable/decode_int8_levels.cuh"
#include "kernels/cuda/attention/portable/decode_join.cuh"
#include "kernels/cuda/attention/portable/decode_parts.cuh"
#include "kernels/cuda/common/chain.cuh"
#include "kernels/cuda/common/copy_async.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/operators.h"

namespace strata::cuda {

namespace decode_int8 {

namespace {

constexpr int kWarps = DecodeTile::kWarps;
constexpr int kHeads = kDecodeHeads;
constexpr int kStripKeys = DecodeTile::kStripKeys;

/// Levels of keys or values, and the scales of their rows and heads.
struct Int8Heads {
  HeadRows<const std::int8_t> levels;
  const float* scales;
  std::int64_t scale_stride;

  __device__ const float* scale(int row, int head) const {
    return scales + row * scale_stride + head;
  }
};

template <ScoreKind kKind>
struct DecodeInt8Params {
  static constexpr ScoreKind kScores = kKind;
  DecodeTask task;
  Int8Heads k, v;
};

/// What a lane brings of keys or values: chunks of its rows of a strip, and the scale of one row.
template <int kHeadDim>
class Source {
 public:
  using Tile = LevelTile<kHeadDim>;
  static constexpr int kRowsAtOnce = 32 / Tile::kChunks;

  __device__ Source(const Int8Heads& rows, const DecodeBlock& block, int warp, int lane) {
    const int first = block.segment.k_begin + block.begin + DecodeBlock::first_key(0, warp);
    levels_ =
        rows.levels.row(first + lane / Tile::kChunks, block.kv_head) + lane % Tile::kChunks * 16;
    scale_ = rows.scale(first + lane, block.kv_head);
    stride_ = rows.levels.stride;
    scale_stride_ = rows.scale_stride;
  }
  /// Begins to bring the lane's part of the next strip, of which `left` rows exist, and goes on.
  __device__ __forceinline__ void bring(unsigned char* stage, float* scales, int left, int lane) {
    const std::uint32_t to =
        shared_address(stage) +
        static_cast<std::uint32_t>(Tile::offset(lane / Tile::kChunks, lane % Tile::kChunks));
#pragma unroll
    for (int i = 0; i < DecodeTile::kStripKeys / kRowsAtOnce; ++i) {
      copy_async_16_once((to ^ Tile::moved_after(i * kRowsAtOnce)) + i * 32 * 16,
                         levels_ + i * kRowsAtOnce * stride_,
                         lane / Tile::kChunks + i * kRowsAtOnce < left);
    }
    if (lane < DecodeTile::kStripKeys) {
      copy_async_4(shared_address(scales + lane), scale_, lane < left);
    }
    levels_ += kStep * stride_;
    scale_ += kStep * scale_stride_;
  }

 private:
  static constexpr int kStep = DecodeTile::kWarps * DecodeTile::kStripKeys;
  const std::int8_t* levels_;
  const float* scale_;
  std::int64_t stride_;
  std::int64_t scale_stride_;
};

/// A warp's ring: step 2 i are the keys of strip i, step 2 i + 1 its values.
template <int kHeadDim, int kStages>
struct Ring {
  static constexpr int kSteps = 2 * kDecodeStrips;
  static constexpr int kAhead = kStages == kSteps ? kStages : kStages - 1;
  static constexpr int kStageBytes = LevelTile<kHeadDim>::kBytes;
  unsigned char* stages;
  float* all_scales;

  __device__ Ring(unsigned char* shared, int warp)
      : stages(shared + warp * kStages * kStageBytes),
        all_scales(
            reinterpret_cast<float*>(shared + DecodeInt8Tile::rings_bytes(kHeadDim, kStages)) +
            warp * kStages * kStripKeys) {}
  __device__ unsigned char* stage(int step) const { return stages + step % kStages * kStageBytes; }
  __device__ float* scales(int step) const { return all_scales + step % kStages * kStripKeys; }

  /// Begins to bring a step, of a part with so many keys, from where they are.
  __device__ __forceinline__ void bring(int step, Source<kHeadDim>& from, int keys, int warp,
                                        int lane) const {
    const int left = keys - DecodeBlock::first_key(step / 2, warp);
    if (step < kSteps && left > 0) from.bring(stage(step), scales(step), left, lane);
    end_copy_group();  // also of nothing, so that the groups can be counted
  }
};

template <int kHeadDim, int kStages, class Params>
__global__ void __launch_bounds__(kDecodeThreads, decode_blocks<DecodeInt8Tile>(kHeadDim, kStages))
    decode_int8_attention(const Params p) {
  using WarpRing = Ring<kHeadDim, kStages>;
  constexpr int kAhead = WarpRing::kAhead;
  let_next_start();
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ Statistics statistics[kWarps][kHeads];
  const DecodeTask& task = p.task;
  const DecodeBlock block =
      DecodeBlock::of<Params::kScores>(task);  // by a table that no kernel writes
  wait_for_previous();
  if (!block.computes()) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const WarpRing ring(shared, warp);
  Source<kHeadDim> keys(p.k, block, warp, lane);
  Source<kHeadDim> values(p.v, block, warp, lane);
#pragma unroll
  for (int step = 0; step < kAhead; ++step) {
    ring.bring(step, step % 2 == 0 ? keys : values, block.keys, warp, lane);
  }
  Bf16Pair q[kHeadDim / 16][2];
  load_queries<kHeadDim>(q, task, block, lane);

  float o[kHeadDim / 16][4] = {};
  RunningHeads running;
  const auto next_step = [&](int step, Source<kHeadDim>& from) {
    wait_for_copy_groups<kAhead - 1>();
    __syncwarp();  // this stage is there, and no lane reads the one before any more
    ring.bring(step + kAhead, from, block.keys, warp, lane);
  };
  for (int strip = 0; strip < kDecodeStrips; ++strip) {
    const int left = block.keys - DecodeBlock::first_key(strip, warp);
    if (left <= 0) break;
    const int keys_step = 2 * strip;
    const int values_step = 2 * strip + 1;
    next_step(keys_step, kAhead % 2 == 0 ? keys : values);
    float s[4] = {};
    multiply_keys<kHeadDim>(s, q, ring.stage(keys_step), ring.scales(keys_step), lane);
    if constexpr (Params::kScores == ScoreKind::kCapped) task.cap(s);
    float corrections[2];
    running.step(s, corrections, left, task.scale_log2, lane);
    next_step(values_step, kAhead % 2 == 0 ? values : keys);
    const float* const scales = ring.scales(values_step);
#pragma unroll
    for (int i = 0; i < 4; ++i) s[i] *= scales[i / 2 * 8 + lane / 4];
    const Bf16Pair first = transposed(pack_bf16(s[0], s[1]));
    const Bf16Pair second = transposed(pack_bf16(s[2], s[3]));
    ValuePiece<kHeadDim> piece;
    piece.load(ring.stage(values_step), lane);
#pragma unroll
    for (int m = 0; m < kHeadDim / 16; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) o[m][i] *= corrections[i % 2];
      const Bf16Pair a[4] = {piece.pair(0, 2 * m), piece.pair(0, 2 * m + 1), piece.pair(1, 2 * m),
                             piece.pair(1, 2 * m + 1)};
      multiply_accumulate(o[m], a, first, second);
    }
  }
  wait_for_copies();
  __syncthreads();  // rings are free for the results of warps

  // Rows lane / 4 and 8 more of product m are elements 2 m and 1 more of the lane.
  float* const results = reinterpret_cast<float*>(shared);  // [warps, heads, D]
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int head = lane % 4 * 2 + i;
    const Statistics& of = running.heads[i];
    const float sum = RunningHeads::over_keys_sum(of.sum);
    if (lane / 4 == 0) statistics[warp][head] = {of.maximum, sum};
    if (head < block.heads) {
      float* const to = results + (warp * kHeads + head) * DecodeTile::result_stride(kHeadDim);
#pragma unroll
      for (int m = 0; m < kHeadDim / 16; m += 2) {
        const int d = ValuePiece<kHeadDim>::element(2 * m, lane);
        *reinterpret_cast<float4*>(to + DecodeTile::result_at(d)) =
            make_float4(o[m][i], o[m][2 + i], o[m + 1][i], o[m + 1][2 + i]);
      }
    }
  }
  __syncthreads();
  join_warps<kHeadDim>(task, block, results, statistics);
}

Int8Heads int8_heads(const ConstTensorView& levels, const ConstTensorView& scales) {
  return {head_rows<const std::int8_t>(levels), scales.as<float>(), scales.row_stride};
}

template <ScoreKind kScores>
DecodeInt8Params<kScores> decode_params(const AttendInt8Kv& op) {
  return {.task = decode_task(op, op.segments, op.cache.k.shape[1]),
          .k = int8_heads(op.cache.k, op.cache.k_scale),
          .v = int8_heads(op.cache.v, op.cache.v_scale)};
}

template <int kHeadDim, int kStages, class Params>
void launch_with(cudaStream_t stream, const Params& params) {
  static_assert(DecodeTile::result_bytes(kHeadDim) <=
                DecodeInt8Tile::shared_bytes(kHeadDim, kStages));
  launch_decode_parts<kHeadDim>(AttendInt8Kv::kName, stream, params.task,
                                decode_int8_attention<kHeadDim, kStages, Params>, params,
                                DecodeInt8Tile::shared_bytes(kHeadDim, kStages));
}

template <int kHeadDim>
void launch_decode_int8(cudaStream_t stream, const AttendInt8Kv& op) {
  with_score_kind(op, 0, [&]<ScoreKind kScores>() {
    const DecodeInt8Params<kScores> params = decode_params<kScores>(op);
    if constexpr (kScores != ScoreKind::kCapped) {  // capped scores have fewer instances
      if (may_have_many_stages<DecodeInt8Tile, kHeadDim>(params.task)) {
        return launch_with<kHeadDim, DecodeInt8Tile::many_stages(kHeadDim)>(stream, params);
      }
    }
    launch_with<kHeadDim, DecodeInt8Tile::few_stages(kHeadDim)>(stream, params);
  });
}

}  // namespace

}  // namespace decode_int8

void enqueue(const Context& context, const AttendInt8Kv& op) {
  const std::int64_t head_dim = op.q.shape[2];
  const bool tensor_cores = op.q.dtype == DType::kBF16 && has_tensor_cores_for(head_dim) &&
                            op.parts && begins_aligned(op.parts) && op.scale > 0 &&
                            rows_aligned({op.q, op.cache.k, op.cache.v, op.o});
  if (!tensor_cores) return launch_reference_attend_int8(context.stream, op);
  switch (head_dim) {
    case 64: return decode_int8::launch_decode_int8<64>(context.stream, op);
    case 128: return decode_int8::launch_decode_int8<128>(context.stream, op);
    default: return decode_int8::launch_decode_int8<256>(context.stream, op);
  }
}

const void* decode_int8_attention_module() {
  return reinterpret_cast<const void*>(
      &decode_int8::decode_int8_attention<128, DecodeInt8Tile::few_stages(128),
                                          decode_int8::DecodeInt8Params<ScoreKind::kPlain>>);
}

}  // namespace strata::cuda
