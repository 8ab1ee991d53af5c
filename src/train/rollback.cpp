// Rank 0 looks for the checkpoint; the others are told.

#include "strata/train/rollback.h"

#include <algorithm>
#include <iterator>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/train/resume.h"

namespace strata {

namespace {

/// Returns the newest good checkpoint of fewer steps than `below`. `damaged` gets those that were
/// passed over.
std::optional<FoundCheckpoint> newest_good(const Files& files, const std::filesystem::path& folder,
                                           std::int64_t below, std::vector<std::string>& damaged) {
  auto found = newest_checkpoint(files, folder, damaged, below);
  if (!found || found->manifest.good()) return found;
  return newest_good(files, folder, found->manifest.step, damaged);
}

[[noreturn]] void refuse(const CheckpointPlace& place) {
  throw IoError(
      place.folder.string() +
      ": no good checkpoint before the bad step is whole, so the run cannot go back; name "
      "one to go on from by --resume DIR");
}

bool is_of_run(const CheckpointPlace& place, const FoundCheckpoint& checkpoint) {
  return checkpoint.folder.parent_path() == place.folder;
}

/// Returns whether a checkpoint of the run has another name by now, since it was damaged.
bool was_set_aside(const CheckpointPlace& place, const FoundCheckpoint& checkpoint) {
  return is_of_run(place, checkpoint) &&
         place.files->kind(checkpoint.folder) == Files::Kind::kNothing;
}

/// Returns the folder of the checkpoint to go back to, or nothing if there is none.
std::string find_earlier_folder(const CheckpointPlace& place, const BadStep& bad, bool again) {
  std::vector<std::string> damaged;
  std::optional<FoundCheckpoint> found;
  if (again) found = newest_good(*place.files, place.folder, place.first_step(), damaged);
  if (!found) {
    damaged.clear();
    found = newest_good(*place.files, place.folder, bad.step + 1, damaged);
  }
  for (const std::string& why : damaged) log::warn("passed over: {}", why);
  if (found) return found->folder.string();
  if (!damaged.empty()) refuse(place);
  return {};
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
  CheckpointPlace to = place;
  const auto find = [&] {
    const std::string found = find_earlier_folder(place, bad, in_a_row_ > 1);
    if (found.empty() && beginning_ && was_set_aside(place, *beginning_)) refuse(place);
    return found;
  };
  to.resume = agree_on_checkpoint(*place.files, find, ranks);
  if (!to.resume) to.resume = beginning_;
  to.skipped = skip_to(to.resume ? to.resume->manifest.skipped : std::vector<SampleWindow>(),
                       to.resume ? to.resume->manifest.samples : 0, bad.samples);
  // They come from the bad step, and whoever starts the run again must not go on from them.
  if (ranks.rank() == 0) {
    for (const std::filesystem::path& folder : save_folders(place.run())) {
      std::ranges::move(set_aside_later_checkpoints(*place.files, folder, to.first_step()),
                        std::back_inserter(to.given_up));
    }
  }
  return to;
}

void set_aside_damaged(const CheckpointPlace& place) {
  if (!place.resume || !is_of_run(place, *place.resume)) return;
  const auto aside =
      set_aside_later_checkpoints(*place.files, place.folder, place.first_step() - 1);
  for (const std::filesystem::path& folder : aside) log::warn("set aside: {}", folder.string());
}

}  // namespace strata
