// The table of blocks: every row against the rules as a user reads them in docs/updates.md and
// docs/fitting.md, over all combinations of choices, and the table as text.

#include "strata/engine/state_choices.h"

#include <cstddef>
#include <string>
#include <vector>

#include "strata/model/adapters.h"
#include "strata/model/families.h"
#include "support/catch.h"
#include "support/tiny_model.h"

namespace strata::test {
namespace {

ModelLayout layout_of(bool tied, int layers) {
  LlamaConfig model = tiny_model();
  model.tie_word_embeddings = tied;
  model.num_hidden_layers = layers;
  return make_layout(spec_of(model));
}

/// All combinations that a config may ask for, in two sorts of model.
template <class Check>
void for_all_choices(const Check& check) {
  for (const bool tied : {false, true}) {
    const ModelLayout layout = layout_of(tied, 6);
    StateChoices choices{.compute = tied ? DType::kF64 : DType::kBF16,
                         .deferred_units = 2,
                         .undo_log = std::size_t{1} << 30};
    for (const UpdateTiming timing :
         {UpdateTiming::kBeforeUse, UpdateTiming::kOnArrival, UpdateTiming::kSpeculative}) {
      for (const int resident : {0, 3, 8}) {
        for (const double interleave : {0.0, 0.5, 1.0}) {
          for (const int passes : {1, 2}) {
            for (const int sums : {0, 8}) {
              for (const int ring : {0, 3}) {
                choices.timing = timing;
                choices.resident_units = resident;
                choices.interleave = interleave;
                choices.passes = passes;
                choices.device_sums = sums;
                choices.gradient_ring = ring;
                check(layout, choices, plan_state(layout, choices));
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("homes follow from who updates a block") {
  for_all_choices([](const ModelLayout& layout, const StateChoices& c, const StatePlan& plan) {
    for (const BlockId b : layout.blocks.ids()) {
      const BlockPlan& row = plan.blocks[b];
      const bool resident = b.value() < c.resident_units;
      CHECK((row.updated_by == UpdatedBy::kResident) == resident);
      CHECK((row.weight == Home::kDevice) == resident);
      CHECK((row.moments == Home::kDevice) == resident);
      CHECK((row.moments == Home::kPageable) == (row.updated_by == UpdatedBy::kHost));
      // What the device updates needs its gradient there, what the host updates needs it here.
      const bool gradient_there = row.gradient == Home::kDevice || row.gradient == Home::kPassing;
      CHECK(gradient_there == row.updated_on_device());
      CHECK(row.form == Form::kPlain);
      if (row.updated_by == UpdatedBy::kShuttle) {
        CHECK(layout.blocks[b].kind == UnitKind::kLayer);
        CHECK(row.moments == Home::kPinned);
      }
    }
  });
}

TEST_CASE(
    "contributions are summed in one place, and a ring holds none that are summed on the host") {
  for_all_choices([](const ModelLayout& layout, const StateChoices& c, const StatePlan& plan) {
    for (const BlockId b : layout.blocks.ids()) {
      const BlockPlan& row = plan.blocks[b];
      const bool both_ends =
          b == BlockId(0) && layout.blocks[layout.blocks.last()].segments.size() == 1;
      CHECK(row.contributions == c.passes * (both_ends ? 2 : 1));
      CHECK((row.sums == SumPlace::kNone) == (row.contributions == 1));
      if (row.updated_on_device()) CHECK(row.sums != SumPlace::kHost);
      if (row.gradient == Home::kRing || row.gradient == Home::kPassing) {
        CHECK(c.gradient_ring > 0);
        CHECK(row.sums != SumPlace::kHost);
        CHECK(layout.blocks[b].kind == UnitKind::kLayer);
      }
      const DType wide = c.compute == DType::kF64 ? DType::kF64 : DType::kF32;
      if (row.sums == SumPlace::kHost) CHECK(row.gradient_dtype == wide);
    }
  });
}

TEST_CASE("the timing says when a block is updated, its updater how") {
  for_all_choices([](const ModelLayout& layout, const StateChoices& c, const StatePlan& plan) {
    int late = 0;
    for (const BlockId b : layout.blocks.ids()) {
      const BlockPlan& row = plan.blocks[b];
      late += row.updated != UpdateTime::kOnArrival && row.updated != UpdateTime::kSpeculated;
      if (row.updated == UpdateTime::kOnArrival) CHECK(c.timing == UpdateTiming::kOnArrival);
      if (row.updated == UpdateTime::kSpeculated) {
        CHECK(c.timing == UpdateTiming::kSpeculative);
        CHECK(row.updated_by == UpdatedBy::kHost);
      }
      if (row.updated == UpdateTime::kBeforeLoad) CHECK(row.updated_by == UpdatedBy::kShuttle);
      if (row.updated_by == UpdatedBy::kShuttle) CHECK(row.updated != UpdateTime::kDecided);
    }
    if (c.timing == UpdateTiming::kBeforeUse) CHECK(late == static_cast<int>(plan.blocks.size()));
    if (c.timing == UpdateTiming::kOnArrival) CHECK(late <= c.deferred_units);
  });
}

TEST_CASE("where a model has adapters they alone are trained, and live where their layer does") {
  LlamaConfig model = tiny_model();
  model.tie_word_embeddings = true;
  model.num_hidden_layers = 6;
  ModelSpec spec = spec_of(model);
  add_adapters(spec, {.layers = {0, 2, 3}});
  const ModelLayout layout = make_layout(spec);
  for (const UpdateTiming timing : {UpdateTiming::kBeforeUse, UpdateTiming::kOnArrival}) {
    const StateChoices c{.compute = DType::kBF16,
                         .passes = 2,
                         .resident_units = 2,
                         .interleave = 1,
                         .timing = timing};
    const StatePlan plan = plan_state(layout, c);
    REQUIRE(plan.blocks.size() == 11);
    for (const BlockId b : layout.blocks.ids()) {
      INFO(layout.blocks[b].name);
      const BlockPlan& row = plan.blocks[b];
      CHECK(row.is_trained() == (b.value() >= 8));
      const bool resident = layout.blocks[b].unit.value() < 2;
      CHECK((row.weight == Home::kDevice) == resident);
      if (row.is_trained()) {
        CHECK(row.updated_by == (resident ? UpdatedBy::kResident : UpdatedBy::kShuttle));
        CHECK(row.contributions == 2);
      } else {
        CHECK(row.updated == UpdateTime::kNever);
        CHECK(row.moments == Home::kNone);
        CHECK(row.gradient == Home::kNone);
        CHECK(row.contributions == 0);  // also of an embedding whose head reads it
        CHECK(row.sums == SumPlace::kNone);
      }
    }
  }
  const StateChoices early{.timing = UpdateTiming::kSpeculative, .undo_log = 0};
  CHECK(speculated_blocks(layout, early, std::size_t{1} << 30) ==
        std::vector<BlockId>{BlockId(10), BlockId(9), BlockId(8)});
}

TEST_CASE("what is trained beside adapters has the row that it has where all is trained") {
  LlamaConfig model = tiny_model();
  model.tie_word_embeddings = true;
  ModelSpec spec = spec_of(model);
  const ModelLayout all = make_layout(spec);
  add_adapters(spec, {.modules_to_save = {"embed_tokens", "norm"}});
  const ModelLayout layout = make_layout(spec);
  for (const UpdateTiming timing : {UpdateTiming::kBeforeUse, UpdateTiming::kOnArrival}) {
    for (const int resident : {0, 1}) {
      const StateChoices c{.passes = 2, .resident_units = resident, .timing = timing};
      const StatePlan plan = plan_state(layout, c);
      const StatePlan expected = plan_state(all, c);
      for (const UnitId unit : {layout.embedding(), layout.head()}) {
        const BlockId block = layout.units[unit].blocks.front();
        CHECK(plan.blocks[block] == expected.blocks[all.units[unit].blocks.front()]);
      }
      CHECK(!plan.blocks[layout.block_of_layer(0)].is_trained());
    }
  }
}

TEST_CASE("the table shows equal rows together") {
  const ModelLayout layout = layout_of(false, 6);
  const StatePlan plan = plan_state(
      layout, {.resident_units = 2, .timing = UpdateTiming::kOnArrival, .deferred_units = 2});
  PerBlock<std::string> names;
  for (const Block& block : layout.blocks) names.push_back(block.name);
  const std::string text = to_string(plan, names);
  INFO(text);
  CHECK_THAT(text, ContainsSubstring("  2       device"));
  CHECK_THAT(text, ContainsSubstring("pinned bf16"));
  CHECK_THAT(text, ContainsSubstring("resident    on arrival  embedding .. layers.0\n"));
  CHECK_THAT(text, ContainsSubstring("  4       pinned"));
  CHECK_THAT(text, ContainsSubstring("host        decided     layers.1, layers.5\n"));
  CHECK_THAT(text, ContainsSubstring("host        on arrival  layers.2 .. layers.4, head\n"));
  CHECK(std::count(text.begin(), text.end(), '\n') == 4);
}

TEST_CASE("interleaved layers are a share of those on the host, spread evenly") {
  const auto chosen = [](double share, int resident) {
    LlamaConfig model = tiny_model();
    model.num_hidden_layers = 8;
    const StatePlan plan =
        plan_state(make_layout(spec_of(model)), {.resident_units = resident, .interleave = share});
    std::string text;
    for (const BlockPlan& row : plan.blocks) {
      text += row.updated_by == UpdatedBy::kShuttle ? 'x' : '.';
    }
    return text;
  };
  CHECK(chosen(0, 0) == "..........");
  CHECK(chosen(0.25, 0) == "....x...x.");
  CHECK(chosen(0.5, 0) == "..x.x.x.x.");
  CHECK(chosen(0.75, 0) == "..xxx.xxx.");
  CHECK(chosen(1, 0) == ".xxxxxxxx.");
  CHECK(chosen(1, 4) == "....xxxxx.");
  CHECK(chosen(0.5, 3) == "....x.x.x.");
}

TEST_CASE("muon updates layers before their loads, and the host updates all else") {
  const ModelLayout layout = make_layout(spec_of(tiny_model()));
  const StatePlan plan = plan_state(layout, {.muon = true});
  for (const BlockId b : layout.blocks.ids()) {
    const BlockPlan& row = plan.blocks[b];
    const bool layer = layout.blocks[b].kind == UnitKind::kLayer;
    CHECK(row.updated_by == (layer ? UpdatedBy::kMuon : UpdatedBy::kHost));
    CHECK(row.updated == (layer ? UpdateTime::kBeforeLoad : UpdateTime::kDecided));
    CHECK(row.weight == Home::kPinned);
    CHECK(row.moments == Home::kPageable);
    CHECK(row.gradient == Home::kPinned);
  }
}

}  // namespace strata::test
