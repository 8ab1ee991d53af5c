// Rank 0 looks for the checkpoint; the others are told.

#include "strata/run/rollback.h"

#include <algorithm>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/run/resume.h"

namespace strata {

namespace {

/// Returns the newest good checkpoint of fewer steps than `below`.
std::optional<FoundCheckpoint> newest_good(const Files& files, const std::filesystem::path& folder,
                                           std::int64_t below) {
  std::vector<std::string> skipped;
  auto found = newest_checkpoint(files, folder, skipped, below);
  for (const std::string& why : skipped) log::warn("passed over: {}", why);
  if (!found || found->manifest.good()) return found;
  return newest_good(files, folder, found->manifest.step);
}

}  // namespace

std::vector<SampleWindow> skip_to(std::vector<SampleWindow> before, std::int64_t samples,
                                  std::int64_t end) {
  if (!before.empty() && before.back().end == samples) {
    before.back().end = end;
  } else {
    before.push_back({.begin = samples, .end = end});
  }
  return before;
}

std::int64_t Rollbacks::in_a_row(const BadStep& bad) const {
  return bad.step > furthest_ ? 1 : in_a_row_ + 1;
}

void Rollbacks::require_possible(const BadStep& bad) const {
  const std::int64_t times = in_a_row(bad);
  if (times < most_) return;
  const std::string past = times == 1 ? ""
                                      : "; " + std::to_string(times) +
                                            " times the run did not get past step " +
                                            std::to_string(std::max(furthest_, bad.step) + 1);
  throw NumericalError("step " + std::to_string(bad.step + 1) + ": " + bad.what + past +
                       " (lower optimizer.lr, or raise run.max_nonfinite_steps)");
}

CheckpointPlace Rollbacks::go_back(const CheckpointPlace& place, const BadStep& bad, Ranks& ranks) {
  if (in_a_row_ == 0) beginning_ = place.resume;
  in_a_row_ = in_a_row(bad);
  furthest_ = std::max(furthest_, bad.step);
  const auto find = [&]() -> std::string {
    std::optional<FoundCheckpoint> found;
    if (in_a_row_ > 1) found = newest_good(*place.files, place.folder, place.first_step());
    if (!found) found = newest_good(*place.files, place.folder, bad.step + 1);
    return found ? found->folder.string() : "";
  };
  CheckpointPlace to = place;
  to.resume = agree_on_checkpoint(*place.files, find, ranks);
  if (!to.resume) to.resume = beginning_;
  to.skipped = skip_to(to.resume ? to.resume->manifest.skipped : std::vector<SampleWindow>(),
                       to.resume ? to.resume->manifest.samples : 0, bad.samples);
  // They come from the bad step, and whoever starts the run again must not go on from them.
  if (ranks.rank() == 0) {
    for (const std::filesystem::path& folder : save_folders(place.run())) {
      static_cast<void>(remove_later_checkpoints(*place.files, folder, to.first_step()));
    }
  }
  return to;
}

}  // namespace strata
