// Tests that blocks, shards and source runs hold every parameter exactly once, for tied and untied
// embeddings.

#include "strata/model/layout.h"

#include <map>
#include <string>

#include "strata/model/families.h"
#include "support/catch.h"
#include "support/tiny_model.h"

namespace strata {
namespace {

LlamaConfig biased_model(bool tied) {
  LlamaConfig m = test::tiny_model(tied);
  m.attention_bias = true;
  return m;
}

}  // namespace

TEST_CASE("a layout holds every parameter exactly once") {
  for (const bool tied : {false, true}) {
    const LlamaConfig m = biased_model(tied);
    const ModelLayout layout = make_layout(spec_of(m));
    std::int64_t elements = 0;
    std::map<std::string, int> seen;
    for (const Block& block : layout.blocks) {
      std::int64_t end = 0;
      for (const Segment& segment : block.segments) {
        CHECK(segment.offset % Segment::kAlignment == 0);
        CHECK(segment.offset >= end);
        end = segment.offset + segment.elements();
        elements += segment.elements();
        for (const SourceTensor& source : segment.sources) ++seen[source.name];
      }
      CHECK(block.elements >= end);
    }
    CHECK(elements == m.parameter_count());
    for (const auto& [name, count] : seen) CHECK(count == 1);
    CHECK(seen.count("lm_head.weight") == (tied ? 0u : 1u));
    CHECK(seen.count("model.layers.1.self_attn.k_proj.weight") == 1);
    CHECK(seen.count("model.layers.1.self_attn.k_proj.bias") == 1);
  }
}

TEST_CASE("a tied embedding gets gradients from both of its units") {
  const ModelLayout tied = make_layout(spec_of(biased_model(true)));
  CHECK(tied.gradient_sources(BlockId(0)) == 2);
  CHECK(tied.gradient_sources(BlockId(1)) == 1);
  const ModelLayout untied = make_layout(spec_of(biased_model(false)));
  CHECK(untied.gradient_sources(BlockId(0)) == 1);
  CHECK(tied.layers() == 3);
  CHECK(tied.units[tied.head()].kind == UnitKind::kHead);
}

TEST_CASE("shards are equal on all ranks and cover the block") {
  const ModelLayout layout = make_layout(spec_of(biased_model(false)));
  for (const Block& block : layout.blocks) {
    for (const int ranks : {1, 2, 3, 7}) {
      CHECK(block.padded_elements(ranks) >= block.elements);
      CHECK(block.shard_elements(ranks) % Segment::kAlignment == 0);
      CHECK(block.padded_elements(ranks) - block.elements <= ranks * Segment::kAlignment);
    }
  }
}

TEST_CASE("source runs of shards put every element of every tensor in one place") {
  const ModelLayout layout = make_layout(spec_of(biased_model(false)));
  for (const Block& block : layout.blocks) {
    std::map<std::string, std::vector<int>> covered;
    for (const Segment& segment : block.segments) {
      for (const SourceTensor& source : segment.sources) {
        covered[source.name].resize(static_cast<std::size_t>(source.rows * segment.cols));
      }
    }
    const std::int64_t shard = block.shard_elements(3);
    for (int rank = 0; rank < 3; ++rank) {
      for (const SourceRun& run : source_runs(block, rank * shard, (rank + 1) * shard, 100)) {
        CHECK(run.count <= 100);
        CHECK(run.block_begin >= rank * shard);
        CHECK(run.block_begin + run.count <= (rank + 1) * shard);
        for (std::int64_t i = 0; i < run.count; ++i) {
          ++covered[run.source->name][static_cast<std::size_t>(run.source_begin + i)];
        }
      }
    }
    for (const auto& [name, counts] : covered) {
      for (const int count : counts) REQUIRE(count == 1);
    }
  }
}

}  // namespace strata
