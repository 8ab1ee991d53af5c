// The folder that holds the checkpoints of a run: which there are, which one to go on from, and
// which may go. Rank 0 calls it, while it holds the run's lock.
#pragma once

#include <array>
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
/// That of the one that holds what is saved of weights alone, in folders of the same names.
inline constexpr std::string_view kWeightsName = "weights";
/// Returns both folders of a run.
[[nodiscard]] std::array<std::filesystem::path, 2> save_folders(const std::filesystem::path& run);

/// Returns the step of a folder that is named as checkpoint_name() names it, or nothing.
[[nodiscard]] std::optional<std::int64_t> step_of_name(std::string_view name);

/// Returns whether there is a folder of this name that saves are in, be it by a link to another
/// disk. Nothing of this name is no folder; throws IoError that names it for all else: a file, a
/// device, a link that leads to no folder, an answer that the system refuses.
[[nodiscard]] bool has_save_folder(const Files& files, const std::filesystem::path& folder);

/// Returns the steps of the checkpoints in a folder, ascending; none if it is not there, as
/// has_save_folder() says. Whether they are whole, nobody has looked.
[[nodiscard]] std::vector<std::int64_t> list_checkpoints(const Files& files,
                                                         const std::filesystem::path& folder);

/// A checkpoint that a run can go on from.
struct FoundCheckpoint {
  std::filesystem::path folder;
  Manifest manifest;
};
/// Returns the newest checkpoint of the folder, of fewer steps than `below` if that is given, whose
/// manifest and files are all there, or nothing. `skipped` gets a line for each newer one, saying
/// what is wrong with it. One that cannot be read is none to pass over: throws IoError.
[[nodiscard]] std::optional<FoundCheckpoint> newest_checkpoint(
    const Files& files, const std::filesystem::path& folder, std::vector<std::string>& skipped,
    std::optional<std::int64_t> below = {});

/// Removes what saves and deletions that did not end have left.
void remove_unfinished(Files& files, const std::filesystem::path& folder);

/// Returns whether set_aside_later_checkpoints() gives such names.
[[nodiscard]] bool is_abandoned_name(std::string_view name);

/// Renames the checkpoints of more than `step` steps, which a run leaves behind that goes on from
/// there: `step-N.abandoned`, or `step-N.abandoned-2` and so on where there is one already. From
/// then on nothing here lists, takes or removes them. Returns their new folders, the newest first.
std::vector<std::filesystem::path> set_aside_later_checkpoints(Files& files,
                                                               const std::filesystem::path& folder,
                                                               std::int64_t step);

/// Removes checkpoints that were set aside, but for those that are damaged or cannot be read.
/// Returns a line for each that stays, which says why.
std::vector<std::string> remove_set_aside(Files& files,
                                          const std::vector<std::filesystem::path>& checkpoints);

/// Which checkpoints of a run stay.
struct Retention {
  std::optional<std::int64_t> keep = 1;  ///< the newest ones that are no milestones; absent: all
  std::int64_t keep_best = 0;  ///< of those with the lowest validation loss, whichever else stay
  /// The first checkpoint at or past each multiple of this is a milestone, and stays.
  std::optional<std::int64_t> milestone_steps{};
};

/// Returns which of the ascending steps are milestones. Steps alone say it, since milestones stay:
/// a checkpoint past the same multiple finds its milestone before it.
[[nodiscard]] std::vector<std::int64_t> milestones_of(const std::vector<std::int64_t>& steps,
                                                      std::optional<std::int64_t> every);

/// Removes the checkpoints that need not stay when that of step `newest` is committed, and never
/// the newest good one. Those of later steps are left alone, and so are newer ones than that which
/// are damaged: they do not count as kept. Each gets another name first, so that there is never
/// half a checkpoint. Returns the steps that went. Throws IoError, and removes nothing, if it
/// cannot be read whether one is good.
std::vector<std::int64_t> remove_old_checkpoints(Files& files, const std::filesystem::path& folder,
                                                 std::int64_t newest, const Retention& retention);

}  // namespace strata
