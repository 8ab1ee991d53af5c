// This file finds algorithms of cuBLASLt that can take the place of our own kernel, measures which
// is fastest, and launches one or the other; invariant_products.h is the contract.
//
// An algorithm that does not split K adds in ascending k, as our kernel does. That is not promised
// anywhere, so it is looked at: both multiply the same random operands, and where one bit differs
// the algorithm is not used. The sizes that are tried have all rows of the weights, so a difference
// would be among millions of sums. So the choice may differ from start to start, and no bit does.
//
// cuBLASLt's first proposal for some tens of rows is a tile of 128 columns of the result: without
// split K too few blocks to fill a large GPU for the products of 8,192 columns that 70B models
// have, while our own kernel has four times as many. So it is timed as well, and so are more
// proposals. One that cuBLASLt refuses when it is launched is passed over.

#include "kernels/cuda/products/invariant_products.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kernels/cuda/operators.h"
#include "kernels/cuda/products/candidates.h"
#include "kernels/cuda/products/invariant_tiles.h"
#include "kernels/cuda/products/matmul_timer.h"
#include "strata/base/log.h"

namespace strata::cuda {
namespace {

/// With so few rows our own kernel is the faster one.
constexpr std::int64_t kFewRows = 16;
/// Numbers of rows that are measured, each the double of the one before.
constexpr std::int64_t kFirstRows = 2 * kFewRows;
constexpr int kProposals = 6;

MatmulKey of_any_size(MatmulKey key) {
  key.shape.m = 0;
  return key;
}

ConstTensorView view_of(const void* data, DType dtype, std::int64_t rows, std::int64_t columns,
                        std::int64_t stride) {
  return ConstTensorView(data, dtype, Shape{rows, columns}, stride);
}

/// Returns the product of operands in memory of their own.
Matmul product_of(const MatmulShape& s, const MatmulOperands& operands) {
  return {.a = view_of(operands.a, s.in, s.m, s.k, s.stride_a),
          .b = view_of(operands.b, s.in, s.n, s.k, s.stride_b),
          .out = TensorView(operands.out, s.out, Shape{s.m, s.n}, s.stride_out),
          .batch_invariant = true};
}

}  // namespace

std::optional<InvariantProducts::Choice> InvariantProducts::fastest(const MatmulPlace& place,
                                                                    const MatmulShape& shape,
                                                                    MatmulTimer& timer) {
  const TimedProduct own = [&](const MatmulPlace& at, const MatmulOperands& operands) {
    launch_invariant_matmul(at.stream, product_of(shape, operands));
    return CUBLAS_STATUS_SUCCESS;
  };
  const std::uint64_t wanted = timer.fingerprint(shape, own).value();  // it always runs
  std::vector<Choice> choices;
  std::vector<TimedProduct> products;
  if (shape.m <= InvariantTile::kMostRows) {
    choices.push_back({.rows = shape.m, .algorithm = std::nullopt});
    products.push_back(own);
  }
  const MatmulProblem problem({.shape = shape});
  const auto fingerprint = [&](const cublasLtMatmulAlgo_t& algorithm) {
    return timer.fingerprint(shape, product_by(problem, algorithm));
  };
  for (const cublasLtMatmulAlgo_t& algorithm : with_fingerprint(
           problem.proposals(place, Reductions::kNone, kProposals), wanted, fingerprint)) {
    choices.push_back({.rows = shape.m, .algorithm = algorithm});
    products.push_back(product_by(problem, algorithm));
  }
  if (choices.empty()) return std::nullopt;
  const std::vector<double> seconds = timer.glance(shape, products);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    log::debug("{}: {:.1f} us {}", to_string(shape), 1e6 * seconds[i],
               choices[i].algorithm ? "by a proposal of cuBLASLt" : "on our own kernel");
  }
  return choices[static_cast<std::size_t>(std::ranges::min_element(seconds) - seconds.begin())];
}

void InvariantProducts::prepare(const MatmulPlace& place, const Matmul& op,
                                std::size_t memory_bytes) {
  const MatmulKey key = key_of(op);
  std::vector<Choice>& found = choices_[of_any_size(key)];
  const std::int64_t most = op.m();
  if (most <= kFewRows || (!found.empty() && found.back().rows >= most)) return;
  found.clear();
  std::vector<MatmulShape> shapes;
  for (std::int64_t rows = kFirstRows;; rows *= 2) {
    MatmulShape shape = key.shape;
    shape.m = rows;
    shapes.push_back(shape);
    if (rows >= most) break;
  }
  MatmulTimer timer(place.handle, place.workspace, shapes, memory_bytes);
  for (const MatmulShape& shape : shapes) {
    if (!timer.fits(shape)) break;
    if (const auto choice = fastest(place, shape, timer)) found.push_back(*choice);
  }
  constexpr std::int64_t kMostOwnRows = InvariantTile::kMostRows;
  if (shapes.back().m > kMostOwnRows && (found.empty() || found.back().rows <= kMostOwnRows)) {
    log::info("{}: many rows run on the kernel for few", to_string(key.shape));
  }
}

InvariantProducts::Sized& InvariantProducts::sized(const MatmulPlace& place, const MatmulKey& key) {
  const auto at = sized_.find(key);
  if (at != sized_.end()) return at->second;
  Sized made{.problem = MatmulProblem(key), .algorithms = {}};
  const auto found = choices_.find(of_any_size(key));
  if (found != choices_.end()) {
    // More rows than were measured run on what runs the most.
    const auto& choices = found->second;
    auto choice =
        std::ranges::find_if(choices, [&](const Choice& c) { return c.rows >= key.shape.m; });
    if (choice == choices.end() && !choices.empty()) choice = std::prev(choice);
    if (choice != choices.end() && choice->algorithm &&
        made.problem.objection(place, *choice->algorithm).empty()) {
      made.algorithms = {*choice->algorithm};
    }
  }
  return sized_.emplace(key, std::move(made)).first->second;
}

void InvariantProducts::launch(const MatmulPlace& place, const Matmul& op) {
  if (op.m() <= kFewRows) return launch_invariant_matmul(place.stream, op);
  Sized& product = sized(place, key_of(op));
  const bool launched =
      launch_first(product.algorithms, [&](const cublasLtMatmulAlgo_t& algorithm) {
        return product.problem.try_launch(place, algorithm,
                                          {.a = op.a.data,
                                           .b = op.b.data,
                                           .out = op.out.data,
                                           .alpha = static_cast<float>(op.alpha)});
      });
  if (!launched) launch_invariant_matmul(place.stream, op);
}

}  // namespace strata::cuda
