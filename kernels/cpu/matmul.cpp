// This file computes matrix products on the CPU, for every layout and update of
// strata/ops/matmul.h; CpuKernels calls them through operators.h. Every output element is one fma
// chain in ascending k, begun at 0 or at the value in out, to which a bias is added last, and
// rounded once. So splitting K over accumulating calls, other tile sizes and other numbers of
// threads give the same bits.
//
// Codes in e4m3 are widened and multiplied by their row's scale when they are packed, which is
// exact down to the smallest f32: the sum is that of the rounded numbers.
//
// How: out is cut into tiles, one task each. A task keeps its tile as A (the accumulator type) in
// scratch, walks K in blocks, packs both operands' blocks (widened to A, padded with zeros to whole
// register tiles) and runs the register tiles of simd/tile.h over them.

#include <algorithm>
#include <memory>
#include <new>

#include "kernels/cpu/operators.h"
#include "kernels/cpu/typed.h"

namespace strata::cpu {

namespace {

// Blocks of both operands and the tile in f32 take 1 MiB: they stay in a core's second-level cache.
constexpr std::int64_t kMaxRows = 240;
constexpr std::int64_t kMaxColumns = 384;
constexpr std::int64_t kDepth = 256;
constexpr std::align_val_t kAlignment{64};

struct Free {
  void operator()(std::byte* p) const { ::operator delete[](p, kAlignment); }
};

/// The scratch of one thread, which it takes at its first product and keeps.
template <class A>
struct Scratch {
  A* a;     ///< [kDepth x kMaxRows], packed
  A* b;     ///< [kDepth x kMaxColumns], packed
  A* tile;  ///< [kMaxRows, kMaxColumns]

  static Scratch of_this_thread() {
    constexpr std::size_t kElements =
        kDepth * kMaxRows + kDepth * kMaxColumns + kMaxRows * kMaxColumns;
    thread_local const std::unique_ptr<std::byte[], Free> memory(
        new (kAlignment) std::byte[kElements * sizeof(double)]);
    A* begin = reinterpret_cast<A*>(memory.get());
    return {begin, begin + kDepth * kMaxRows, begin + kDepth * (kMaxRows + kMaxColumns)};
  }
};

[[nodiscard]] std::int64_t round_up_to(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// An operand whose element (i, k) is data[i * stride_i + k * stride_k], times scales[i] if it has
/// scales; one of the strides is 1.
template <class In>
struct Operand {
  const In* data;
  std::int64_t stride_i;
  std::int64_t stride_k;
  const float* scales = nullptr;  ///< for codes in e4m3, and no other

  [[nodiscard]] Operand from(std::int64_t i, std::int64_t k) const {
    return {data + i * stride_i + k * stride_k, stride_i, stride_k,
            scales == nullptr ? nullptr : scales + i};
  }
};

/// Packs kLines lines of `depth` elements beside each other, [k][line], into rows of `width`. What
/// the lines have at one k is read before it is written, so that it is written by one instruction.
template <int kLines, class In, class A>
void pack_lines(const Operand<In>& source, std::int64_t depth, int width, A* to) {
  for (std::int64_t k = 0; k < depth; ++k, to += width) {
    A column[kLines];
    for (int l = 0; l < kLines; ++l) {
      column[l] = static_cast<A>(source.data[l * source.stride_i + k]);
      if constexpr (std::same_as<In, E4M3>) column[l] *= A{source.scales[l]};
    }
    std::copy_n(column, kLines, to);
  }
}

/// Packs `count` lines of `depth` elements into panels of `width` lines, [panel][k][line], with
/// zeros where a panel has no line.
template <class In, class A>
void pack(const Operand<In>& source, std::int64_t count, std::int64_t depth, int width, A* to) {
  constexpr std::int64_t kChunk = 16;  // elements of k, so that a line's cache line is read once
  constexpr int kLines = std::same_as<In, A> ? 4 : 1;  // what is widened is so along a line
  for (std::int64_t i = 0; i < count; i += width, to += depth * width) {
    const std::int64_t lines = std::min<std::int64_t>(width, count - i);
    if (lines < width) std::fill_n(to, depth * width, A{0});
    if (source.stride_i == 1 && !std::same_as<In, E4M3>) {
      for (std::int64_t k = 0; k < depth; ++k) {
        const In* column = source.data + i + k * source.stride_k;
        for (std::int64_t l = 0; l < lines; ++l) to[k * width + l] = static_cast<A>(column[l]);
      }
      continue;
    }
    for (std::int64_t k = 0; k < depth; k += kChunk) {
      const std::int64_t some = std::min(kChunk, depth - k);
      std::int64_t l = 0;
      for (; l + kLines <= lines; l += kLines) {
        pack_lines<kLines>(source.from(i + l, k), some, width, to + k * width + l);
      }
      for (; l < lines; ++l) {
        pack_lines<1>(source.from(i + l, k), some, width, to + k * width + l);
      }
    }
  }
}

/// Multiplies what was packed by alpha.
template <class A>
void scale(A* packed, std::int64_t count, double alpha) {
  for (std::int64_t i = 0; i < count; ++i) packed[i] *= static_cast<A>(alpha);
}

/// How out is cut into tasks. Fewer, larger tiles pack less; more tiles keep more threads busy.
struct Tiling {
  std::int64_t rows, columns;

  Tiling(std::int64_t m, std::int64_t n, int tile_rows, int tile_columns, int threads)
      : rows(std::min(kMaxRows, round_up_to(m, tile_rows))),
        columns(std::min(kMaxColumns, round_up_to(n, tile_columns))) {
    const std::int64_t wanted = threads == 1 ? 1 : 3 * threads;
    while (tiles(m, n) < wanted && (rows > 4 * tile_rows || columns > 2 * tile_columns)) {
      if (rows > 4 * tile_rows && (rows >= columns || columns <= 2 * tile_columns)) {
        rows = round_up_to(rows / 2, tile_rows);
      } else {
        columns = round_up_to(columns / 2, tile_columns);
      }
    }
  }
  [[nodiscard]] std::int64_t across(std::int64_t n) const { return (n + columns - 1) / columns; }
  [[nodiscard]] std::int64_t tiles(std::int64_t m, std::int64_t n) const {
    return (m + rows - 1) / rows * across(n);
  }
};

/// A product of operands of type In, computed in X.
template <class In, Compute X>
class Product {
  using A = Accumulator<X>;

 public:
  Product(const Matmul& op, const TileKernel<A>& kernel)
      : op_(op),
        kernel_(kernel),
        a_(operand(op.a, op.a_scale, op.layout == MatmulLayout::kTN)),
        b_(operand(op.b, op.b_scale, op.layout != MatmulLayout::kNT)) {}

  /// Computes out[m0 : m0 + rows, n0 : n0 + columns].
  void run(std::int64_t m0, std::int64_t rows, std::int64_t n0, std::int64_t columns) const {
    const Scratch<A> scratch = Scratch<A>::of_this_thread();
    const std::int64_t stride = round_up_to(columns, kernel_.columns);
    std::fill_n(scratch.tile, round_up_to(rows, kernel_.rows) * stride, A{0});
    const bool in_accumulator = op_.out.dtype == kDTypeOf<A>;
    if (op_.update == MatmulUpdate::kAccumulate) {
      if (in_accumulator) {
        load<A>(scratch.tile, stride, m0, rows, n0, columns);
      } else {
        load<X>(scratch.tile, stride, m0, rows, n0, columns);
      }
    }
    for (std::int64_t k0 = 0; k0 < op_.k(); k0 += kDepth) {
      const std::int64_t depth = std::min(kDepth, op_.k() - k0);
      pack(a_.from(m0, k0), rows, depth, kernel_.rows, scratch.a);
      if (op_.alpha != 1) scale(scratch.a, round_up_to(rows, kernel_.rows) * depth, op_.alpha);
      pack(b_.from(n0, k0), columns, depth, kernel_.columns, scratch.b);
      for (std::int64_t n = 0; n < columns; n += kernel_.columns) {
        for (std::int64_t m = 0; m < rows; m += kernel_.rows) {
          kernel_.multiply(scratch.a + m * depth, scratch.b + n * depth, depth,
                           scratch.tile + m * stride + n, stride);
        }
      }
    }
    if (op_.bias) add_bias(scratch.tile, stride, rows, n0, columns);
    if (in_accumulator) {
      store<A>(scratch.tile, stride, m0, rows, n0, columns);
    } else {
      store<X>(scratch.tile, stride, m0, rows, n0, columns);
    }
  }

 private:
  /// With `transposed` k runs along the rows of the view.
  static Operand<In> operand(const ConstTensorView& view, const ConstTensorView& scale,
                             bool transposed) {
    const In* data = view.as<In>();
    if (transposed) return {data, 1, view.row_stride};
    return {data, view.row_stride, 1, scale.as<float>()};
  }

  void add_bias(A* tile, std::int64_t stride, std::int64_t rows, std::int64_t n0,
                std::int64_t columns) const {
    const X* bias = op_.bias.as<X>() + n0;
    for (std::int64_t m = 0; m < rows; ++m) {
      for (std::int64_t n = 0; n < columns; ++n) tile[m * stride + n] += static_cast<A>(bias[n]);
    }
  }

  /// Begins the sums of a tile with what `out` holds.
  template <class Out>
  void load(A* tile, std::int64_t stride, std::int64_t m0, std::int64_t rows, std::int64_t n0,
            std::int64_t columns) const {
    const Rows<const Out> out(op_.out);
    for (std::int64_t m = 0; m < rows; ++m) {
      const Out* row = out[m0 + m] + n0;
      for (std::int64_t n = 0; n < columns; ++n) tile[m * stride + n] = static_cast<A>(row[n]);
    }
  }

  template <class Out>
  void store(const A* tile, std::int64_t stride, std::int64_t m0, std::int64_t rows,
             std::int64_t n0, std::int64_t columns) const {
    const Rows<Out> out(op_.out);
    for (std::int64_t m = 0; m < rows; ++m) {
      Out* row = out[m0 + m] + n0;
      for (std::int64_t n = 0; n < columns; ++n) row[n] = Out(tile[m * stride + n]);
    }
  }

  const Matmul& op_;
  const TileKernel<A>& kernel_;
  Operand<In> a_;
  Operand<In> b_;
};

template <class A>
const TileKernel<A>& tile_of(const SimdKernels& simd) {
  if constexpr (std::same_as<A, double>) {
    return simd.tile_f64;
  } else {
    return simd.tile_f32;
  }
}

/// Computes the product of operands of type In in X.
template <class In, Compute X>
void multiply(const Context& context, const Matmul& op) {
  const std::int64_t m = op.m();
  const std::int64_t n = op.n();
  const auto& kernel = tile_of<Accumulator<X>>(context.simd);
  const Product<In, X> product(op, kernel);
  // A product of less than a chunk is not worth waking a thread.
  const bool little = grain_for(m * n * op.k() / kProductsAtOnce) > 1;
  const int threads = little ? 1 : context.pool.threads();
  const Tiling tiling(m, n, kernel.rows, kernel.columns, threads);
  const std::int64_t across = tiling.across(n);
  const std::int64_t grain = grain_for(tiling.rows * tiling.columns * op.k() / kProductsAtOnce);
  context.pool.parallel_for(tiling.tiles(m, n), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile) {
      const std::int64_t m0 = tile / across * tiling.rows;
      const std::int64_t n0 = tile % across * tiling.columns;
      product.run(m0, std::min(tiling.rows, m - m0), n0, std::min(tiling.columns, n - n0));
    }
  });
}

}  // namespace

void execute(const Context& context, const Matmul& op) {
  if (op.m() == 0 || op.n() == 0) return;
  const bool codes = op.a.dtype == DType::kE4M3;
  with_compute_type(codes ? op.out.dtype : op.a.dtype, [&]<Compute X>(X) {
    if (codes) {
      multiply<E4M3, X>(context, op);
    } else {
      multiply<X, X>(context, op);
    }
  });
}

}  // namespace strata::cpu
