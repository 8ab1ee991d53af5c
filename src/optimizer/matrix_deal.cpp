// The matrix that costs most goes first, and each goes to the rank that has least so far: all ranks
// meet once a block, so what counts is the rank with most to do in it. That is made the first one,
// by which steps are predicted.

#include "optimizer/matrix_deal.h"

#include <algorithm>
#include <numeric>

#include "strata/base/narrow.h"
#include "strata/ops/optimizer.h"

namespace strata {

namespace {

/// A matrix begins at a multiple of so many elements, so that products of it are those of a matrix
/// in memory of its own.
constexpr std::int64_t kPlaceElements = 256;

/// Returns what the Newton-Schulz steps of a matrix cost, up to a factor.
double cost_of(const DealtMatrix& matrix) {
  const auto n = static_cast<double>(std::min(matrix.run->rows, matrix.run->segment->cols));
  return n * (2 * static_cast<double>(matrix.elements()) + n * n);
}

DealtMatrix cut_into_shards(const ParameterRun& run, std::int64_t shard_elements) {
  DealtMatrix matrix{.run = &run, .shard_elements = shard_elements, .cut_blocks = {}};
  std::vector<std::int64_t>& cut = matrix.cut_blocks;
  const int last = matrix.rank_of(matrix.elements() - 1);
  for (int r = matrix.rank_of(0) + 1; r <= last; ++r) {
    const std::int64_t at = matrix.part(r).begin;
    if (at % SquaredNorm::kBlock == 0) continue;
    const std::int64_t block = at / SquaredNorm::kBlock;
    if (cut.empty() || cut.back() != block) cut.push_back(block);
  }
  return matrix;
}

}  // namespace

MatrixRange DealtMatrix::part(int rank) const {
  const auto within = [&](std::int64_t of_block) {
    return std::clamp(of_block - run->begin, std::int64_t{0}, elements());
  };
  return {within(rank * shard_elements), within((rank + 1) * shard_elements)};
}

int DealtMatrix::rank_of(std::int64_t element) const {
  return narrow<int>((run->begin + element) / shard_elements);
}

MatrixRange DealtMatrix::block(std::int64_t index) const {
  const std::int64_t begin = index * SquaredNorm::kBlock;
  return {begin, std::min(begin + SquaredNorm::kBlock, elements())};
}

MatrixRange DealtMatrix::whole_blocks(int rank) const {
  const MatrixRange of = part(rank);
  const std::int64_t begin = SquaredNorm::partials(of.begin);
  const std::int64_t end =
      of.end == elements() ? SquaredNorm::partials(of.end) : of.end / SquaredNorm::kBlock;
  return {begin, std::max(begin, end)};
}

MatrixDeal::MatrixDeal(const std::vector<ParameterRun>& runs, std::int64_t shard_elements,
                       int ranks) {
  for (const ParameterRun& run : runs) {
    if (run.rows > 0) matrices.push_back(cut_into_shards(run, shard_elements));
  }
  std::vector<std::size_t> order(matrices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return cost_of(matrices[i]); });
  // Of more ranks than matrices those that follow have none.
  const auto workers = std::clamp(order.size(), std::size_t{1}, static_cast<std::size_t>(ranks));
  std::vector<double> costs(workers);
  std::vector<std::int64_t> elements(workers);
  for (const std::size_t i : order) {
    const auto least = std::ranges::min_element(costs) - costs.begin();
    const auto worker = static_cast<std::size_t>(least);
    matrices[i].worker = static_cast<int>(least);
    matrices[i].place = elements[worker];
    costs[worker] += cost_of(matrices[i]);
    elements[worker] +=
        (matrices[i].elements() + kPlaceElements - 1) / kPlaceElements * kPlaceElements;
  }
  work_elements = *std::ranges::max_element(elements);
  const auto busiest = static_cast<int>(std::ranges::max_element(costs) - costs.begin());
  for (DealtMatrix& matrix : matrices) {
    if (matrix.worker == 0) {
      matrix.worker = busiest;
    } else if (matrix.worker == busiest) {
      matrix.worker = 0;
    }
  }
}

}  // namespace strata
