// The folder that holds the checkpoints of a run: which there are, which one to go on from, and
// which may go. Rank 0 calls it, while it holds the run's lock.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/checkpoint/files.h"
#include "strata/checkpoint/manifest.h"

namespace strata {

/// The name, in a run folder, of the folder that holds its checkpoints.
inline constexpr std::string_view kCheckpointsName = "checkpoints";

/// Returns the step of a folder that is named as checkpoint_name() names it, or nothing.
[[nodiscard]] std::optional<std::int64_t> step_of_name(std::string_view name);

/// Returns the steps of the checkpoints in a folder, ascending; none if it is not there. Whether
/// they are whole, nobody has looked.
[[nodiscard]] std::vector<std::int64_t> list_checkpoints(const Files& files,
                                                         const std::filesystem::path& folder);

/// A checkpoint that a run can go on from.
struct FoundCheckpoint {
  std::filesystem::path folder;
  Manifest manifest;
};
/// Returns the newest checkpoint of the folder, of fewer steps than `below` if that is given, whose
/// manifest and files are all there, or nothing. `skipped` gets a line for each newer one, saying
/// what is wrong with it.
[[nodiscard]] std::optional<FoundCheckpoint> newest_checkpoint(
    const Files& files, const std::filesystem::path& folder, std::vector<std::string>& skipped,
    std::optional<std::int64_t> below = {});

/// Removes what saves and deletions that did not end have left.
void remove_unfinished(Files& files, const std::filesystem::path& folder);

/// Removes the checkpoints of more than `step` steps. Returns the steps that went.
std::vector<std::int64_t> remove_later_checkpoints(Files& files,
                                                   const std::filesystem::path& folder,
                                                   std::int64_t step);

/// Removes all but the newest `keep` checkpoints up to `newest`, the one that was committed last,
/// and never the newest of them whose loss was finite. Those of later steps go as well: a run that
/// has gone back has left them behind. Each gets another name first, so that there is never half a
/// checkpoint. Returns the steps that went.
std::vector<std::int64_t> remove_old_checkpoints(Files& files, const std::filesystem::path& folder,
                                                 std::int64_t newest, std::int64_t keep);

}  // namespace strata
