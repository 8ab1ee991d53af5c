// Lists the checkpoints of a run's folder, finds the one to go on from, and removes others. Names
// alone say what is a checkpoint and what is left over; manifests are read where it matters whether
// one is whole.

#include "strata/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "strata/base/error.h"
#include "strata/checkpoint/checkpoint_save.h"

namespace strata {

namespace {

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kAbandoned = ".abandoned";

/// Whether a run may go back to a checkpoint.
enum class State : std::uint8_t { kGood, kNotGood, kDamaged };

State state_of(const Files& files, const std::filesystem::path& checkpoint) {
  try {
    return read_manifest(files, checkpoint).good() ? State::kGood : State::kNotGood;
  } catch (const DamagedFile&) {
    return State::kDamaged;
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

/// Returns a name that nothing has yet for a checkpoint that is set aside.
std::filesystem::path abandoned_folder(const Files& files, const std::filesystem::path& folder,
                                       std::int64_t step) {
  const std::string name = checkpoint_name(step) + std::string(kAbandoned);
  std::filesystem::path free = folder / name;
  for (int i = 2; files.kind(free) != Files::Kind::kNothing; ++i) {
    free = folder / (name + "-" + std::to_string(i));
  }
  return free;
}

/// Returns, ascending, the steps of the `count` checkpoints whose own validation had the lowest
/// loss; of equal ones the earlier. Who had none, or is damaged, is not among them, nor who was
/// validated on other data or rows than the newest one.
std::vector<std::int64_t> best_of(const Files& files, const std::filesystem::path& folder,
                                  const std::vector<std::int64_t>& steps, std::int64_t count) {
  if (count == 0) return {};
  std::vector<std::pair<double, std::int64_t>> losses;
  std::int64_t since = 0;
  for (const std::int64_t step : steps) {
    try {
      const Manifest manifest = read_manifest(files, folder / checkpoint_name(step));
      since = manifest.data.validation_since;
      if (const auto loss = manifest.validations.loss_of(step)) losses.emplace_back(*loss, step);
    } catch (const DamagedFile&) {
      continue;
    }
  }
  std::erase_if(losses, [since](const auto& of) { return of.second <= since; });
  std::ranges::sort(losses);
  std::vector<std::int64_t> best;
  for (const auto& [loss, step] : losses) {
    if (std::ssize(best) < count) best.push_back(step);
  }
  std::ranges::sort(best);
  return best;
}

}  // namespace

std::array<std::filesystem::path, 2> save_folders(const std::filesystem::path& run) {
  return {run / kCheckpointsName, run / kWeightsName};
}

std::optional<std::int64_t> step_of_name(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return step >= 0 && checkpoint_name(step) == name ? std::optional(step) : std::nullopt;
}

bool has_save_folder(const Files& files, const std::filesystem::path& folder) {
  const Files::Kind kind = files.kind(folder);
  if (kind == Files::Kind::kNothing) return false;
  if (kind == Files::Kind::kFolder) return true;
  const std::string expected = folder.string() + ": a folder of checkpoints is expected here";
  if (kind == Files::Kind::kFile) {
    throw IoError(expected + ", and this is a file; remove or rename it");
  }
  std::string why = "it is no folder, nor does it lead to one";
  try {
    if (files.kind(folder / ".") == Files::Kind::kFolder) return true;  // a link is followed
  } catch (const IoError& error) {
    why = error.what();
  }
  throw IoError(expected + ": " + why +
                "; mount the disk that it leads to, or remove or rename what has this name");
}

std::vector<std::int64_t> list_checkpoints(const Files& files,
                                           const std::filesystem::path& folder) {
  std::vector<std::int64_t> steps;
  if (!has_save_folder(files, folder)) return steps;
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
    } catch (const DamagedFile& error) {
      skipped.emplace_back(error.what());
    }
  }
  return std::nullopt;
}

std::vector<std::int64_t> milestones_of(const std::vector<std::int64_t>& steps,
                                        std::optional<std::int64_t> every) {
  std::vector<std::int64_t> milestones;
  std::int64_t passed = 0;  // multiples of `every`
  for (const std::int64_t step : steps) {
    if (!every || step / *every == passed) continue;
    passed = step / *every;
    milestones.push_back(step);
  }
  return milestones;
}

void remove_unfinished(Files& files, const std::filesystem::path& folder) {
  if (!has_save_folder(files, folder)) return;
  for (const std::string& name : files.list(folder)) {
    if (name.starts_with(kTemporaryPrefix)) remove_all(files, folder / name);
  }
}

bool is_abandoned_name(std::string_view name) {
  const std::size_t end = name.find(kAbandoned);
  return end != std::string_view::npos && step_of_name(name.substr(0, end)).has_value();
}

std::vector<std::filesystem::path> set_aside_later_checkpoints(Files& files,
                                                               const std::filesystem::path& folder,
                                                               std::int64_t step) {
  std::vector<std::int64_t> later = list_checkpoints(files, folder);
  std::erase_if(later, [step](std::int64_t other) { return other <= step; });
  std::ranges::reverse(later);
  std::vector<std::filesystem::path> aside;
  for (const std::int64_t other : later) {
    aside.push_back(abandoned_folder(files, folder, other));
    files.rename(folder / checkpoint_name(other), aside.back());
  }
  if (!aside.empty()) files.sync_folder(folder);
  return aside;
}

std::vector<std::string> remove_set_aside(Files& files,
                                          const std::vector<std::filesystem::path>& checkpoints) {
  std::vector<std::string> kept;
  for (const std::filesystem::path& checkpoint : checkpoints) {
    try {
      if (files.kind(checkpoint) == Files::Kind::kNothing) continue;  // went before
      static_cast<void>(read_manifest(files, checkpoint));
      remove_checkpoint(files, checkpoint.parent_path(), checkpoint.filename());
    } catch (const IoError& error) {
      kept.emplace_back(error.what());
    }
  }
  return kept;
}

std::vector<std::int64_t> remove_old_checkpoints(Files& files, const std::filesystem::path& folder,
                                                 std::int64_t newest, const Retention& retention) {
  if (!retention.keep) return {};
  std::vector<std::int64_t> steps = list_checkpoints(files, folder);
  std::erase_if(steps, [newest](std::int64_t step) { return step > newest; });
  const std::vector<std::int64_t> milestones = milestones_of(steps, retention.milestone_steps);
  const std::vector<std::int64_t> best = best_of(files, folder, steps, retention.keep_best);
  std::ranges::reverse(steps);
  // Nothing goes before all that has to be read was read.
  std::vector<std::int64_t> gone;
  std::int64_t kept = 0;
  bool has_good = false;
  for (const std::int64_t step : steps) {
    const State state =
        has_good ? State::kNotGood : state_of(files, folder / checkpoint_name(step));
    has_good = has_good || state == State::kGood;
    // What is damaged serves nobody, and so keeps no place of one that does.
    if (state == State::kDamaged || std::ranges::binary_search(milestones, step)) continue;
    if (state == State::kGood || kept < *retention.keep) {
      ++kept;
      continue;
    }
    if (!std::ranges::binary_search(best, step)) gone.push_back(step);
  }
  for (const std::int64_t step : gone) remove_checkpoint(files, folder, checkpoint_name(step));
  return gone;
}

}  // namespace strata
