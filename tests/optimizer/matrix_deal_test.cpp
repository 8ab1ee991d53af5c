// Tests how the matrices of a block are dealt out to ranks: all elements are somebody's, results do
// not overlap, the work is even but for a matrix, and blocks that shards cut are found.

#include "optimizer/matrix_deal.h"

#include <algorithm>
#include <vector>

#include "strata/model/families.h"
#include "strata/ops/optimizer.h"
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

/// A layer with matrices of several blocks of SquaredNorm.
struct Layer {
  Layer() {
    LlamaConfig model = tiny_model();
    model.hidden_size = 72;
    model.intermediate_size = 121;
    layout = make_layout(spec_of(model));
    OptimizerOptions options;
    options.kind = OptimizerKind::kMuon;
    runs = parameter_runs(layout, options)[id()];
  }
  [[nodiscard]] BlockId id() const { return layout.block_of_layer(0); }
  [[nodiscard]] std::int64_t shard(int ranks) const {
    return layout.blocks[id()].shard_elements(ranks);
  }

  ModelLayout layout;
  std::vector<ParameterRun> runs;
};

}  // namespace

TEST_CASE(
    "ranks have all elements of matrices between them and about the same work, the first most") {
  const Layer layer;
  for (int ranks = 1; ranks <= 9; ++ranks) {
    INFO(ranks << " ranks");
    const std::int64_t shard = layer.shard(ranks);
    const MatrixDeal deal(layer.runs, shard, ranks);
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

TEST_CASE("blocks of a norm are cut whose elements several ranks have, and those alone") {
  const Layer layer;
  for (const int ranks : {1, 2, 3, 8, 40}) {  // with 40, shards are smaller than a block
    INFO(ranks << " ranks");
    const std::int64_t shard = layer.shard(ranks);
    for (const DealtMatrix& m : MatrixDeal(layer.runs, shard, ranks).matrices) {
      std::vector<std::int64_t> cut;
      for (std::int64_t i = 1; i < m.elements(); ++i) {
        const std::int64_t block = i / SquaredNorm::kBlock;
        const bool same_block = (i - 1) / SquaredNorm::kBlock == block;
        const bool same_rank = (m.run->begin + i) / shard == (m.run->begin + i - 1) / shard;
        if (same_block && !same_rank && (cut.empty() || cut.back() != block)) cut.push_back(block);
      }
      CHECK(m.cut_blocks == cut);
    }
  }
}

}  // namespace strata::test
