// Submits the products of a linear's low-rank adapters, which stand beside those of the linear
// itself (strata/model/adapters.h). They multiply numbers of the compute dtype, whatever the linear
// multiplies.

#pragma once

#include <cstddef>
#include <cstdint>

#include "cell_runner.h"
#include "heads.h"
#include "strata/model/llama_memory.h"
#include "strata/model/unit_views.h"

namespace strata {

/// Runs the adapters of one linear beside its own products. h = x A^T of all of them is one product
/// and so are its two gradients. What backward needs of h is computed again, and what dropout
/// leaves of x as well: all of them read the same.
class AdapterRunner {
 public:
  /// What is given here outlives the runner.
  AdapterRunner(const CellRunner& run, const Linear& linear,
                const AdapterViews<ConstTensorView>& weights, const AdapterScratch& scratch,
                const DropoutMask& dropout)
      : run_(run), linear_(linear), w_(weights), s_(scratch), dropout_(dropout) {}

  /// y [N, out] += what the adapters make of x [N, in].
  void forward(const ConstTensorView& x, const TensorView& y) const {
    const TensorView h_of_x = h(x.rows());
    run_.linear(dropped(x), w_.a, h_of_x);
    for_each([&](const Part& part) {
      run_(Matmul{.a = part.of_h(h_of_x),
                  .b = part.b,
                  .out = part.of_y(y),
                  .update = MatmulUpdate::kAccumulate,
                  .alpha = part.scale});
    });
  }
  /// The same so that a row does not depend on the others. Products that promise that do not add,
  /// so each is rounded before it is added.
  void by_row(const ConstTensorView& x, const TensorView& y) const {
    const TensorView h_of_x = h(x.rows());
    run_(linear_by_row(x, w_.a, h_of_x));
    for_each([&](const Part& part) {
      const TensorView added(s_.y.data, s_.y.dtype, Shape{x.rows(), part.b.rows()});
      run_(linear_by_row(part.of_h(h_of_x), part.b, added, part.scale));
      run_(ResidualAdd{.a = part.of_y(y), .b = added, .y = part.of_y(y)});
    });
  }
  /// dx [N, in] += their part of the gradient of x, where dy [N, out] is that of y. Leaves the
  /// gradient of h to weight_gradient(), which comes next of this linear.
  void input_gradient(const ConstTensorView& dy, const TensorView& dx) const {
    const TensorView d_h = dh(dy.rows());
    for_each([&](const Part& part) {
      run_.input_gradient(part.of_y(dy), part.b, part.of_h(d_h), part.scale);
    });
    if (dropout_.rate > 0) {
      const TensorView d_left = left(dx.rows());
      run_.input_gradient(d_h, w_.a, d_left);
      return run_(Dropout{.x = d_left, .added = dx, .y = dx, .mask = dropout_});
    }
    run_(Matmul{.a = d_h,
                .b = w_.a,
                .out = dx,
                .layout = MatmulLayout::kNN,
                .update = MatmulUpdate::kAccumulate});
  }
  /// Adds to the gradients of A and B.
  void weight_gradient(const ConstTensorView& dy, const ConstTensorView& x,
                       const AdapterViews<TensorView>& gradients) const {
    const TensorView h_of_x = h(x.rows());
    const ConstTensorView read = dropped(x);
    run_.linear(read, w_.a, h_of_x);
    for_each([&](const Part& part) {
      run_.weight_gradient(part.of_y(dy), part.of_h(h_of_x), gradients.b.at(part.source),
                           part.scale);
    });
    run_.weight_gradient(dh(dy.rows()), read, gradients.a);
  }

 private:
  /// The adapter of one source: which columns of h and of y are its own.
  struct Part {
    std::size_t source = 0;
    ConstTensorView b{};
    std::int64_t h_begin = 0;
    std::int64_t y_begin = 0;
    double scale = 1;  ///< of what is added to y

    [[nodiscard]] TensorView of_h(const TensorView& h) const {
      return columns_of(h, h_begin, b.shape[1]);
    }
    template <class Void>
    [[nodiscard]] BasicTensorView<Void> of_y(const BasicTensorView<Void>& y) const {
      return columns_of(y, y_begin, b.shape[0]);
    }
  };

  template <class Body>
  void for_each(const Body& body) const {
    std::int64_t h_begin = 0;
    for (const Adapter& adapter : linear_.adapters) {
      std::int64_t y_begin = 0;
      for (std::size_t i = 0; i < adapter.source; ++i) y_begin += linear_.sources[i].rows;
      body(Part{.source = adapter.source,
                .b = w_.b.at(adapter.source),
                .h_begin = h_begin,
                .y_begin = y_begin,
                .scale = adapter.scale * linear_.multiplier});
      h_begin += adapter.rank;
    }
  }
  /// Returns what A reads: x, or what dropout leaves of it.
  [[nodiscard]] ConstTensorView dropped(const ConstTensorView& x) const {
    if (dropout_.rate == 0) return x;
    const TensorView y = left(x.rows());
    run_(Dropout{.x = x, .y = y, .mask = dropout_});
    return y;
  }
  [[nodiscard]] TensorView left(std::int64_t tokens) const {
    return {s_.x.data, s_.x.dtype, Shape{tokens, linear_.in}};
  }
  [[nodiscard]] TensorView h(std::int64_t tokens) const { return of_rank(s_.h, tokens); }
  [[nodiscard]] TensorView dh(std::int64_t tokens) const { return of_rank(s_.dh, tokens); }
  [[nodiscard]] TensorView of_rank(const TensorView& all, std::int64_t tokens) const {
    return {all.data, all.dtype, Shape{tokens, w_.a.rows()}};
  }

  const CellRunner& run_;
  const Linear& linear_;
  const AdapterViews<ConstTensorView>& w_;
  const AdapterScratch& s_;
  DropoutMask dropout_;
};

}  // namespace strata
