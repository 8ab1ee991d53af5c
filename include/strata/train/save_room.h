// Whether the disk has room for what a run will save: refused at the start where not even one
// checkpoint fits, warned of where not all do that are there at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/comm/ranks.h"
#include "strata/config/config.h"
#include "strata/plan/setup.h"
#include "strata/train/checkpoint_place.h"

namespace strata {

/// Saves that are in the folders of a run when it begins.
struct SavesThere {
  std::int64_t first_step = 0;          ///< steps that are done
  std::vector<std::int64_t> whole{};    ///< steps of checkpoints, ascending
  std::vector<std::int64_t> weights{};  ///< steps of weights alone, likewise
};

/// Saves by their kinds.
struct SaveCounts {
  std::int64_t whole = 0;
  std::int64_t weights = 0;
  bool operator==(const SaveCounts&) const = default;
};

/// Returns how many more saves than now are on the disk at once, at most, while a run goes on to
/// `steps` steps: milestones, those that are kept, and the one that is being written before an
/// older one goes. What somebody asks for by a signal is not counted.
[[nodiscard]] SaveCounts most_more_saves(const CheckpointSection& config, std::int64_t steps,
                                         const SavesThere& there);

/// The bytes of one save of each kind.
struct SaveSizes {
  std::uint64_t whole = 0;
  std::uint64_t weights = 0;
};
/// Returns the sizes of the saves of a setup that has saves.
[[nodiscard]] SaveSizes save_sizes(const Setup& setup);
/// Returns the bytes of so many saves, or the largest number where they are more than that.
[[nodiscard]] std::uint64_t bytes_of(const SaveCounts& counts, const SaveSizes& sizes);

/// What was found of the disks that saves go to.
struct DiskFindings {
  double write_gbs = 0;   ///< in a short test
  std::string warning{};  ///< of room that will not do, on rank 0; empty: there is none
};

/// Writes to each disk for a moment. Throws as fail_together() does if no checkpoint of this setup
/// can be written: the folder that it goes to takes no files, or has not the room for even one. All
/// ranks call it, before memory is taken.
[[nodiscard]] DiskFindings require_disk(const CheckpointPlace& place, const RunConfig& config,
                                        const Setup& setup, Ranks& ranks);

}  // namespace strata
