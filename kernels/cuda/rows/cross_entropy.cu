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

#include "kernels/cuda/common/copy_async.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/rows/cross_entropy_ring.cuh"
#include "kernels/cuda/rows/cross_entropy_rows.cuh"
#include "kernels/cuda/rows/cross_entropy_softmax.cuh"
#include "kernels/cuda/rows/row_rings.h"

namespace strata::cuda {

namespace cross_entropy {

namespace {

/// How many threads a block has where rows are read twice, and how many loads of each are in
/// flight.
constexpr int kPlainThreads = 512;
constexpr int kAhead = 4;

extern __shared__ __align__(16) unsigned char shared_bytes[];

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

/// Calls body(constant) for the constants 0 to kCount - 1.
template <int kCount, class Body>
__device__ __forceinline__ void for_each_constant(const Body& body) {
  [&]<int... kValues>(std::integer_sequence<int, kValues...>) {
    (body(std::integral_constant<int, kValues>{}), ...);
  }(std::make_integer_sequence<int, kCount>{});
}

/// Computes loss, lse and gradient; every row is kept.
template <class T, class R>
__global__ void __launch_bounds__(R::kThreads, R::kBlocks)
    cross_entropy_kept(const __grid_constant__ Arguments<T> p) {
  constexpr int kThreads = R::kThreads;
  __shared__ typename Reduction<kThreads>::Space space;
  Ring<T, R> ring(p, shared_bytes);
  Reduction<kThreads> reduce(space);
  RowWalk<T, kThreads> walk(p);
  for (std::int32_t next_target = walk.target(); !walk.done(); walk.advance()) {
    const T* logits = walk.row();
    const Part<T, kThreads>& part = walk.part();
    const Target<T> target(next_target, logits, part);
    next_target = walk.target(true);
    const float scale = p.grad_scale[walk.n() * p.scale_step];

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
  const Gradient<T> rule{target.ignored(), Probability<T>::of(all), p.grad_scale[n * p.scale_step]};
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

template <class T>
void launch_cross_entropy(cudaStream_t stream, const CrossEntropy& op) {
  const Rows<const T> logits(op.logits);
  const Arguments<T> arguments{
      .logits = logits,
      .targets = data<std::int32_t>(op.targets),
      .grad_scale = data<float>(op.grad_scale),
      .scale_step = op.grad_scale.elements() > 1 ? 1 : 0,
      .loss = data<float>(op.loss),
      .lse = data<float>(op.lse),
      .d_logits = Rows<T>(op.d_logits),
      .rows = op.logits.rows(),
      .columns = static_cast<int>(op.logits.shape[1]),
      .alike = logits.stride * static_cast<std::int64_t>(sizeof(T)) % 16 == 0};
  const Launch where{.name = op.kName, .stream = stream, .block = kPlainThreads};
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
}

}  // namespace

}  // namespace cross_entropy

void enqueue(const Context& context, const CrossEntropy& op) {
  with_dtype(op.kName, op.logits.dtype,
             [&]<class T>() { cross_entropy::launch_cross_entropy<T>(context.stream, op); });
}

const void* cross_entropy_module() {
  return reinterpret_cast<const void*>(&cross_entropy::cross_entropy_read_twice<float>);
}

}  // namespace strata::cuda
