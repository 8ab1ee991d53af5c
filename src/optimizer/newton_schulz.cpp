// A step makes a x + b G x + c G^2 x of a matrix x that is no higher than wide, with G = x x^T, and
// the same from the right of one that is higher, with G = x^T x. A step here leaves out the factor
// a, so that each matrix is a copy to which one product adds: after k steps the matrix times a^k is
// what the formula has, and G is a^2k times the product of what is stored. The dtype's exponents
// have room for a^5, and its precision does not depend on the scale.

#include "strata/optimizer/newton_schulz.h"

#include <algorithm>

namespace strata {

namespace {

// The coefficients of the quintic, in the paper's letters. Its slope at 0 is as steep as it can be
// while five steps leave large values near 1.
constexpr double kA = 3.4445;
constexpr double kB = -4.7750;
constexpr double kC = 2.0315;
constexpr int kSteps = 5;

/// Returns the first elements of a contiguous tensor in another shape.
TensorView in_shape(const TensorView& view, const Shape& shape) {
  return {view.data, view.dtype, shape};
}

/// Returns all elements of a contiguous tensor as one row of them.
TensorView elements_of(const TensorView& view) { return in_shape(view, {view.elements()}); }

}  // namespace

void submit_newton_schulz(Kernels& kernels, Stream& lane, const TensorView& x,
                          const NewtonSchulzScratch& scratch, const Tag& tag) {
  const std::int64_t smaller = std::min(x.shape[0], x.shape[1]);
  const TensorView gram = in_shape(scratch.gram, {smaller, smaller});
  const TensorView polynomial = in_shape(scratch.polynomial, {smaller, smaller});
  const TensorView copy = in_shape(scratch.copy, x.shape);
  const bool high = x.shape[0] > x.shape[1];
  double gain = 1;  // a^k before step k, counted from 0
  for (int step = 0; step < kSteps; ++step) {
    kernels.run(lane,
                Matmul{.a = x,
                       .b = x,
                       .out = gram,
                       .layout = high ? MatmulLayout::kTN : MatmulLayout::kNT,
                       .alpha = gain * gain},
                tag);
    // G + c/b G^2
    kernels.run(lane, Cast{.x = elements_of(gram), .y = elements_of(polynomial)}, tag);
    kernels.run(lane,
                Matmul{.a = gram,
                       .b = gram,
                       .out = polynomial,
                       .layout = MatmulLayout::kNN,
                       .update = MatmulUpdate::kAccumulate,
                       .alpha = kC / kB},
                tag);
    kernels.run(lane, Cast{.x = elements_of(x), .y = elements_of(copy)}, tag);
    kernels.run(lane,
                Matmul{.a = high ? copy : polynomial,
                       .b = high ? polynomial : copy,
                       .out = x,
                       .layout = MatmulLayout::kNN,
                       .update = MatmulUpdate::kAccumulate,
                       .alpha = kB / kA},
                tag);
    gain *= kA;
  }
}

}  // namespace strata
