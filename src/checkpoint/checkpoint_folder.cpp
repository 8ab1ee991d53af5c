// Names alone say what is a checkpoint and what is left over; manifests are read where it matters
// whether one is whole.

#include "strata/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "strata/base/error.h"
#include "strata/checkpoint/checkpoint_save.h"

namespace strata {

namespace {

constexpr std::string_view kPrefix = "step-";

/// Returns whether loss and norm of a checkpoint were finite; false where its manifest does not
/// say.
bool is_finite(const Files& files, const std::filesystem::path& checkpoint) {
  try {
    return read_manifest(files, checkpoint).finite;
  } catch (const IoError&) {
    return false;
  }
}

/// Removes a folder of `folder`, which first gets a name that says that it goes.
void remove_checkpoint(Files& files, const std::filesystem::path& folder, const std::string& name) {
  const std::filesystem::path going = folder / (std::string(kTemporaryPrefix) + "old-" + name);
  if (files.kind(going) != Files::Kind::kNothing) remove_all(files, going);
  files.rename(folder / name, going);
  files.sync_folder(folder);
  remove_all(files, going);
}

}  // namespace

std::optional<std::int64_t> step_of_name(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return step >= 0 && checkpoint_name(step) == name ? std::optional(step) : std::nullopt;
}

std::vector<std::int64_t> list_checkpoints(const Files& files,
                                           const std::filesystem::path& folder) {
  std::vector<std::int64_t> steps;
  if (files.kind(folder) != Files::Kind::kFolder) return steps;
  for (const std::string& name : files.list(folder)) {
    if (const auto step = step_of_name(name)) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

std::optional<FoundCheckpoint> newest_checkpoint(const Files& files,
                                                 const std::filesystem::path& folder,
                                                 std::vector<std::string>& skipped,
                                                 std::optional<std::int64_t> below) {
  std::vector<std::int64_t> newest_first = list_checkpoints(files, folder);
  std::ranges::reverse(newest_first);
  for (const std::int64_t step : newest_first) {
    if (below && step >= *below) continue;
    const std::filesystem::path checkpoint = folder / checkpoint_name(step);
    try {
      return FoundCheckpoint{checkpoint, read_manifest(files, checkpoint)};
    } catch (const IoError& error) {
      skipped.emplace_back(error.what());
    }
  }
  return std::nullopt;
}

void remove_unfinished(Files& files, const std::filesystem::path& folder) {
  if (files.kind(folder) != Files::Kind::kFolder) return;
  for (const std::string& name : files.list(folder)) {
    if (name.starts_with(kTemporaryPrefix)) remove_all(files, folder / name);
  }
}

std::vector<std::int64_t> remove_later_checkpoints(Files& files,
                                                   const std::filesystem::path& folder,
                                                   std::int64_t step) {
  std::vector<std::int64_t> gone = list_checkpoints(files, folder);
  std::erase_if(gone, [step](std::int64_t other) { return other <= step; });
  for (const std::int64_t later : gone) remove_checkpoint(files, folder, checkpoint_name(later));
  return gone;
}

std::vector<std::int64_t> remove_old_checkpoints(Files& files, const std::filesystem::path& folder,
                                                 std::int64_t newest, std::int64_t keep) {
  std::vector<std::int64_t> newest_first = list_checkpoints(files, folder);
  std::ranges::reverse(newest_first);
  std::vector<std::int64_t> gone;
  std::int64_t kept = 0;
  bool has_finite = false;
  for (const std::int64_t step : newest_first) {
    const std::string name = checkpoint_name(step);
    const bool left_behind = step > newest;
    const bool finite = !left_behind && !has_finite && is_finite(files, folder / name);
    has_finite = has_finite || finite;
    if (finite || (!left_behind && kept < keep)) {
      ++kept;
      continue;
    }
    remove_checkpoint(files, folder, name);
    gone.push_back(step);
  }
  return gone;
}

}  // namespace strata
