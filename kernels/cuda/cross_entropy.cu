// loss[n] = lse[n] - logits[n, target] with lse = log(sum over v of exp(logits[n, v])),
// d_logits = (exp(logits - lse) - onehot(target)) * grad_scale; rows with target -100 get zeros.
//
// Shapes: logits and d_logits [N, V], in place allowed, rows strided alike; loss and lse [N] f32.
// Tile: a row is read once and kept in shared memory, of one block of 512 threads or of a cluster
// of two, four or eight that share it, 64 KiB each at most: 262144 logits in bf16. A block asks for
// its whole share at once and works on what has arrived; three blocks on a multiprocessor let one
// load while another computes or writes. The first pass keeps a running maximum and a running sum
// per thread (online softmax, Milakov and Gimelshein, 2018), the second writes the gradient. A
// thread works on what it copied itself, so no barrier is needed but those of the reduction. Where
// a row cannot be kept (larger ones, devices without clusters, gradients that are not aligned as
// the logits are) one block reads it twice; without a gradient it is read once anyway. Rows need
// not be aligned: elements before the first multiple of 16 bytes and behind the last are taken one
// by one, so an odd vocabulary costs nothing. Numerics: f32, in powers of two: exp(x - y) = 2^(x
// log2(e) - y log2(e)) is one fma and one instruction of 2 ulp that takes results below 2^-126 for
// 0. A thread adds its elements in ascending order, then a fixed tree, then the blocks of a cluster
// in order. Measured on one H200, 2026-11-21, bf16 in place, one read and one write counted, TB/s
// (a copy moves 4.2): 4.0 at V = 32000, 3.3 at 128256 and at 262144 (2.9 and 2.7 when every row was
// read twice by one block); the loss alone 3.4, 3.0 and 2.9. Naive version: kernels/cpu.

#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/copy_async.cuh"
#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector.cuh"

namespace strata::cuda {
namespace {

constexpr int kThreads = 512;
/// Per multiprocessor, by shared memory and at 40 registers a thread, or at 64 where a row is not
/// kept but kAhead loads of each thread are in flight.
constexpr int blocks_if(bool kept) { return kept ? 3 : 2; }
constexpr int kAhead = 4;
/// What a block keeps of a row, at most.
constexpr int kKeptBytes = 64 * 1024;
/// Pieces of a row that a thread keeps, at most.
constexpr int kKeptPieces = kKeptBytes / 16 / kThreads;
/// The largest cluster that every device with clusters has.
constexpr unsigned kMostBlocksPerRow = 8;
constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

__device__ __forceinline__ float power_of_two(float exponent) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
  return power;
}

/// Sum of exp(x - max) over some elements x, with their maximum. Exponents of two are relative to
/// max log2(e) as rounded, everywhere, so its rounding can be taken out of the result again.
struct Softmax {
  float max;
  float sum;

  __device__ static Softmax shuffle(Softmax x, int distance) {
    return {__shfl_xor_sync(kAllLanes, x.max, distance),
            __shfl_xor_sync(kAllLanes, x.sum, distance)};
  }
  /// Factor from sums relative to `from` to sums relative to `to`.
  __device__ static float factor(float from, float to) {
    if (from == to) return 1.0f;  // infinities, too
    return power_of_two(__fsub_rn(__fmul_rn(from, kLog2e), __fmul_rn(to, kLog2e)));
  }
  template <int W>
  __device__ __forceinline__ void add(const float (&x)[W]) {
    float largest = x[0];
#pragma unroll
    for (int i = 1; i < W; ++i) largest = fmaxf(largest, x[i]);
    if (largest > max) {
      sum *= factor(max, largest);
      max = largest;
    }
    // Nothing but -infinity so far: any finite reference gives the sum of 0.
    const float base = max == -__builtin_inff() ? 0.0f : __fmul_rn(max, kLog2e);
#pragma unroll
    for (int i = 0; i < W; ++i) sum += power_of_two(fmaf(x[i], kLog2e, -base));
  }
  __device__ float log_sum_exp() const {
    const float rounding = fmaf(max, kLog2e, -__fmul_rn(max, kLog2e));
    return max + (log2f(sum) - rounding) * kLn2;
  }
};

constexpr Softmax kNothing{-__builtin_inff(), 0.0f};

__device__ __forceinline__ Softmax combine(Softmax a, Softmax b) {
  const float max = fmaxf(a.max, b.max);
  return {max, a.sum * Softmax::factor(a.max, max) + b.sum * Softmax::factor(b.max, max)};
}

/// What one block has of a row: aligned pieces of 16 bytes in [begin, end), and one by one the
/// elements [0, head) and [tail, columns), which are empty for most blocks of a cluster.
struct Share {
  int head;
  int begin;
  int end;
  int tail;
  int columns;
};

template <class T>
__device__ Share share_of(const T* row, const T* other, int columns) {
  constexpr int W = kWide<T>;
  constexpr unsigned kMask = 15;
  const auto offset = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(row)) & kMask;
  const auto other_offset = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(other)) & kMask;
  if (offset != other_offset) return {columns, columns, columns, columns, columns};
  const int head = min(columns, static_cast<int>((16 - offset) % 16 / sizeof(T)));
  const int pieces = (columns - head) / W;
  const int rank = static_cast<int>(cluster_rank());
  const int blocks = static_cast<int>(cluster_blocks());
  const int each = (pieces + blocks - 1) / blocks;
  return {rank == 0 ? head : 0, head + min(rank * each, pieces) * W,
          head + min((rank + 1) * each, pieces) * W,
          rank == blocks - 1 ? head + pieces * W : columns, columns};
}

/// Calls body(column, values) for the elements of this thread that are in no piece.
template <class T, class Body>
__device__ __forceinline__ void for_each_single(const T* row, const Share& share,
                                                const Body& body) {
  const auto one = [&](int v) {
    float x[1];
    load(row + v, x);
    body(v, x);
  };
  const int thread = static_cast<int>(threadIdx.x);
  for (int v = thread; v < share.head; v += kThreads) one(v);
  for (int v = share.tail + thread; v < share.columns; v += kThreads) one(v);
}

/// Calls body(column, values) for the pieces of this thread; kAhead of them are loaded before the
/// first is worked on.
template <class T, class Body>
__device__ __forceinline__ void for_each_loaded(const T* row, const Share& share,
                                                const Body& body) {
  constexpr int W = kWide<T>;
  const int first = share.begin + static_cast<int>(threadIdx.x) * W;
  for (int v = first; v < share.end; v += kAhead * kThreads * W) {
    Vector<T, W> loaded[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int at = v + i * kThreads * W;
      if (at < share.end) loaded[i] = load_raw<T, W>(row + at);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int at = v + i * kThreads * W;
      if (at >= share.end) break;
      float x[W];
      unpack(loaded[i], x);
      body(at, x);
    }
  }
}

/// Starts copying the pieces of this thread to `kept`, each a group of its own.
template <class T>
__device__ __forceinline__ void start_row(const T* row, const Share& share, T* kept) {
  constexpr int W = kWide<T>;
  int v = share.begin + static_cast<int>(threadIdx.x) * W;
#pragma unroll
  for (int i = 0; i < kKeptPieces; ++i, v += kThreads * W) {
    if (v < share.end) copy_async<T, W>(kept + (v - share.begin), row + v);
    end_copy_group();
  }
}

/// Calls body(column, values) for the pieces of this thread, each as it arrives.
template <class T, class Body>
__device__ __forceinline__ void for_each_kept(const T* kept, const Share& share, const Body& body) {
  constexpr int W = kWide<T>;
  const int first = share.begin + static_cast<int>(threadIdx.x) * W;
  for (int v = first; v < share.end; v += kThreads * W) {
    // An empty group more with each piece: the oldest one that is still awaited is this piece's.
    end_copy_group();
    wait_for_copy_groups<kKeptPieces>();
    float x[W];
    load(kept + (v - share.begin), x);
    body(v, x);
  }
}

/// Combines what the blocks of a cluster have, in order of rank. `exchange` has room for all. The
/// cluster has arrived once at its barrier before.
__device__ Softmax combine_blocks(Softmax own, Softmax* exchange) {
  const unsigned blocks = cluster_blocks();
  if (blocks == 1) return own;
  cluster_wait();  // all blocks have started
  if (threadIdx.x < blocks) *in_block(exchange + cluster_rank(), threadIdx.x) = own;
  cluster_arrive();
  cluster_wait();
  Softmax all = exchange[0];
  for (unsigned i = 1; i < blocks; ++i) all = combine(all, exchange[i]);
  return all;
}

template <class T>
struct Arguments {
  Rows<const T> logits;
  const std::int32_t* targets;
  const float* grad_scale;  ///< absent if d_logits is
  float* loss;
  float* lse;
  Rows<T> d_logits;  ///< may be absent
  int columns;
};

/// x = gradient of the logits x from column v on; `exponent` is lse log2(e).
template <int W>
__device__ __forceinline__ void differentiate(float (&x)[W], int v, int target, float exponent,
                                              float scale) {
#pragma unroll
  for (int i = 0; i < W; ++i) x[i] = power_of_two(fmaf(x[i], kLog2e, -exponent));
  if (target >= v && target < v + W) {
#pragma unroll
    for (int i = 0; i < W; ++i) {
      if (v + i == target) x[i] -= 1.0f;
    }
  }
#pragma unroll
  for (int i = 0; i < W; ++i) x[i] *= scale;
}

extern __shared__ __align__(16) unsigned char kept_bytes[];

template <class T, bool kKept>
__global__ void __launch_bounds__(kThreads, blocks_if(kKept)) cross_entropy(Arguments<T> p) {
  __shared__ Softmax scratch[kMostWarps];
  __shared__ Softmax exchange[kMostBlocksPerRow];
  T* kept = reinterpret_cast<T*>(kept_bytes);
  const std::int64_t n = blockIdx.x / cluster_blocks();
  const T* logits = p.logits.row(n);
  const bool backward = p.d_logits.data != nullptr;
  T* gradient = backward ? p.d_logits.row(n) : nullptr;
  const Share share = share_of<T>(logits, backward ? gradient : logits, p.columns);
  const auto for_each = [&](const auto& body) {
    for_each_single(logits, share, body);
    if constexpr (kKept) {
      for_each_kept(kept, share, body);
    } else {
      for_each_loaded(logits, share, body);
    }
  };

  if (cluster_blocks() > 1) cluster_arrive_started();
  if constexpr (kKept) start_row(logits, share, kept);
  const std::int32_t target = p.targets[n];
  const bool ignored = target == CrossEntropy::kIgnoreIndex;
  // Read before the barriers of the reduction: behind them the row may be overwritten.
  const float target_logit = ignored ? 0.0f : widen(logits[target]);
  Softmax own = kNothing;
  for_each([&](int, const auto& x) { own.add(x); });
  own = combine_blocks(block_reduce(own, kNothing, scratch, combine), exchange);
  const float lse = own.log_sum_exp();
  if (threadIdx.x == 0 && cluster_rank() == 0) {
    p.lse[n] = lse;
    p.loss[n] = ignored ? 0.0f : lse - target_logit;
  }
  if (!backward) return;

  const float scale = *p.grad_scale;
  const float exponent = lse * kLog2e;
  for_each([&](int v, auto& x) {
    constexpr int W = sizeof(x) / sizeof(float);
    if (ignored) {
#pragma unroll
      for (int i = 0; i < W; ++i) x[i] = 0.0f;
    } else {
      differentiate(x, v, target, exponent, scale);
    }
    store<T, W>(gradient + v, x);
  });
}

/// Blocks that keep a row of `bytes`: 0 if it cannot be kept on this device.
unsigned blocks_to_keep(std::int64_t bytes) {
  if (device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) < kKeptBytes + 1024) return 0;
  unsigned blocks = 1;
  while (blocks * std::int64_t{kKeptBytes} < bytes) blocks *= 2;
  if (blocks == 1) return 1;
  const bool clusters = device_attribute(cudaDevAttrClusterLaunch) != 0;
  return clusters && blocks <= kMostBlocksPerRow ? blocks : 0;
}

}  // namespace

void launch_cross_entropy(cudaStream_t stream, const CrossEntropy& op) {
  const std::int64_t columns = op.logits.shape[1];
  with_dtype(op.kName, op.logits.dtype, [&]<class T>() {
    const Arguments<T> arguments{.logits = Rows<const T>(op.logits),
                                 .targets = data<std::int32_t>(op.targets),
                                 .grad_scale = data<float>(op.grad_scale),
                                 .loss = data<float>(op.loss),
                                 .lse = data<float>(op.lse),
                                 .d_logits = Rows<T>(op.d_logits),
                                 .columns = static_cast<int>(columns)};
    const auto apart = reinterpret_cast<std::uintptr_t>(op.d_logits.data) -
                       reinterpret_cast<std::uintptr_t>(op.logits.data);
    const bool aligned = !op.d_logits || apart % 16 == 0;
    const std::int64_t row_bytes = columns * static_cast<std::int64_t>(sizeof(T));
    const unsigned blocks = aligned ? blocks_to_keep(row_bytes) : 0;
    Launch where{.name = op.kName, .stream = stream, .block = kThreads};
    where.cluster = std::max(blocks, 1u);
    where.grid = blocks_for(op.logits.rows() * where.cluster, 1);
    if (blocks == 0) return launch(where, cross_entropy<T, false>, arguments);
    const std::int64_t pieces = (row_bytes + 15) / 16;
    where.shared_bytes = static_cast<std::size_t>((pieces + blocks - 1) / blocks * 16);
    launch(where, cross_entropy<T, true>, arguments);
  });
}

const void* cross_entropy_module() {
  return reinterpret_cast<const void*>(&cross_entropy<float, false>);
}

}  // namespace strata::cuda
