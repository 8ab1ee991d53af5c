// How a run goes on from a checkpoint: which one is meant, and whether the config that it is given
// now trains the same run. Used before anything is allocated.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "strata/checkpoint/checkpoint_folder.h"
#include "strata/comm/ranks.h"
#include "strata/config/config.h"

namespace strata {

/// What the command line says of going on.
struct ResumeRequest {
  /// "auto": the newest whole checkpoint of the run folder, or none; a step: that one of the run
  /// folder; anything else: the folder of a checkpoint, or of a run, whose newest is taken. Empty:
  /// the run begins.
  std::string from;
  std::optional<std::int64_t> below{};  ///< "auto" takes one of fewer steps
  std::vector<std::string> allowed;     ///< keys that may differ though they change the numbers
};

/// Throws ConfigError for what is allowed in vain: by a request that resumes nothing, or what is no
/// key that changes the numbers of a run.
void require_allowable(const ResumeRequest& request);

/// Returns the checkpoint that is meant, the same on every rank: rank 0 looks, and logs which newer
/// ones it had to pass over because it, or another rank, misses a file of them. Nothing only where
/// "auto" finds none. Throws ConfigError, on all ranks, for a named one that is not there or not
/// whole. All ranks call it.
[[nodiscard]] std::optional<FoundCheckpoint> find_resume(const Files& files,
                                                         const ResumeRequest& request,
                                                         const std::filesystem::path& run_folder,
                                                         Ranks& ranks);

/// Returns the checkpoint in the folder that `find` returns, which rank 0 calls, or nothing if that
/// is empty. Throws ConfigError on all ranks if `find` throws an Error, or if one cannot read the
/// manifest. All ranks call it.
[[nodiscard]] std::optional<FoundCheckpoint> agree_on_checkpoint(
    const Files& files, const std::function<std::string()>& find, Ranks& ranks);

/// Returns the keys whose values differ from those the checkpoint was saved with, as lines "key:
/// was A, is B". Keys that the config leaves open do not differ. Throws ConfigError that names
/// those which would change the numbers of the run and are not allowed, or another model.
[[nodiscard]] std::vector<std::string> compare_with_checkpoint(const RunConfig& config,
                                                               const FoundCheckpoint& checkpoint,
                                                               const ResumeRequest& request);

}  // namespace strata
