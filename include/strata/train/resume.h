// How a run goes on from a checkpoint: which one is meant, and whether the config that it is given
// now trains the same run. Used before anything is allocated.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/checkpoint/checkpoint_folder.h"
#include "strata/comm/ranks.h"
#include "strata/config/config.h"

namespace strata {

/// Ends what is said of a checkpoint that cannot be read, which is not passed over.
inline constexpr std::string_view kNameAnother =
    "; or go on from another checkpoint by --resume STEP|DIR";

/// What --allow names where data may have another content than before.
inline constexpr std::string_view kDataOfAnyContent = "data";

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
/// ones it passes over because they are damaged. Nothing only where "auto" finds none. Throws
/// ConfigError, on all ranks, for a named one that is not there or not whole, for a run of which no
/// checkpoint is whole, and if the system lets a rank not read what it looks at: a file that cannot
/// be read is not damaged, and one that rank 0 alone sees is not missing. All ranks call it.
[[nodiscard]] std::optional<FoundCheckpoint> find_resume(const Files& files,
                                                         const ResumeRequest& request,
                                                         const std::filesystem::path& run_folder,
                                                         Ranks& ranks);

/// Returns the folder of the model in the checkpoint that find_resume() takes if all are whole, or
/// an empty path where it finds none: what a config may take whose own model is gone. Throws
/// ConfigError and IoError as it does. A rank may call it alone.
[[nodiscard]] std::filesystem::path model_to_resume(const Files& files,
                                                    const ResumeRequest& request,
                                                    const std::filesystem::path& run_folder);

/// Returns the checkpoint in the folder that `find` returns, which rank 0 calls, or nothing if that
/// is empty. Throws ConfigError on all ranks if `find` throws an Error, or if one cannot read the
/// manifest. All ranks call it.
[[nodiscard]] std::optional<FoundCheckpoint> agree_on_checkpoint(
    const Files& files, const std::function<std::string()>& find, Ranks& ranks);

/// Returns the keys whose values differ from those the checkpoint was saved with, as lines "key:
/// was A, is B". Keys that the config leaves open do not differ. Where the checkpoint tells what
/// its data held, only the number and the weights of the sources of data.train count, not their
/// names: see compare_data(). Throws ConfigError that names those which would change the numbers of
/// the run and are not allowed, or another model.
[[nodiscard]] std::vector<std::string> compare_with_checkpoint(const RunConfig& config,
                                                               const FoundCheckpoint& checkpoint,
                                                               const ResumeRequest& request);

}  // namespace strata
