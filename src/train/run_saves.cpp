// Decides by the agenda and hands the saves to the checkpointer. run_saves.h is the contract.

#include "train/run_saves.h"

#include <algorithm>

#include "strata/base/process.h"
#include "strata/checkpoint/checkpoint_save.h"

namespace strata {

RunSaves::RunSaves(const RunConfig& config, const CheckpointPlace& place, Checkpointer* checkpoints,
                   Ranks& ranks)
    : config_(config),
      place_(place),
      checkpoints_(checkpoints),
      ranks_(ranks),
      agenda_(config.checkpoint, config.run.steps,
              place.resumes_own() ? std::optional(place.first_step()) : std::nullopt,
              steady_seconds()) {
  if (any()) longest_s_ = checkpoints_->expected_s();
}

void RunSaves::look_ahead(std::int64_t done, double longest_step_s) {
  if (!any()) return;
  ahead_ = agenda_.ahead(done + 1, steady_seconds() + longest_step_s, checkpoints_->under_way());
}

double RunSaves::needed_s() const {
  constexpr double kReserve = 1.5;  // a disk may be slower than it was
  return kReserve * ahead_ * longest_s_;
}

SaveKinds RunSaves::due(std::int64_t done, bool is_validated) {
  if (!any()) return {};
  const SaveKinds due = agenda_.due(done, steady_seconds());
  if (goes_by_validations(config_) && is_validated) checkpoints_->await_validation(done);
  return due;
}

void RunSaves::begun(const SaveKinds& kinds, std::int64_t done) {
  agenda_.begun(kinds, done, steady_seconds());
}

void RunSaves::tell(const Validations& validations) {
  if (any() && goes_by_validations(config_)) checkpoints_->validated(validations);
}

std::vector<SaveReport> RunSaves::take_reports() {
  if (!any()) return {};
  std::vector<SaveReport> reports = checkpoints_->take_reports();
  for (const SaveReport& report : reports) {
    longest_s_ = std::max(longest_s_, report.seconds);
    const bool failed = !report.failure.empty();
    (report.weights_alone ? failed_.weights : failed_.whole) = failed;
    if (failed && !report.weights_alone) agenda_.failed(report.step);
  }
  return reports;
}

void RunSaves::save_last(std::int64_t done, std::int64_t samples,
                         const std::function<void()>& meanwhile) {
  const bool changed = done > place_.first_step() && saved() != done;
  const SaveKinds due = agenda_.left();
  const SaveKinds left = wanted_by_any(
      {.whole = changed && (config_.checkpoint.at_end || due.whole), .weights = due.weights},
      ranks_);
  if (!left.any()) return;
  begun(left, done);
  checkpoints_->save_now(left, done, samples, meanwhile);
}

bool goes_by_validations(const RunConfig& config) {
  return config.run.patience > 0 || config.checkpoint.keep_best > 0;
}

}  // namespace strata
