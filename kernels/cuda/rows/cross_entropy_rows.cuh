// This file shares rows of logits out over clusters, blocks and threads, for the kernels of
// cross_entropy.cu: which vectors and single elements a thread has, which rows follow each other,
// who reports a row, and how its threads reduce it.

#pragma once

#include <cstdint>

#include "kernels/cuda/common/cluster.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/rows/cross_entropy_softmax.cuh"
#include "kernels/cuda/rows/row_rings.h"
#include "strata/ops/cross_entropy.h"

namespace strata::cuda::cross_entropy {

/// What one block has of a row: vectors of 16 bytes in columns [begin, end), and one by one the
/// columns [0, head) and [tail, columns), which are empty for most blocks of a cluster.
struct Share {
  int head;
  int begin;
  int end;
  int tail;
  int columns;

  [[nodiscard]] __device__ bool has_singles() const { return head > 0 || tail < columns; }
};

template <class T>
__device__ Share share_of(const T* row, const T* other, int columns) {
  constexpr int W = kWide<T>;
  constexpr unsigned kMask = 15;
  const auto offset = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(row)) & kMask;
  const auto other_offset = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(other)) & kMask;
  if (offset != other_offset) return {columns, columns, columns, columns, columns};
  const int head = min(columns, static_cast<int>((16 - offset) % 16 / sizeof(T)));
  const int vectors = (columns - head) / W;
  const int rank = static_cast<int>(cluster_rank());
  const int blocks = static_cast<int>(cluster_blocks());  // a power of two
  const int each = (vectors + blocks - 1) >> (__ffs(blocks) - 1);
  return {rank == 0 ? head : 0, head + min(rank * each, vectors) * W,
          head + min((rank + 1) * each, vectors) * W,
          rank == blocks - 1 ? head + vectors * W : columns, columns};
}

/// What one thread has of a share: vectors from column `first` on, kApart columns apart, below the
/// share's end, and the singles that are kThreads apart.
template <class T, int kThreads>
struct Part {
  static constexpr int kApart = kThreads * kWide<T>;
  static constexpr int kPieceColumns = kVectors * kApart;

  Share share;
  int first;
  int room;    ///< columns from `first` to the share's end
  int pieces;  ///< pieces that cover the share; at least one, so that no row is without

  __device__ explicit Part(const Share& of)
      : share(of),
        first(of.begin + static_cast<int>(threadIdx.x) * kWide<T>),
        room(of.end - first),
        pieces(max(1, (of.end - of.begin + kPieceColumns - 1) / kPieceColumns)) {}

  [[nodiscard]] __device__ bool has(int column) const {
    const int behind = column - first;
    bool mine = behind >= 0 && behind < room && behind % kApart < kWide<T>;
    if (share.has_singles()) for_each_single([&](int v) { mine = mine || v == column; });
    return mine;
  }
  /// Calls body(column) for the singles of this thread.
  template <class Body>
  __device__ __forceinline__ void for_each_single(const Body& body) const {
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll 1
    for (int v = thread; v < share.head; v += kThreads) body(v);
#pragma unroll 1
    for (int v = share.tail + thread; v < share.columns; v += kThreads) body(v);
  }
};

template <class T>
struct Arguments {
  Rows<const T> logits;
  const std::int32_t* targets;
  const float* grad_scale;  ///< absent if d_logits is
  int scale_step;           ///< from a row's grad_scale to the next one's: 0 or 1
  float* loss;
  float* lse;
  Rows<T> d_logits;  ///< may be absent
  std::int64_t rows;
  int columns;
  bool alike;  ///< all rows begin at the same place within 16 bytes
};

/// Goes through the rows of a block or cluster: every so many'th of the matrix.
template <class T, int kThreads>
class RowWalk {
 public:
  __device__ explicit RowWalk(const Arguments<T>& p)
      : p_(p),
        n_(blockIdx.x / cluster_blocks()),
        step_(gridDim.x / cluster_blocks()),
        row_(p.logits.row(n_)),
        part_(share_of<T>(row_, row_, p.columns)) {}

  [[nodiscard]] __device__ bool done() const { return n_ >= p_.rows; }
  [[nodiscard]] __device__ std::int64_t n() const { return n_; }
  [[nodiscard]] __device__ const T* row() const { return row_; }
  [[nodiscard]] __device__ const Part<T, kThreads>& part() const { return part_; }
  /// Returns the target of this row, or of the next one; after the last row it returns
  /// kIgnoreIndex.
  [[nodiscard]] __device__ std::int32_t target(bool next = false) const {
    const std::int64_t n = next ? n_ + step_ : n_;
    return n < p_.rows ? p_.targets[n] : CrossEntropy::kIgnoreIndex;
  }
  __device__ __forceinline__ void advance() {
    n_ += step_;
    row_ += step_ * p_.logits.stride;
    if (!p_.alike) part_ = Part<T, kThreads>(share_of<T>(row_, row_, p_.columns));
  }

 private:
  const Arguments<T>& p_;
  std::int64_t n_;
  std::int64_t step_;
  const T* row_;
  Part<T, kThreads> part_;
};

/// What the target of a row has to do with it. The thread that owns the target's column reads its
/// logit before it overwrites it itself, and reports the row.
template <class T>
class Target {
 public:
  template <int kThreads>
  __device__ Target(std::int32_t target, const T* logits, const Part<T, kThreads>& part)
      : id_(target), mine_(ignored() ? threadIdx.x == 0 && cluster_rank() == 0 : part.has(target)) {
    if (mine_ && !ignored()) logit_ = logits[id_];
  }
  [[nodiscard]] __device__ bool ignored() const { return id_ == CrossEntropy::kIgnoreIndex; }
  __device__ void report(const Arguments<T>& p, std::int64_t n, float lse) const {
    if (!mine_) return;
    p.lse[n] = lse;
    p.loss[n] = ignored() ? 0.0f : lse - widen(logit_);
  }
  /// Corrects the target's gradient once the owner has written it as that of any other column.
  __device__ void correct(T* gradient, const Gradient<T>& rule) const {
    if (!mine_ || ignored()) return;
    gradient[id_] = narrow_to<T>((rule.probability(widen(logit_)) - 1.0f) * rule.scale);
  }

 private:
  std::int32_t id_;
  bool mine_;
  T logit_{};
};

/// Reduces rows over the threads of a block or cluster, one after the other.
template <int kThreads>
class Reduction {
 public:
  struct Space {
    Softmax warps[2][kThreads / kWarp];
    ClusterExchange blocks;
  };

  /// Called by all threads of the cluster together.
  __device__ explicit Reduction(Space& space) : space_(space) {
    if (cluster_blocks() > 1) space_.blocks.init();
  }
  /// Returns the result in all threads. What a thread of the cluster read before this, no other
  /// overwrites before this.
  __device__ __forceinline__ Softmax operator()(Softmax own) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    Softmax* warps = space_.warps[row_ % 2];
    const Softmax warp = warp_softmax(own);
    if (lane == 0) warps[threadIdx.x / kWarp] = warp;
    __syncthreads();
    Softmax all = warp_softmax(lane < kThreads / kWarp ? warps[lane] : Softmax::of_nothing());
    if (cluster_blocks() > 1) {
      const float2 block = space_.blocks.exchange(make_float2(all.reference, all.sum),
                                                  make_float2(-__builtin_inff(), 0.0f), row_);
      all = warp_softmax({block.x, block.y});
    }
    ++row_;
    return all;
  }

 private:
  Space& space_;
  unsigned row_ = 0;
};

/// Adds the columns of this thread that are in no piece.
template <class T, int kThreads>
__device__ __forceinline__ void add_singles(const T* logits, const Part<T, kThreads>& part,
                                            RunningSoftmax<T>& own) {
  if (!part.share.has_singles()) return;
  part.for_each_single([&](int v) {
    const float x[1] = {widen(logits[v])};
    own.look_at(x[0]);
    own.add(x);
  });
}
template <class T, int kThreads>
__device__ __forceinline__ void differentiate_singles(const T* logits,
                                                      const Part<T, kThreads>& part,
                                                      const Gradient<T>& rule, T* gradient) {
  if (!part.share.has_singles()) return;
  part.for_each_single([&](int v) {
    float x[1] = {widen(logits[v])};
    rule.differentiate(x);
    gradient[v] = narrow_to<T>(x[0]);
  });
}

}  // namespace strata::cuda::cross_entropy
