// What identifies a run goes into each manifest: the program, the resolved config and the model.
// checkpointer.h is the contract.

#include "strata/train/checkpointer.h"

#include <algorithm>
#include <utility>

#include "strata/base/fields.h"
#include "strata/base/version.h"
#include "strata/runfiles/run_folder.h"
#include "strata/runfiles/start_weights.h"
#include "train/small_files.h"

namespace strata {

namespace {

/// Returns what checkpoints say of the weights that they do not hold. A run that trains all weights
/// has left those that it started from, and may go on without them.
std::optional<BaseWeights> base_of(const CheckpointPlace& place, const RunConfig& config) {
  if (!config.adapter && place.resume && place.resume->manifest.base) {
    return place.resume->manifest.base;
  }
  return base_weights_of(config);
}

}  // namespace

Checkpointer::Checkpointer(const CheckpointPlace& place, const RunConfig& config,
                           const Setup& setup, double write_gbs, TrainingEngine& engine,
                           RankGroups& groups)
    : place_(place),
      config_(config),
      setup_(setup),
      saver_(*engine.saver()),
      weights_(make_checkpoint_layout(*setup.model, setup.saves->types.weights_alone())),
      groups_(groups),
      base_(base_of(place, config)),
      small_files_(agreed_small_files(place, config, setup, saver_.layout(), groups.world())),
      expected_s_(write_gbs > 0 ? static_cast<double>(saver_.layout().bytes()) / 1e9 / write_gbs
                                : 0) {}

Saves Checkpointer::make_saves(const SaveKinds& kinds, std::int64_t steps, std::int64_t samples) {
  const CheckpointSection& config = config_.checkpoint;
  Manifest facts;
  facts.step = steps;
  facts.samples = samples;
  facts.skipped = place_.skipped;
  facts.data = place_.data;
  // A run may go back to before the step that it began with.
  facts.data.validation_since = std::min(facts.data.validation_since, place_.first_step());
  facts.validations = validations_;
  facts.program = version_text(build_info());
  facts.base = base_;
  facts.model = write_fields(config_.model.llama);
  facts.config = write_fields(config_);
  ++saves_;
  std::uint64_t bytes = 0;
  if (kinds.whole) bytes += saver_.layout().bytes();
  if (kinds.weights) bytes += weights_.bytes();
  const auto sharers = static_cast<std::uint64_t>(groups_.shard().size());
  work_.begin("saving a checkpoint", {.total = bytes / sharers});
  Saves saves;
  if (kinds.whole) {
    saves.push_back(make_save(facts, saver_.layout(), kCheckpointsName,
                              {.keep = config.keep,
                               .keep_best = config.keep_best,
                               .milestone_steps = config.milestone_steps}));
  }
  if (kinds.weights) {
    saves.push_back(make_save(facts, weights_, kWeightsName, {.keep = config.weights_keep}));
  }
  return saves;
}

/// Makes the save of one kind into a folder of the run.
std::shared_ptr<CheckpointSave> Checkpointer::make_save(const Manifest& facts,
                                                        const CheckpointLayout& layout,
                                                        std::string_view folder,
                                                        const Retention& retention) {
  Manifest own = facts;
  own.types = layout.types;
  return std::make_shared<CheckpointSave>(
      SaveParts{
          .files = *place_.files,
          .world = groups_.world(),
          .shard = groups_.shard(),
          .replica = groups_.place().replica,
          .model = *setup_.model,
          .layout = layout,
          .small_files = small_files_,
          .writers = saver_.writers(),
          .buffers = saver_.buffers(),
          .folder = place_.run() / folder,
          .retention = retention,
          .commit = facts.step == validation_of_ ? CommitWhen::kValidated : CommitWhen::kWritten,
          .work = &work_},
      std::move(own), checkpoint_name(facts.step) + "-" + std::to_string(saves_));
}

std::vector<SaveReport> Checkpointer::take_reports() {
  std::vector<SaveReport> reports = saver_.take_reports();
  if (!reports.empty()) work_.end();
  return reports;
}

void Checkpointer::save_now(const SaveKinds& kinds, std::int64_t steps, std::int64_t samples,
                            const std::function<void()>& meanwhile) {
  saver_.write_now(make_saves(kinds, steps, samples));
  saver_.wait(meanwhile);
}

}  // namespace strata
