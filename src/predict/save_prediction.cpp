// Predicts a save by steps on paper, with the save and without. A block's next update is the only
// work that ever waits for a save, and each block has it within two steps of the mark. A few steps
// therefore show all of the delay, however long the disk then goes on writing.

#include "strata/predict/save_prediction.h"

#include <algorithm>
#include <vector>

#include "predict/dry_steps.h"
#include "predict/reduced_layout.h"
#include "strata/base/log.h"
#include "strata/predict/known_rates.h"
#include "strata/predict/prediction.h"
#include "strata/predict/timeline.h"

namespace strata {

namespace {

/// The mark is after the second step, when the start from an idle machine is over. Blocks that are
/// updated before their load have their next update in the fourth step, and the last two let lanes
/// catch up.
constexpr int kSaved = 1;
constexpr int kSavedSteps = 6;

/// Fewer passes than a step has would hide too little of a save; more than so many cost too much.
constexpr int kMostPasses = 16;

/// Returns when the last work of the compute lane in these steps ends.
double compute_end_s(const TrainingLayout& layout, const DrySteps& which, const Rates& rates,
                     const PaperWeights& weights) {
  PaperTrace trace(rates, weights);
  const std::vector<std::size_t> ends =
      submit_steps(layout, which, trace, [&] { trace.start(); }, [&] { return trace.size(); });
  const Timeline timeline(trace);
  double end_s = 0;
  for (std::size_t i = 0; i < ends.back(); ++i) {
    const PaperWork& work = trace[i];
    if (work.by_submitter || work.lane != Lane::kCompute) continue;
    end_s = std::max(end_s, timeline.run(i).end_s);
  }
  return end_s;
}

/// Returns the bytes of this rank's state whose home is the device.
double device_state_bytes(const TrainingLayout& layout) {
  double bytes = 0;
  for (const BlockId b : layout.model->blocks.ids()) {
    if (layout.state.blocks[b].weight != Home::kDevice) continue;
    bytes += static_cast<double>(
        layout.state.updated_bytes(layout.model->blocks[b].shard_elements(layout.state.ranks)));
  }
  return bytes;
}

/// Returns what the copies of a save take alone. Those within the host read and write its memory.
double copy_s(const TrainingLayout& layout, const Rates& rates) {
  const auto staged =
      static_cast<double>(layout.plan.bytes(Space::kPageable, "checkpoint.staging"));
  return 2 * staged / (rates.host_gbs * 1e9) + device_state_bytes(layout) / (rates.link_gbs * 1e9);
}

}  // namespace

SavePrediction predict_save(const TrainingLayout& layout, const RatedDevice& device,
                            std::optional<double> disk_gbs) {
  SavePrediction p{.disk_gbs = disk_gbs};
  if (!disk_gbs) return p;
  const CheckpointLayout files = make_checkpoint_layout(*layout.model, layout.saves->types);
  p.write_s = static_cast<double>(files.bytes()) / (*disk_gbs * 1e9);
  KnownRates known = rates_of(layout, device);
  p.unknown = why_unpredictable(layout, device, known);
  if (!p.unknown.empty()) return p;
  known.rates.disk_gbs = *disk_gbs / layout.state.ranks;  // which write their shards at once
  p.copy_s = copy_s(layout, known.rates);
  StepSize size = recorded_size(layout, kWholeCells);
  size.passes = std::min(layout.choices.passes, kMostPasses);
  p.at_most = size.passes < layout.choices.passes;
  const TrainingLayout reduced = reduced_layout(layout, size);
  const auto end_s = [&](const DrySteps& which) {
    return compute_end_s(reduced, which, known.rates, weights_of(layout, size));
  };
  p.blocked_s =
      std::max(0.0, end_s({.steps = kSavedSteps, .saved = kSaved}) - end_s({.steps = kSavedSteps}));
  return p;
}

std::string SavePrediction::to_string() const {
  if (!disk_gbs) {
    return "predicted save: unknown: set hardware.disk_gbs to the rate of the disk that takes "
           "checkpoints; a run measures it at the start\n";
  }
  std::string text =
      fmt::format("predicted save at {:.3g} GB/s: write {:.3f} s", *disk_gbs, write_s);
  if (!unknown.empty()) return text + "; copy and blocked: unknown: " + unknown + "\n";
  return text + fmt::format(", copy {:.3f} s, blocked {}{:.3f} s\n", copy_s,
                            at_most ? "at most " : "", blocked_s);
}

}  // namespace strata
