// Makes the layout of a smaller step: the members that count layers, sub-batches or passes are
// changed, and memory is planned again, so that an engine can be made of it.

#include "predict/reduced_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "strata/predict/prediction.h"
#include "strata/store/chunks.h"

namespace strata {

namespace {

/// A reduced step has so many of each, if there are more. Copies of one sub-batch hide under
/// compute of another, a chunk is sent while the next one is rounded, and the latency of a layer
/// that stands for many is too long.
constexpr int kFewestCells = 4;
constexpr int kFewestChunks = 8;
constexpr int kMostLayers = 128;
/// Passes, if there are more: one that begins, two amid others, one that ends.
constexpr int kPasses = 4;

/// Returns the chunks in which the weights of a layer, of the largest, are loaded, the last one in
/// part.
double layer_chunks(const TrainingLayout& layout) {
  std::size_t longest = 0;
  for (const BlockId b : layout.model->blocks.ids()) {
    const Block& block = layout.model->blocks[b];
    if (block.kind != UnitKind::kLayer) continue;
    const Form form = layout.state.blocks[b].form;
    longest = std::max(longest, weight_shape(block, form, layout.state).bytes());
  }
  return static_cast<double>(longest) / static_cast<double>(kChunkBytes);
}

/// Returns as how many sub-batches the chunks of a layer count in each pass: weights are loaded
/// twice, and gradients leave, and are added and rounded.
double cells_in_chunks(const TrainingLayout& layout, const StepSize& size) {
  constexpr double kChunksOfACell = 7;
  return layer_chunks(layout) / (size.chunk_factor * kChunksOfACell);
}

/// Returns a number of boundaries in proportion. As many as forward needs stay as many, and those
/// beyond are counted apart: less than that makes forward read back.
int reduced_slots(const TrainingLayout& whole, const TrainingLayout& reduced) {
  const double share = static_cast<double>(reduced.activations.keys()) / whole.activations.keys();
  const auto scaled = [&](int slots) { return static_cast<int>(std::lround(share * slots)); };
  const int needed = whole.activations.forward_slots();
  const int slots = whole.activation_slots;
  if (slots < needed) {
    const int fewest = std::min(slots, static_cast<int>(ActivationStore::kFewestSlots));
    return std::clamp(scaled(slots), fewest, reduced.activations.forward_slots());
  }
  return std::min(reduced.activations.keys(),
                  reduced.activations.forward_slots() + scaled(slots - needed));
}

/// Returns which of `all` is in the middle of those that number `i` of `few` stands for.
int middle_of(int i, int few, int all) {
  return static_cast<int>((2 * std::int64_t{i} + 1) * all / (2 * few));
}

/// Lets each cell keep and spill what the one in the middle does of those that it stands for.
KeepPlan reduced_kept(const TrainingLayout& whole, int layers, int cells) {
  KeepPlan kept(layers, cells, KeepLevel::kRecompute);
  kept.slots = whole.kept.slots;
  for (int layer = 0; layer < layers; ++layer) {
    for (int cell = 0; cell < cells; ++cell) {
      const std::size_t like = whole.kept.index(middle_of(layer, layers, whole.walk.layers),
                                                middle_of(cell, cells, whole.walk.cells));
      kept.levels[kept.index(layer, cell)] = whole.kept.levels[like];
      kept.reach[kept.index(layer, cell)] = whole.kept.reach[like];
    }
  }
  return kept;
}

/// Gives the last layer of a reduced model adapters if only layers that were left out have some:
/// without any all weights would be trained.
void keep_an_adapter(const ModelSpec& whole, ModelSpec& reduced) {
  if (whole.adapted() == reduced.adapted()) return;
  for (const std::size_t kind : whole.kind) {
    reduced.kind.back() = kind;
    if (reduced.adapted()) return;
  }
}

/// Leaves fewer layers of the model, of which as large a share is on the device, deferred, summed
/// there or updated speculatively.
void reduce_layers(const TrainingLayout& whole, int layers, TrainingLayout& s) {
  const int all = static_cast<int>(whole.model->units.size());
  s.spec.kind.clear();
  for (int layer = 0; layer < layers; ++layer) {
    const int like = middle_of(layer, layers, whole.spec.layers());
    s.spec.kind.push_back(whole.spec.kind[static_cast<std::size_t>(like)]);
  }
  keep_an_adapter(whole.spec, s.spec);
  s.model = std::make_shared<const ModelLayout>(make_layout(s.spec));
  s.walk.layers = layers;
  s.activations.layers = layers;
  s.weight_slots = std::min(whole.weight_slots, layers);
  s.gradient_slots = std::min(whole.gradient_slots, layers);
  const auto units = static_cast<int>(s.model->units.size());
  const auto scaled = [&](int n) {
    return static_cast<int>(std::lround(static_cast<double>(n) * units / all));
  };
  // The first units are meant, and the embedding stays one.
  const auto first = [&](int n) { return n == 0 ? 0 : std::max(1, scaled(n)); };
  s.choices.resident_units = first(whole.choices.resident_units);
  s.choices.device_sums = first(whole.choices.device_sums);
  s.choices.deferred_units = scaled(whole.choices.deferred_units);
  if (whole.choices.gradient_ring > 0) {
    s.choices.gradient_ring = std::min(
        layers, std::max(scaled(whole.choices.gradient_ring), s.choices.deferred_units + 2));
  }
  if (whole.saves) {
    const double share = static_cast<double>(units) / all;
    s.saves->staging = static_cast<std::size_t>(share * static_cast<double>(whole.saves->staging));
  }
  if (whole.choices.undo_log) {
    const std::vector<BlockId> found =
        speculated_blocks(*s.model, s.choices, std::numeric_limits<std::size_t>::max());
    const auto speculated = static_cast<std::size_t>(scaled(whole.speculated_units()));
    s.choices.undo_log =
        undo_log_bytes(*s.model, s.choices, found, std::min(found.size(), speculated));
  }
}

}  // namespace

StepSize whole_size(const TrainingLayout& layout) {
  return {
      .layers = layout.walk.layers, .cells = layout.walk.cells, .passes = layout.choices.passes};
}

double step_cells(const TrainingLayout& layout, const StepSize& size) {
  return size.passes * (size.layers + 2.0) * (size.cells + cells_in_chunks(layout, size));
}

StepSize recorded_size(const TrainingLayout& layout, double whole_cells) {
  const StepSize whole = whole_size(layout);
  if (step_cells(layout, whole) <= whole_cells) return whole;
  StepSize size{.layers = std::min(whole.layers, kMostLayers),
                .passes = std::min(whole.passes, kPasses)};
  const double cells = kWholeCells / (size.passes * (size.layers + 2.0));
  const int fewest = std::min(whole.cells, kFewestCells);
  const double chunks = cells_in_chunks(layout, size);
  const auto longest = std::max(1, static_cast<int>(layer_chunks(layout) / kFewestChunks));
  while (fewest + chunks / size.chunk_factor > cells && size.chunk_factor < longest) {
    ++size.chunk_factor;
  }
  size.cells =
      std::clamp(static_cast<int>(cells - chunks / size.chunk_factor), fewest, whole.cells);
  return size;
}

TrainingLayout reduced_layout(const TrainingLayout& whole, const StepSize& size) {
  TrainingLayout s = whole;
  s.choices.rank = 0;  // all ranks predict the same; padding lets the last one do a little less
  s.choices.replica = 0;
  s.choices.passes = size.passes;
  s.choices.chunk_factor = size.chunk_factor;
  s.batch.host_slots = 2 * size.passes;
  s.batch.batch.sub_batches = size.cells;
  s.activations.cells = size.cells;
  s.walk.cells = size.cells;
  if (size.layers < whole.walk.layers) reduce_layers(whole, size.layers, s);
  s.activation_slots = reduced_slots(whole, s);
  s.kept = reduced_kept(whole, size.layers, size.cells);
  s.list_fixed_memory();
  s.add_activations();
  return s;
}

}  // namespace strata
