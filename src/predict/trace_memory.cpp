// Counts submissions by what they are for: cells, loads and offloads of blocks, updates. Each
// number bounds every mode and backend; a test holds the sum against traces of runs.

#include "strata/predict/trace_memory.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "strata/base/narrow.h"
#include "strata/optimizer/parameter_groups.h"
#include "strata/optimizer/state_shuttle.h"
#include "strata/store/chunks.h"

namespace strata {

namespace {

/// Operators of forward and backward, with forward once more, and copies of what spills.
constexpr std::int64_t kOfLayerCell = 40;
/// Poisoning of what a cell keeps, tensor by tensor, and of the slots of its boundaries.
constexpr std::int64_t kOfLayerCellPoison = 24;
/// Embedding, boundary of the last layer, loss; and what each chunk of the head takes.
constexpr std::int64_t kOfOuterCell = 12;
constexpr std::int64_t kOfHeadChunk = 6;
/// Loads for forward and backward and offload of a block in a pass; and each chunk that goes home.
constexpr std::int64_t kOfBlockInPass = 16;
constexpr std::int64_t kOfGradientChunk = 4;
/// Norm, update and undo log of a block; and each chunk that visits the device.
constexpr std::int64_t kOfBlockInStep = 20;
constexpr std::int64_t kOfShuttleChunk = 12;
/// Both passes over a matrix that is updated as a whole, its way there and back, and its steps.
constexpr std::int64_t kOfMatrix = 32;
/// The same of a matrix that several ranks share, with what they tell each other of its norm; and
/// the gathers of a layer, beside its sums that shards cut, of which each rank but one adds one.
constexpr std::int64_t kOfSharedMatrix = 40;
constexpr std::int64_t kOfSharedLayer = 2;
/// Batch and losses of a pass; scalars and the norm of a step.
constexpr std::int64_t kOfPass = 16;
constexpr std::int64_t kOfStep = 32;

/// Returns how many more runs of parameters there are than segments: each has updates of its own,
/// an early one and another.
std::int64_t further_runs(const ModelLayout& layout, const OptimizerOptions& options) {
  std::int64_t more = 0;
  for (const std::vector<ParameterRun>& runs : parameter_runs(layout, options)) {
    more += std::ssize(runs);
  }
  for (const Block& block : layout.blocks) more -= std::ssize(block.segments);
  return more;
}

/// Returns how many matrices are updated as wholes.
std::int64_t whole_matrices(const ModelLayout& layout, const OptimizerOptions& options) {
  std::int64_t count = 0;
  for (const std::vector<ParameterRun>& runs : parameter_runs(layout, options)) {
    count += std::ranges::count_if(runs, [](const ParameterRun& run) { return run.rows > 0; });
  }
  return count;
}

std::int64_t pieces(std::int64_t whole, std::int64_t piece) { return (whole + piece - 1) / piece; }

}  // namespace

std::size_t most_trace_records(const TrainingLayout& s) {
  const std::int64_t layers = s.walk.layers;
  const std::int64_t cells = s.walk.cells;
  const std::int64_t chunks = pieces(s.sizes.cell_tokens, s.sizes.head_chunk);
  std::int64_t pass = kOfPass + layers * cells * (kOfLayerCell + kOfLayerCellPoison) +
                      cells * (kOfOuterCell + chunks * kOfHeadChunk);
  std::int64_t step = kOfStep;
  const auto wide = static_cast<std::int64_t>(size_of(accumulator_of(s.sizes.compute)));
  for (const Block& block : s.model->blocks) {
    const std::int64_t shard = block.shard_elements(s.state.ranks);
    const std::int64_t home = pieces(shard * wide, narrow<std::int64_t>(kChunkBytes));
    pass += kOfBlockInPass + home * kOfGradientChunk;
    step += kOfBlockInStep + home * kOfGradientChunk +
            pieces(shard, StateShuttle::kChunk) * kOfShuttleChunk;
  }
  const OptimizerOptions& o = s.optimizer;
  if (!o.lr_factors.empty() || !o.weight_decays.empty()) step += 2 * further_runs(*s.model, o);
  if (o.kind == OptimizerKind::kMuon) {
    const bool shared = s.state.ranks > 1;
    step += (shared ? kOfSharedMatrix : kOfMatrix) * whole_matrices(*s.model, o);
    if (shared) step += (kOfSharedLayer + s.state.ranks) * layers;
  }
  return narrow<std::size_t>(kTracedSteps * (step + s.choices.passes * pass));
}

}  // namespace strata
