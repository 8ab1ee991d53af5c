// Tests how the matrices of a block are dealt out to ranks: all elements are somebody's, results do
// not overlap, and the work is even but for a matrix.

#include "optimizer/matrix_deal.h"

#include <algorithm>
#include <vector>

#include "strata/model/families.h"
#include "support/catch.h"
#include "support/tiny_model.h"

namespace strata::test {
namespace {

/// Returns the FLOPs of Newton-Schulz steps but for a factor.
double flops(const DealtMatrix& matrix) {
  const auto rows = static_cast<double>(matrix.run->rows);
  const auto columns = static_cast<double>(matrix.run->segment->cols);
  const double n = std::min(rows, columns);
  return 2 * n * rows * columns + n * n * n;
}

}  // namespace

TEST_CASE(
    "ranks have all elements of matrices between them and about the same work, the first most") {
  LlamaConfig model = tiny_model();
  model.hidden_size = 72;
  model.intermediate_size = 121;
  const ModelLayout layout = make_layout(spec_of(model));
  OptimizerOptions options;
  options.kind = OptimizerKind::kMuon;
  const auto runs = parameter_runs(layout, options);
  const BlockId layer = layout.block_of_layer(0);
  for (int ranks = 1; ranks <= 9; ++ranks) {
    INFO(ranks << " ranks");
    const std::int64_t shard = layout.blocks[layer].shard_elements(ranks);
    const MatrixDeal deal(runs[layer], shard, ranks);
    REQUIRE(deal.matrices.size() == 7);
    std::vector<double> work(static_cast<std::size_t>(ranks));
    double largest = 0;
    for (const DealtMatrix& m : deal.matrices) {
      std::int64_t next = 0;  // elements are in the order of ranks
      for (int r = 0; r < ranks; ++r) {
        const MatrixRange part = m.part(r);
        CHECK(part.count() >= 0);
        if (part.count() == 0) continue;
        CHECK(part.begin == next);
        CHECK((m.run->begin + part.begin) / shard == r);
        CHECK((m.run->begin + part.end - 1) / shard == r);
        next = part.end;
      }
      CHECK(next == m.elements());
      CHECK(m.place + m.elements() <= deal.work_elements);
      for (const DealtMatrix& other : deal.matrices) {
        if (&other == &m || other.worker != m.worker) continue;
        CHECK((other.place >= m.place + m.elements() || m.place >= other.place + other.elements()));
      }
      work[static_cast<std::size_t>(m.worker)] += flops(m);
      largest = std::max(largest, flops(m));
    }
    const auto [least, most] = std::ranges::minmax(work);
    CHECK(most - least <= largest);
    CHECK(work[0] == most);
  }
}

}  // namespace strata::test
