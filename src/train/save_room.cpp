// Rank 0 looks. Counts are of what comes on top of what the disk holds already, since that is what
// its free space is compared with.

#include "strata/train/save_room.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <numeric>
#include <span>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/text.h"
#include "strata/checkpoint/checkpoint_layout.h"
#include "strata/checkpoint/disk_probe.h"
#include "strata/launch/rank_agreement.h"

namespace strata {

namespace {

constexpr std::uint64_t kMostBytes = std::numeric_limits<std::uint64_t>::max();

std::uint64_t sum(std::uint64_t a, std::uint64_t b) {
  return b > kMostBytes - a ? kMostBytes : a + b;
}

std::uint64_t product(std::int64_t count, std::uint64_t bytes) {
  std::uint64_t all = 0;
  return __builtin_mul_overflow(static_cast<std::uint64_t>(count), bytes, &all) ? kMostBytes : all;
}

/// The steps that a run still does: those past `done`, up to `last`.
struct StepsAhead {
  std::int64_t done = 0;
  std::int64_t last = 0;

  /// Returns how many of them are multiples.
  [[nodiscard]] std::int64_t multiples(const std::optional<std::int64_t>& of) const {
    return of && done < last ? last / *of - done / *of : 0;
  }
};

/// Returns how many of the steps are multiples of both.
std::int64_t multiples_of_both(const StepsAhead& steps, const std::optional<std::int64_t>& a,
                               const std::optional<std::int64_t>& b) {
  if (!a || !b) return 0;
  std::int64_t both = 0;
  const bool none = __builtin_mul_overflow(*a / std::gcd(*a, *b), *b, &both);
  return none ? 0 : steps.multiples(both);
}

/// Returns how many checkpoints the run saves that are no milestones. One that is due for two
/// reasons is one.
std::int64_t passing_saves(const CheckpointSection& config, const StepsAhead& steps) {
  if (steps.done >= steps.last) return 0;
  const std::int64_t milestones = steps.multiples(config.milestone_steps);
  if (config.every_minutes) return steps.last - steps.done - milestones;  // as far as anybody knows
  const auto is_due = [&](const std::optional<std::int64_t>& every) {
    return every && steps.last % *every == 0;
  };
  const bool of_its_own =
      config.at_end && !is_due(config.every_steps) && !is_due(config.milestone_steps);
  return steps.multiples(config.every_steps) -
         multiples_of_both(steps, config.every_steps, config.milestone_steps) +
         (of_its_own ? 1 : 0);
}

/// Saves of one kind that are still to come.
struct SavesAhead {
  std::int64_t milestones = 0;
  std::int64_t passing = 0;  ///< the others
};

/// Returns how many saves come on top of `there` ones that are no milestones, at most at once: an
/// older one goes when a newer one is complete, but for `keep` of them.
std::int64_t more_at_once(const SavesAhead& ahead, std::int64_t there,
                          const std::optional<std::int64_t>& keep) {
  if (ahead.milestones == 0 && ahead.passing == 0) return 0;
  std::int64_t passing = ahead.passing;
  if (keep && *keep - there < passing) {
    passing = *keep - there + 1;  // with the one that is being written
  } else if (keep && passing == 0) {
    passing = std::min<std::int64_t>(0, *keep - there);
  }
  return std::max<std::int64_t>(1, ahead.milestones + passing);  // the first one comes to all
}

/// Returns how many checkpoints stay that are no milestones: the newest, and the best.
std::int64_t kept_of(const CheckpointSection& config) {
  std::int64_t kept = 0;
  const bool fits = !__builtin_add_overflow(config.keep, config.keep_best, &kept);
  return fits ? kept : std::numeric_limits<std::int64_t>::max();
}

/// A folder that saves go to, and what comes into it.
struct SavePlace {
  std::filesystem::path folder;
  std::uint64_t least = 0;  ///< bytes of one save of each kind
  SaveCounts counts{};      ///< at once
};

bool are_on_one_disk(const std::filesystem::path& a, const std::filesystem::path& b) {
  struct stat of_a {};
  struct stat of_b {};
  const bool known = ::stat(a.c_str(), &of_a) == 0 && ::stat(b.c_str(), &of_b) == 0;
  return known ? of_a.st_dev == of_b.st_dev : a == b;
}

/// Returns where the saves of a run go: first whole checkpoints, then weights alone, if any are due
/// and they go to another disk. A folder that is not there yet will be in the run folder.
std::vector<SavePlace> save_places(const CheckpointPlace& place, const RunConfig& run,
                                   const Setup& setup) {
  const auto [checkpoints, weights] = save_folders(place.run());
  const auto found = [&](const std::filesystem::path& folder) {
    return has_save_folder(*place.files, folder) ? folder : place.run();
  };
  SavesThere there{.first_step = place.first_step(),
                   .whole = list_checkpoints(*place.files, checkpoints),
                   .weights = list_checkpoints(*place.files, weights)};
  for (std::vector<std::int64_t>* steps : {&there.whole, &there.weights}) {
    // Later ones are set aside, and so stay beside those that are kept.
    std::erase_if(*steps, [&](std::int64_t step) { return step > there.first_step; });
  }
  const CheckpointSection& config = run.checkpoint;
  const SaveCounts counts = most_more_saves(config, run.run.steps, there);
  const SaveSizes sizes = save_sizes(setup);
  std::vector<SavePlace> places{
      {.folder = found(checkpoints), .least = sizes.whole, .counts = {.whole = counts.whole}}};
  if (!config.weights_every_steps) return places;
  const std::filesystem::path other = found(weights);
  if (are_on_one_disk(other, places.front().folder)) {
    places.front().least += sizes.weights;
    places.front().counts.weights = counts.weights;
  } else {
    places.push_back(
        {.folder = other, .least = sizes.weights, .counts = {.weights = counts.weights}});
  }
  return places;
}

std::string counts_text(const SaveCounts& counts, const SaveSizes& sizes) {
  std::string text;
  const auto add = [&](std::int64_t count, std::uint64_t bytes, const char* what) {
    if (count == 0) return;
    text += (text.empty() ? "" : " and ") + format_count(count) + " more " + what + " of " +
            format_bytes(bytes);
  };
  add(counts.whole, sizes.whole, "checkpoints");
  add(counts.weights, sizes.weights, "saves of weights alone");
  return text;
}

/// Writes to the disk of a place for a moment. Throws IoError if it takes no files, or has not the
/// room for one save.
DiskFindings probe_place(Files& files, const SavePlace& saves, const SaveSizes& sizes) {
  ProbeSize size;
  size.bytes = static_cast<std::size_t>(std::min<std::uint64_t>(size.bytes, saves.least));
  const DiskProbe probe = probe_disk(files, saves.folder, size);
  DiskFindings found{.write_gbs = probe.write_gbs};
  if (!probe.free_bytes) return found;
  const std::string room =
      "run.output: " + saves.folder.string() + " has room for " + format_bytes(*probe.free_bytes);
  if (*probe.free_bytes < saves.least) {
    throw IoError(room + ", and a checkpoint takes " + format_bytes(saves.least) +
                  "; free space, name another folder, or save none (checkpoint.at_end = false, "
                  "without checkpoint.every_steps, every_minutes, milestone_steps and "
                  "weights_every_steps)");
  }
  const std::uint64_t all = bytes_of(saves.counts, sizes);
  if (*probe.free_bytes < all) {
    found.warning =
        room + ", and " + counts_text(saves.counts, sizes) + " will be there at once, " +
        format_bytes(all) +
        " in all; free space, or keep fewer (checkpoint.keep, keep_best, milestone_steps, "
        "weights_keep), or saves will fail";
  }
  return found;
}

}  // namespace

SaveCounts most_more_saves(const CheckpointSection& config, std::int64_t steps,
                           const SavesThere& there) {
  const StepsAhead ahead{.done = there.first_step, .last = steps};
  const std::int64_t milestones = std::ssize(milestones_of(there.whole, config.milestone_steps));
  return {.whole = more_at_once({.milestones = ahead.multiples(config.milestone_steps),
                                 .passing = passing_saves(config, ahead)},
                                std::ssize(there.whole) - milestones, kept_of(config)),
          .weights = more_at_once({.passing = ahead.multiples(config.weights_every_steps)},
                                  std::ssize(there.weights), config.weights_keep)};
}

SaveSizes save_sizes(const Setup& setup) {
  const CheckpointTypes& types = setup.saves->types;
  return {.whole = make_checkpoint_layout(*setup.model, types).bytes(),
          .weights = make_checkpoint_layout(*setup.model, types.weights_alone()).bytes()};
}

std::uint64_t bytes_of(const SaveCounts& counts, const SaveSizes& sizes) {
  return sum(product(counts.whole, sizes.whole), product(counts.weights, sizes.weights));
}

DiskFindings require_disk(const CheckpointPlace& place, const RunConfig& config, const Setup& setup,
                          Ranks& ranks) {
  DiskFindings found;
  fail_together(ranks, [&] {
    if (ranks.rank() != 0) return;
    const SaveSizes sizes = save_sizes(setup);
    for (const SavePlace& saves : save_places(place, config, setup)) {
      const DiskFindings here = probe_place(*place.files, saves, sizes);
      if (found.write_gbs == 0) found.write_gbs = here.write_gbs;
      if (!here.warning.empty())
        found.warning += (found.warning.empty() ? "" : "\n") + here.warning;
    }
  });
  std::array<double, 1> write_gbs{found.write_gbs};
  ranks.broadcast(std::as_writable_bytes(std::span(write_gbs)), 0, Channel::kSubmit);
  found.write_gbs = write_gbs[0];
  return found;
}

}  // namespace strata
