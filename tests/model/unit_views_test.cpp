// The views of units of a tiny model, compared with the segments that make_layout lists.

#include "strata/model/unit_views.h"

#include <cstddef>
#include <iterator>
#include <vector>

#include "strata/model/families.h"
#include "support/catch.h"
#include "support/tiny_model.h"

namespace strata {
namespace {

/// Room for the blocks of a unit, each on its own.
class Room {
 public:
  Room(const ModelLayout& layout, const Unit& unit, DType dtype) {
    for (const auto b : unit.blocks) {
      const auto elements = static_cast<std::size_t>(layout.blocks[b].elements);
      bytes_.emplace_back(elements * size_of(dtype));
      blocks.push_back(bytes_.back().data());
    }
  }
  std::vector<std::byte*> blocks;

 private:
  std::vector<std::vector<std::byte>> bytes_;
};

/// A view lies where its segment does and has the segment's shape; a vector is one row.
void check_view(const ConstTensorView& view, DType dtype, const std::byte* block,
                const Segment& segment) {
  INFO(segment.name);
  CHECK(view.dtype == dtype);
  CHECK(view.data == block + static_cast<std::size_t>(segment.offset) * size_of(dtype));
  CHECK(view.elements() == segment.elements());
  CHECK(view.contiguous());
  if (view.shape.rank() == 1) {
    CHECK((segment.rows == 1 || segment.cols == 1));
  } else {
    CHECK(view.shape == Shape{segment.rows, segment.cols});
  }
}

}  // namespace

TEST_CASE("a layer's views are its segments, for weights and for gradients") {
  LlamaConfig m = test::tiny_model();
  m.attention_bias = true;
  m.mlp_bias = true;
  ModelSpec spec = spec_of(m);
  spec.kinds.front().norms.push_back({NormId::kQuery, 6, "q_norm.weight"});
  spec.kinds.front().norms.push_back({NormId::kKey, 6, "k_norm.weight"});
  const ModelLayout layout = make_layout(spec);
  const Unit& unit = layout.units[UnitId(2)];
  const std::vector<Segment>& segments = layout.blocks[unit.blocks[0]].segments;
  const auto check = [&](const auto& views, DType dtype, const std::byte* block) {
    const auto& layer = views.layer;
    const ConstTensorView all[] = {
        layer[NormId::kAttention],      layer[LinearId::kQkv],
        layer[LinearId::kAttentionOut], layer[NormId::kMlp],
        layer[LinearId::kGateUp],       layer[LinearId::kDown],
        layer[NormId::kQuery],          layer[NormId::kKey],
        layer.bias(LinearId::kQkv),     layer.bias(LinearId::kAttentionOut),
        layer.bias(LinearId::kGateUp),  layer.bias(LinearId::kDown)};
    REQUIRE(std::size(all) == segments.size());
    for (std::size_t i = 0; i < segments.size(); ++i) {
      check_view(all[i], dtype, block, segments[i]);
    }
    CHECK(!views.embedding.table);
    CHECK(!views.head.norm);
    CHECK(!views.head.projection);
  };
  const Room weights(layout, unit, DType::kBF16);
  check(unit_views<ConstTensorView>(layout, unit, weights.blocks, DType::kBF16), DType::kBF16,
        weights.blocks[0]);
  const Room gradients(layout, unit, DType::kF32);
  check(unit_views<TensorView>(layout, unit, gradients.blocks, DType::kF32), DType::kF32,
        gradients.blocks[0]);
}

TEST_CASE("the head's projection lies in the embedding's block if embeddings are tied") {
  for (const bool tied : {false, true}) {
    LlamaConfig m = test::tiny_model();
    m.tie_word_embeddings = tied;
    const ModelLayout layout = make_layout(spec_of(m));

    const Unit& embedding = layout.units[layout.embedding()];
    const Room table(layout, embedding, DType::kF32);
    check_view(unit_views<TensorView>(layout, embedding, table.blocks, DType::kF32).embedding.table,
               DType::kF32, table.blocks[0], layout.blocks[BlockId(0)].segments[0]);

    const Unit& head = layout.units[layout.head()];
    const Room room(layout, head, DType::kF32);
    REQUIRE(room.blocks.size() == (tied ? 2 : 1));
    const UnitGradients views = unit_views<TensorView>(layout, head, room.blocks, DType::kF32);
    const Block& own = layout.blocks[layout.blocks.last()];
    check_view(views.head.norm, DType::kF32, room.blocks[0], own.segments[0]);
    check_view(views.head.projection, DType::kF32, room.blocks.back(),
               tied ? layout.blocks[BlockId(0)].segments[0] : own.segments[1]);
    CHECK(views.head.projection.shape == Shape{m.vocab_size, m.hidden_size});
  }
}

TEST_CASE("a layer has no view of what it has no segment of; the head's norm is refused by name") {
  ModelLayout layout = make_layout(spec_of(test::tiny_model()));
  layout.blocks[BlockId(1)].segments.pop_back();
  const Room room(layout, layout.units[UnitId(1)], DType::kF32);
  const UnitGradients views =
      unit_views<TensorView>(layout, layout.units[UnitId(1)], room.blocks, DType::kF32);
  CHECK(!views.layer[LinearId::kDown]);
  CHECK(views.layer[LinearId::kGateUp]);

  layout.blocks[layout.blocks.last()].segments.front().name = "head.other";
  const Unit& head = layout.units[layout.head()];
  const Room of_head(layout, head, DType::kF32);
  CHECK_THROWS_WITH(unit_views<TensorView>(layout, head, of_head.blocks, DType::kF32),
                    "no block of the head has a norm");
}

}  // namespace strata
