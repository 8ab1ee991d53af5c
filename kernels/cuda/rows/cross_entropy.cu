// This file computes cross-entropy, fused with its gradient, on CUDA; CudaKernels launches it
// through operators.h. It takes rows of any length and alignment, in bf16 or f32, and gives the
// same bits in every run.
//
// loss[n] = lse[n] - logits[n, target] with lse = log(sum over v of exp(logits[n, v])),
// d_logits = (exp(logits - lse) - onehot(target)) * grad_scale; rows with target -100 get zeros.
//
// Shapes: logits and d_logits [N, V], in place allowed, rows strided alike; loss and lse [N] f32.
// Tile: persistent blocks that fill their multiprocessors go through the rows. A row that gets a
// gradient is read once and kept in shared memory, by one block of 1024 threads or by a cluster of
// two, four or eight that share it, 128 KiB each at most: 524288 logits in bf16. Each thread copies
// its own vectors of 16 bytes into a ring of its own, where they stay until their gradient is
// written, and the next rows' vectors follow as places become free: memory is busy while a block
// reduces or waits for its cluster, and no barrier is needed but those of the reduction. Blocks of
// a cluster exchange their sums through mbarriers (cluster.cuh). The loss alone needs a vector
// once: blocks of 512 threads stream whole rows, of any length, through the same ring. Where a row
// cannot be kept (larger ones, devices without clusters, gradients that are not aligned as the
// logits are) one block reads it twice. Rows need not be aligned: elements before the first
// multiple of 16 bytes and after the last are taken one by one, so an odd vocabulary costs little.
// Packed maxima and a reference that hardly moves keep instructions down: at 15 to 20 for each
// element their issue was what bound.
//
// Numerics: f32, in powers of two: exp(x - y) = 2^(x log2(e) - y log2(e)) is one fma and one
// instruction of 2 ulp that takes results below 2^-126 for 0. A thread adds its elements in
// ascending order relative to a reference at most 32 below their maximum, in f32 their maximum
// itself (online softmax, Milakov and Gimelshein, 2018), then a fixed tree over warp, block and
// cluster; so the lse of a row may differ in its last bits with and without a gradient. For a
// gradient in bf16 y is lse. One in f32 would show how lse, its product and the fma are rounded:
// there y is the reference, the sum divides, and the exponent's whole part is apart from the rest.
//
// Measured on one H200, 2026-11-21, bf16 in place, one read and one write counted, TB/s (a copy
// moves 4.1): 3.7 at V = 32000, 3.8 at 128256, 3.7 at 262144; the loss alone 3.6, 3.9 and 3.9.
// Naive version: kernels/cpu.

#include <type_traits>
#include <utility>

#include "kernels/cuda/common/cluster.cuh"
#include "kernels/cuda/common/copy_async.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/rows/row_rings.h"

namespace strata::cuda {
namespace {

using cross_entropy::blocks_to_keep;
using cross_entropy::has_ring;
using cross_entropy::kKeptPieces;
using cross_entropy::kVectors;
using cross_entropy::OneBlock;
using cross_entropy::TwoBlocks;

/// How many threads a block has where rows are read twice, and how many loads of each are in
/// flight.
constexpr int kPlainThreads = 512;
constexpr int kAhead = 4;

/// How far a thread's numbers may exceed its reference: sums stay below 2^47 V. An exponent is
/// rounded relative to its size, so what is to be right to the last bits must not exceed it.
template <class T>
constexpr float kSlack = 32;
template <>
constexpr float kSlack<float> = 0;
constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLog2eRest = 1.925962989091090e-8f;  ///< what kLog2e lacks
constexpr float kLn2 = 0.6931471805599453f;

__device__ __forceinline__ float power_of_two(float exponent) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
  return power;
}

/// Returns the largest of some elements.
__device__ __forceinline__ float largest_of(const Packed<float, 4>& x) {
  const auto value = [&](int i) { return __uint_as_float(x.words[i]); };
  return fmaxf(fmaxf(value(0), value(1)), fmaxf(value(2), value(3)));
}
__device__ __forceinline__ float largest_of(const Packed<__nv_bfloat16, 8>& x) {
  const auto larger = [](unsigned a, unsigned b) {  // takes the larger of both halves
    unsigned pair;
    asm("max.bf16x2 %0, %1, %2;" : "=r"(pair) : "r"(a), "r"(b));
    return pair;
  };
  const unsigned pair = larger(larger(x.words[0], x.words[1]), larger(x.words[2], x.words[3]));
  return fmaxf(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}

/// The sum of exp(x - reference) over some elements x. Exponents of two are relative to reference
/// log2(e) as rounded, everywhere, so its rounding can be taken out of the result again.
struct Softmax {
  float reference;
  float sum;

  __device__ static Softmax of_nothing() { return {-__builtin_inff(), 0.0f}; }
  /// Returns the factor from sums relative to `from` to sums relative to `to`.
  __device__ static float factor(float from, float to) {
    if (from == to) return 1.0f;  // holds for infinities, too
    return power_of_two(__fsub_rn(__fmul_rn(from, kLog2e), __fmul_rn(to, kLog2e)));
  }
  __device__ float log_sum_exp() const {
    const float rounding = fmaf(reference, kLog2e, -__fmul_rn(reference, kLog2e));
    return reference + (log2f(sum) - rounding) * kLn2;
  }
};

/// The sum of one thread, whose reference moves only where it must: to the largest of what comes
/// next, if that exceeds it by more than kSlack.
template <class T>
class RunningSoftmax {
 public:
  __device__ __forceinline__ void look_at(float largest) {
    if (largest <= limit_) return;
    now_ = {largest, now_.sum * Softmax::factor(now_.reference, largest)};
    limit_ = largest + kSlack<T>;
    base_ = __fmul_rn(largest, kLog2e);
  }
  template <int W>
  __device__ __forceinline__ void add(const float (&x)[W]) {
#pragma unroll
    for (int i = 0; i < W; ++i) now_.sum += power_of_two(fmaf(x[i], kLog2e, -base_));
  }
  [[nodiscard]] __device__ Softmax now() const { return now_; }

 private:
  Softmax now_ = Softmax::of_nothing();
  float limit_ = -__builtin_inff();
  float base_ = 0;  ///< reference log2(e); with nothing but -infinity any number gives the sum of 0
};

/// Combines what the lanes of a warp have, in all lanes: first the largest reference, then the
/// sums.
__device__ __forceinline__ Softmax warp_softmax(Softmax own) {
  Softmax all = own;
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    all.reference = fmaxf(all.reference, __shfl_xor_sync(kAllLanes, all.reference, distance));
  }
  all.sum *= Softmax::factor(own.reference, all.reference);
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    all.sum += __shfl_xor_sync(kAllLanes, all.sum, distance);
  }
  return all;
}

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

/// Calls body(column, vector) for the vectors of this thread; kAhead of them are loaded before the
/// first is worked on.
template <class T, int kThreads, class Body>
__device__ __forceinline__ void for_each_loaded(const T* row, const Part<T, kThreads>& part,
                                                const Body& body) {
  constexpr int W = kWide<T>;
  constexpr int kApart = Part<T, kThreads>::kApart;
  for (int v = part.first; v < part.share.end; v += kAhead * kApart) {
    Packed<T, W> loaded[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int at = v + i * kApart;
      if (at < part.share.end) loaded[i] = load_packed<T, W>(row + at);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int at = v + i * kApart;
      if (at >= part.share.end) break;
      body(at, loaded[i]);
    }
  }
}

template <class T>
struct Arguments {
  Rows<const T> logits;
  const std::int32_t* targets;
  const float* grad_scale;  ///< absent if d_logits is
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

template <class T>
using Vector16 = Packed<T, kWide<T>>;

__device__ __forceinline__ void store_shared(std::uint32_t to, unsigned word) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(word) : "memory");
}
template <class T>
__device__ __forceinline__ Vector16<T> load_shared(std::uint32_t from) {
  Vector16<T> x;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.words[0]), "=r"(x.words[1]), "=r"(x.words[2]), "=r"(x.words[3])
               : "r"(from)
               : "memory");
  return x;
}

/// The pieces of this thread in all rows, in order, on their way through shared memory; what a
/// piece has after its row's end is -infinity. A thread reads what it copied itself, so there are
/// no barriers. Every piece is a group of copies.
template <class T, class R>
class Ring {
  static constexpr int kThreads = R::kThreads;

 public:
  /// Starts as many pieces as there is room for.
  __device__ Ring(const Arguments<T>& p, unsigned char* shared) : walk_(p) {
    const auto begin = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
    // The asm hides the address, since the compiler would rather work it out again for every piece.
    asm volatile("mov.u32 %0, %1;" : "=r"(base_) : "r"(begin + threadIdx.x * 16));
    enter();
    for (int i = 0; i < R::kSlots; ++i) replace_oldest();
  }

  /// Loads the piece that is `ahead` of the oldest one in the ring; its group must have arrived.
  __device__ __forceinline__ void load(int ahead, Vector16<T> (&piece)[kVectors]) const {
    const int slot = oldest_ + ahead * kPieceBytes;
    const std::uint32_t at = base_ + (slot < kRingBytes ? slot : slot - kRingBytes);
#pragma unroll
    for (int j = 0; j < kVectors; ++j) piece[j] = load_shared<T>(at + j * kThreads * 16);
  }
  /// Says that the oldest piece is done with: its place goes to the next one that is not in the
  /// ring.
  __device__ __forceinline__ void replace_oldest() {
    if (left_ > 0) {
      start_piece();
      if (--left_ == 0) {
        walk_.advance();
        enter();
      }
    }
    end_copy_group();
    oldest_ = oldest_ + kPieceBytes < kRingBytes ? oldest_ + kPieceBytes : 0;
  }

 private:
  static constexpr int kPieceBytes = R::kPieceBytes;
  static constexpr int kRingBytes = R::kRingBytes;
  static constexpr int kApart = Part<T, kThreads>::kApart;

  /// Makes the first piece of the row that the walk has come to the next one to start.
  __device__ __forceinline__ void enter() {
    if (walk_.done()) return;
    left_ = walk_.part().pieces;
    room_ = walk_.part().room;
    next_ = walk_.row() + walk_.part().first;
  }
  __device__ __forceinline__ void start_piece() {
    constexpr unsigned kLowest = sizeof(T) == sizeof(float) ? 0xff800000 : 0xff80ff80;  // -infinity
    const std::uint32_t at = base_ + oldest_;
    if (room_ > (kVectors - 1) * kApart) {
#pragma unroll
      for (int j = 0; j < kVectors; ++j) start_copy(at + j * kThreads * 16, next_ + j * kApart);
    } else {
#pragma unroll
      for (int j = 0; j < kVectors; ++j) {
        if (room_ > j * kApart) {
          start_copy(at + j * kThreads * 16, next_ + j * kApart);
        } else {
          store_shared(at + j * kThreads * 16, kLowest);
        }
      }
    }
    next_ += kVectors * kApart;
    room_ -= kVectors * kApart;
  }

  RowWalk<T, kThreads> walk_;
  std::uint32_t base_;  ///< the address of the thread's places
  int oldest_ = 0;      ///< bytes from base_ to the oldest piece
  int left_ = 0;        ///< pieces of the row that are not started yet
  int room_ = 0;        ///< columns from the next piece to the end of the share
  const T* next_ = nullptr;
};

/// Turns the logits of a row into probabilities.
template <class T>
class Probability {
 public:
  __device__ static Probability of(const Softmax& row) {
    Probability p;
    p.exponent_ = row.log_sum_exp() * kLog2e;
    return p;
  }
  __device__ __forceinline__ float operator()(float x) const {
    return power_of_two(fmaf(x, kLog2e, -exponent_));
  }

 private:
  float exponent_;  ///< lse log2(e)
};

/// In f32: 2^(x log2(e) - base) / sum, where the sum is relative to the same base. The exponent is
/// a whole number, which is exact, and a rest of at most 1.
template <>
class Probability<float> {
 public:
  __device__ static Probability of(const Softmax& row) {
    Probability p;
    const float base = __fmul_rn(row.reference, kLog2e);
    p.reference_ = row.reference;
    p.whole_ = rintf(base);
    p.rest_ = base - p.whole_;
    p.share_ = 1.0f / row.sum;
    return p;
  }
  __device__ __forceinline__ float operator()(float x) const {
    constexpr float kRounder = 12582912.0f;  // adding 1.5 * 2^23 rounds to an integer
    constexpr float kLeast = -126;
    constexpr int kFractionBits = 23;
    const float shifted = fmaxf(fmaf(x, kLog2e, -whole_), kLeast) + kRounder;
    const float rest = fmaf(x, kLog2e, -(whole_ + (shifted - kRounder))) - rest_;
    const float power = power_of_two(fmaf(x - reference_, kLog2eRest, rest));
    const int exponent = __float_as_int(shifted) << kFractionBits;  // the rounder has no bits there
    return power * share_ * __int_as_float(exponent + __float_as_int(1.0f));
  }

 private:
  float reference_;
  float whole_, rest_;  ///< together the base, which is reference log2(e) as rounded
  float share_;
};

/// What the gradient of a row takes besides its logits.
template <class T>
struct Gradient {
  bool ignored;
  Probability<T> probability;
  float scale;

  /// Replaces the logits x, none of which is the target's, by their gradient.
  template <int W>
  __device__ __forceinline__ void differentiate(float (&x)[W]) const {
#pragma unroll
    for (int i = 0; i < W; ++i) x[i] = ignored ? 0.0f : probability(x[i]) * scale;
  }
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

extern __shared__ __align__(16) unsigned char shared_bytes[];

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

/// Calls body(constant) for the constants 0 to kCount - 1.
template <int kCount, class Body>
__device__ __forceinline__ void for_each_constant(const Body& body) {
  [&]<int... kValues>(std::integer_sequence<int, kValues...>) {
    (body(std::integral_constant<int, kValues>{}), ...);
  }(std::make_integer_sequence<int, kCount>{});
}

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

template <class T>
__device__ __forceinline__ void add_piece(const Vector16<T> (&piece)[kVectors],
                                          RunningSoftmax<T>& own) {
  float largest = largest_of(piece[0]);
#pragma unroll
  for (int j = 1; j < kVectors; ++j) largest = fmaxf(largest, largest_of(piece[j]));
  own.look_at(largest);
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    float x[kWide<T>];
    unpack(piece[j], x);
    own.add(x);
  }
}

/// Computes loss, lse and gradient; every row is kept.
template <class T, class R>
__global__ void __launch_bounds__(R::kThreads, R::kBlocks)
    cross_entropy_kept(const __grid_constant__ Arguments<T> p) {
  constexpr int kThreads = R::kThreads;
  __shared__ typename Reduction<kThreads>::Space space;
  Ring<T, R> ring(p, shared_bytes);
  Reduction<kThreads> reduce(space);
  const float scale = *p.grad_scale;
  RowWalk<T, kThreads> walk(p);
  for (std::int32_t next_target = walk.target(); !walk.done(); walk.advance()) {
    const T* logits = walk.row();
    const Part<T, kThreads>& part = walk.part();
    const Target<T> target(next_target, logits, part);
    next_target = walk.target(true);

    RunningSoftmax<T> own;
    add_singles(logits, part, own);
    for_each_constant<kKeptPieces>([&](auto i) {
      if (i >= part.pieces) return;
      wait_for_copy_groups<R::kSlots - 1 - i>();  // the oldest one is the row's first
      Vector16<T> piece[kVectors];
      ring.load(i, piece);
      add_piece<T>(piece, own);
    });
    const Softmax all = reduce(own.now());
    target.report(p, walk.n(), all.log_sum_exp());

    const Gradient<T> rule{target.ignored(), Probability<T>::of(all), scale};
    T* gradient = p.d_logits.row(walk.n());
    differentiate_singles(logits, part, rule, gradient);
    constexpr int kApart = Part<T, kThreads>::kApart;
    T* to = gradient + part.first;
    int room = part.room;
    for (int i = 0; i < part.pieces; ++i) {
      Vector16<T> piece[kVectors];
      ring.load(0, piece);
#pragma unroll
      for (int j = 0; j < kVectors; ++j) {
        float x[kWide<T>];
        unpack(piece[j], x);
        rule.differentiate(x);
        if (room > j * kApart) store_piece(to + j * kApart, x);
      }
      to += kVectors * kApart;
      room -= kVectors * kApart;
      ring.replace_oldest();
    }
    target.correct(gradient, rule);
  }
}

/// Computes loss and lse without a gradient.
template <class T, class R>
__global__ void __launch_bounds__(R::kThreads, R::kBlocks)
    cross_entropy_loss(const __grid_constant__ Arguments<T> p) {
  constexpr int kThreads = R::kThreads;
  __shared__ typename Reduction<kThreads>::Space space;
  Ring<T, R> ring(p, shared_bytes);
  Reduction<kThreads> reduce(space);
  RowWalk<T, kThreads> walk(p);
  for (std::int32_t next_target = walk.target(); !walk.done(); walk.advance()) {
    const Part<T, kThreads>& part = walk.part();
    const Target<T> target(next_target, walk.row(), part);
    next_target = walk.target(true);

    RunningSoftmax<T> own;
    add_singles(walk.row(), part, own);
    for (int i = 0; i < part.pieces; ++i) {
      wait_for_copy_groups<R::kSlots - 1>();
      Vector16<T> piece[kVectors];
      ring.load(0, piece);
      add_piece<T>(piece, own);
      ring.replace_oldest();
    }
    target.report(p, walk.n(), reduce(own.now()).log_sum_exp());
  }
}

/// Takes one row a block, which is read again for the gradient.
template <class T>
__global__ void __launch_bounds__(kPlainThreads)
    cross_entropy_read_twice(const __grid_constant__ Arguments<T> p) {
  __shared__ typename Reduction<kPlainThreads>::Space space;
  Reduction<kPlainThreads> reduce(space);
  const std::int64_t n = blockIdx.x;
  const T* logits = p.logits.row(n);
  T* gradient = p.d_logits.data == nullptr ? nullptr : p.d_logits.row(n);
  const Part<T, kPlainThreads> part(
      share_of<T>(logits, gradient == nullptr ? logits : gradient, p.columns));
  const Target<T> target(p.targets[n], logits, part);
  RunningSoftmax<T> own;
  add_singles(logits, part, own);
  for_each_loaded(logits, part, [&](int, const Vector16<T>& x) {
    own.look_at(largest_of(x));
    float values[kWide<T>];
    unpack(x, values);
    own.add(values);
  });
  const Softmax all = reduce(own.now());
  target.report(p, n, all.log_sum_exp());
  if (gradient == nullptr) return;
  const Gradient<T> rule{target.ignored(), Probability<T>::of(all), *p.grad_scale};
  differentiate_singles(logits, part, rule, gradient);
  for_each_loaded(logits, part, [&](int v, const Vector16<T>& x) {
    float values[kWide<T>];
    unpack(x, values);
    rule.differentiate(values);
    store_piece(gradient + v, values);
  });
  target.correct(gradient, rule);
}

/// Returns what this device has for rings.
RingDevice ring_device() {
  return {.shared_bytes = most_shared_bytes(), .clusters = has_clusters()};
}

/// Launches persistent blocks with rings, in clusters of `blocks`.
template <class R, class T>
void launch_rings(Launch where, void (*kernel)(Arguments<T>), unsigned blocks,
                  const Arguments<T>& arguments) {
  where.block = R::kThreads;
  where.cluster = blocks;
  where.shared_bytes = R::kRingBytes;
  const std::int64_t clusters = std::min<std::int64_t>(arguments.rows, resident(where, kernel));
  where.grid = blocks_for(clusters * blocks, 1);
  launch(where, kernel, arguments);
}

}  // namespace

void enqueue(const Context& context, const CrossEntropy& op) {
  with_dtype(op.kName, op.logits.dtype, [&]<class T>() {
    const Rows<const T> logits(op.logits);
    const Arguments<T> arguments{
        .logits = logits,
        .targets = data<std::int32_t>(op.targets),
        .grad_scale = data<float>(op.grad_scale),
        .loss = data<float>(op.loss),
        .lse = data<float>(op.lse),
        .d_logits = Rows<T>(op.d_logits),
        .rows = op.logits.rows(),
        .columns = static_cast<int>(op.logits.shape[1]),
        .alike = logits.stride * static_cast<std::int64_t>(sizeof(T)) % 16 == 0};
    const Launch where{.name = op.kName, .stream = context.stream, .block = kPlainThreads};
    const RingDevice device = ring_device();
    if (!op.d_logits && has_ring<TwoBlocks>(device)) {
      return launch_rings<TwoBlocks>(where, cross_entropy_loss<T, TwoBlocks>, 1, arguments);
    }
    const auto apart = reinterpret_cast<std::uintptr_t>(op.d_logits.data) -
                       reinterpret_cast<std::uintptr_t>(op.logits.data);
    if (op.d_logits && apart % 16 == 0) {
      const auto bytes = arguments.columns * static_cast<std::int64_t>(sizeof(T));
      const unsigned blocks = blocks_to_keep<OneBlock>(bytes, device);
      if (blocks > 0) {
        return launch_rings<OneBlock>(where, cross_entropy_kept<T, OneBlock>, blocks, arguments);
      }
      // This device has less shared memory, but half a block's ring may fit.
      if (blocks_to_keep<TwoBlocks>(bytes, device) == 1) {
        return launch_rings<TwoBlocks>(where, cross_entropy_kept<T, TwoBlocks>, 1, arguments);
      }
    }
    Launch row_each = where;
    row_each.grid = blocks_for(arguments.rows, 1);
    launch(row_each, cross_entropy_read_twice<T>, arguments);
  });
}

const void* cross_entropy_module() {
  return reinterpret_cast<const void*>(&cross_entropy_read_twice<float>);
}

}  // namespace strata::cuda
