// Takes a run folder for this process, and clears what an old run left in it. What a folder holds
// is looked at twice: before the lock, so that nothing is written into a folder that is refused,
// and under it, because a run may have come and gone in between.

#include "strata/runfiles/run_folder.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "runfiles/folder_lock.h"
#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/checkpoint/checkpoint_save.h"
#include "strata/checkpoint/disk_probe.h"
#include "strata/data/tokenizer_folder.h"
#include "strata/runfiles/event_file.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

/// Returns the path and why the system refuses it; one that is too long is not repeated whole.
std::string refused(const fs::path& path, const std::error_code& why) {
  const bool too_long = why == std::errc::filename_too_long;
  return printable_name(too_long ? shortened(path.string()) : path.string()) + ": " +
         why.message() + (too_long ? "; give it a shorter path" : "");
}

constexpr std::string_view kOtherFolder = "name another folder with --output";

/// No file that a run writes for others to recognise it by is longer.
constexpr std::size_t kMostBytes = 1 << 20;

/// Returns whether a config.json is one that a run has written: it names every section. That of a
/// model does not, nor does what somebody wrote by hand.
bool is_resolved_config(const fs::path& file) {
  const std::string text = read_text_file(file, kMostBytes);
  constexpr std::array<std::string_view, 9> kSections{
      "run", "model", "data", "schedule", "optimizer", "memory", "hardware", "kernels", "debug"};
  return std::ranges::all_of(kSections, [&](std::string_view section) {
    return text.find('"' + std::string(section) + "\":") != std::string::npos;
  });
}

/// Throws if a run would write to what has this name and is no file: a pipe waits for a reader, a
/// device may do anything, and a link leads to a file that whoever made the folder has chosen.
void require_file(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::not_found || fs::is_regular_file(status)) return;
  if (error) throw IoError("run.output: " + refused(path, error));
  const char* const what = fs::is_directory(status) ? "a folder"
                           : fs::is_symlink(status) ? "a link"
                                                    : "a pipe or a device";
  throw IoError("run.output: " + path.string() + " is " + what +
                ", and train writes a file of this name; remove or rename it, or " +
                std::string(kOtherFolder));
}

/// A link that goes with the run that it is of is no danger to what it leads to.
bool is_link(const fs::path& path) {
  std::error_code told_by_require_file;
  return fs::is_symlink(path, told_by_require_file);
}

/// Removes everything in a folder that a run has saved.
void remove_saves(const fs::path& folder) {
  const std::unique_ptr<Files> files = make_system_files();
  if (!has_save_folder(*files, folder)) return;
  remove_unfinished(*files, folder);
  for (const std::string& name : files->list(folder)) {
    if (step_of_name(name) || is_abandoned_name(name)) remove_all(*files, folder / name);
  }
}

}  // namespace

std::string run_in_folder(const fs::path& folder) {
  std::string held;
  for (const std::string_view name :
       std::initializer_list<std::string_view>{"config.json", "metrics.jsonl", kCheckpointsName}) {
    if (is_there(folder / name)) held += (held.empty() ? "" : ", ") + std::string(name);
  }
  return held;
}

RunFolder::RunFolder(fs::path path, OldRun old_run, const FolderWait& wait)
    : path_(std::move(path)) {
  make();
  require_room(old_run);
  lock_ = std::make_unique<FolderLock>(path_, old_run == OldRun::kResume ? &wait : nullptr);
  require_room(old_run);
  remove_probes();
  if (old_run == OldRun::kReplace) remove_old_run();
}

RunFolder::~RunFolder() = default;

void RunFolder::make() const {
  std::error_code error;
  std::vector<fs::path> missing;  // from the innermost on, with what the system does not show
  for (fs::path folder = fs::absolute(path_).lexically_normal();
       !fs::exists(fs::symlink_status(folder, error)); folder = folder.parent_path()) {
    if (folder.has_filename()) missing.push_back(folder);
  }
  fs::create_directories(path_, error);
  if (error) {
    throw IoError("run.output: cannot create the folder " + refused(path_, error));
  }
  // A checkpoint survives a crash only if the folder does.
  try {
    for (const fs::path& folder : missing) make_system_files()->sync_folder(folder.parent_path());
  } catch (const IoError& failed) {
    log::warn("{}", failed.what());
  }
}

/// Throws if the folder holds what may not be written over.
void RunFolder::require_room(OldRun old_run) const {
  for (const fs::path& file : {config(), path_ / ".lock"}) require_file(file);
  for (const fs::path& file : {metrics(), samples(), log(), trace(), path_ / kPlansName}) {
    if (old_run != OldRun::kReplace || !is_link(file)) require_file(file);
  }
  const std::unique_ptr<Files> files = make_system_files();
  for (const fs::path& folder : save_folders(path_)) {
    static_cast<void>(has_save_folder(*files, folder));
  }
  if (is_there(config()) && !is_resolved_config(config())) {
    throw ConfigError("run.output: " + config().string() +
                      " would be written over, and it is not the config of a run that strata "
                      "wrote; " +
                      std::string(kOtherFolder));
  }
  const std::string held = run_in_folder(path_);
  if (held.empty() || old_run != OldRun::kRefuse) return;
  throw ConfigError("run.output: " + path_.string() + " holds a run (" + held + "); " +
                    std::string(kOtherFolder) +
                    ", go on with that run by --resume auto, or replace it with --overwrite");
}

/// Removes the scratch files of probes whose process was killed.
void RunFolder::remove_probes() const {
  const auto [checkpoints, weights] = save_folders(path_);
  std::error_code error;
  for (const fs::path& folder : {path_, checkpoints, weights}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
      const std::string name = entry.path().filename();
      if (name.starts_with(kProbePrefix)) fs::remove(entry.path(), error);
    }
  }
}

/// Removes what a run leaves but its config.
void RunFolder::remove_old_run() const {
  std::vector<fs::path> files{metrics(), samples(),          log(),
                              trace(),   path_ / kPlansName, path_ / kReportName};
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, error)) {
    const std::string name = entry.path().filename();
    const auto is_of = [&](const char* written) { return name.starts_with(written); };
    const bool unfinished =
        std::ranges::any_of(std::array{".plans.json.tmp", ".config.json.tmp", ".trace.json.tmp"},
                            is_of) ||  // of an OutputFile, or of what was before it
        ((is_of("plans.json.") || is_of("config.json.")) && name.ends_with(".tmp"));
    const bool old_lines =
        name.starts_with("metrics.jsonl.old") || name.starts_with("samples.jsonl.old");
    if (unfinished || old_lines || is_event_file_name(name)) {
      files.push_back(entry.path());
    }
  }
  for (const fs::path& folder : save_folders(path_)) remove_saves(folder);
  remove_tokenizer_files(path_ / kRunTokenizerName);
  for (const fs::path& file : files) {
    if (!is_there(file)) continue;
    if (fs::is_directory(fs::symlink_status(file, error)) || !fs::remove(file, error)) {
      throw IoError("run.output: " + file.string() + " cannot be replaced; " +
                    std::string(kOtherFolder));
    }
  }
}

}  // namespace strata
