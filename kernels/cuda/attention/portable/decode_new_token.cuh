// This file has what FusedAttend does before decode_attention.cu attends: it turns the queries of a
// block and the keys of their own tokens, and adds these keys and their values to the cache.

#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/attention/portable/decode_parts.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/rows/rope_pieces.cuh"

namespace strata::cuda::decode {

using T = __nv_bfloat16;

inline constexpr int kWarps = DecodeTile::kWarps;
inline constexpr int kHeads = kDecodeHeads;
inline constexpr int kStripKeys = DecodeTile::kStripKeys;
inline constexpr int W = 8;  ///< elements of a piece of 16 bytes

/// The keys and values of the queries' own tokens, not turned, and where they go. Queries are not
/// turned either.
struct NewTokens {
  HeadRows<const T> k, v;
  HeadRows<T> cache_k, cache_v;
  const std::int32_t* rows;
  RopeTables tables;
};

/// Two pieces of a head which lie half a head apart, so that they are turned together.
template <int kHeadDim>
struct Pieces {
  static constexpr int kCount = kHeadDim / (2 * W);  ///< of a head
  Vector<T, W> low, high;

  __device__ __forceinline__ void load_from(const T* head, int i) {
    low = load_raw<T, W>(head + i * W);
    high = load_raw<T, W>(head + kHeadDim / 2 + i * W);
  }
  __device__ __forceinline__ void turn(const Angles<W>& angles) {
    float a[W];
    float b[W];
    unpack(low, a);
    unpack(high, b);
    angles.turn(a, b);
    low = pack<T, W>(a);
    high = pack<T, W>(b);
  }
  __device__ __forceinline__ void store_to(T* head, int i) const {
    store_raw(head + i * W, low);
    store_raw(head + kHeadDim / 2 + i * W, high);
  }
  /// Into a row of a shared tile.
  __device__ __forceinline__ void store_to(unsigned char* tile, int row, int i) const {
    using Tile = SharedTile<kHeadDim>;
    store_raw(reinterpret_cast<T*>(tile + Tile::offset(row, i)), low);
    store_raw(reinterpret_cast<T*>(tile + Tile::offset(row, kCount + i)), high);
  }
};

/// The key and the value of a block's own token, if its part has them: in registers of one warp
/// until the strip that they belong to is there. The first kPieces lanes have the key, those after
/// them the value.
template <int kHeadDim>
class NewKey {
  static constexpr int kPieces = Pieces<kHeadDim>::kCount;
  static_assert(2 * kPieces <= 32);

 public:
  /// `old_keys` of the part were there before.
  __device__ NewKey(const DecodeBlock& block, int old_keys, int warp, int lane)
      : strip_(old_keys / (kWarps * kStripKeys)),
        row_(old_keys % kStripKeys),
        piece_(lane % kPieces),
        is_here_(old_keys < block.keys && old_keys / kStripKeys % kWarps == warp),
        has_key_(is_here_ && lane < kPieces),
        has_value_(is_here_ && lane / kPieces == 1) {}

  /// Brings and turns what the lane has, and adds it to the cache: once for each kv head.
  __device__ void bring(const NewTokens& added, const DecodeBlock& block, int group,
                        const Angles<W>& angles) {
    if (!has_key_ && !has_value_) return;
    pieces_.load_from((has_key_ ? added.k : added.v).row(block.query, block.kv_head), piece_);
    if (has_key_) pieces_.turn(angles);
    if (block.head != block.kv_head * group) return;
    const HeadRows<T>& cache = has_key_ ? added.cache_k : added.cache_v;
    pieces_.store_to(cache.row(added.rows[block.query], block.kv_head), piece_);
  }
  /// Called by all lanes when a strip's keys, or its values, are in shared memory.
  __device__ __forceinline__ void put_key(unsigned char* stage, int strip) const {
    put(stage, strip, has_key_);
  }
  __device__ __forceinline__ void put_value(unsigned char* stage, int strip) const {
    put(stage, strip, has_value_);
  }

 private:
  __device__ __forceinline__ void put(unsigned char* stage, int strip, bool mine) const {
    if (!is_here_ || strip != strip_) return;
    if (mine) pieces_.store_to(stage, row_, piece_);
    __syncwarp();
  }

  int strip_, row_, piece_;
  bool is_here_, has_key_, has_value_;
  Pieces<kHeadDim> pieces_;
};

/// Writes the queries of a block, turned, as rows of a shared tile; rows without a head are zeros.
template <int kHeadDim>
__device__ __forceinline__ void turn_queries(unsigned char* tile, const DecodeTask& task,
                                             const DecodeBlock& block, const Angles<W>& angles) {
  constexpr int kPieces = Pieces<kHeadDim>::kCount;
  const int row = static_cast<int>(threadIdx.x) / kPieces;
  static_assert(kDecodeThreads >= kHeads * kPieces);
  if (row >= kHeads) return;
  const int i = static_cast<int>(threadIdx.x) % kPieces;
  Pieces<kHeadDim> pieces{};
  if (row < block.heads) {
    const auto* const head = reinterpret_cast<const T*>(task.q.row(block.query, block.head + row));
    pieces.load_from(head, i);
    pieces.turn(angles);
  }
  pieces.store_to(tile, row, i);
}

}  // namespace strata::cuda::decode
