// Whole runs of a tiny model that save checkpoints, and go on from them, with files in memory.
// Tests of saves and of resumption compare what such runs leave with what others leave that
// saved nothing, or stopped where the checkpoint was taken.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/memory_files.h"
#include "strata/checkpoint/checkpoint_folder.h"
#include "strata/train/session.h"
#include "support/session_run.h"

namespace strata::test {

/// Where the runs of these tests keep their checkpoints. MemoryFiles(kRunFolder) has its parent.
inline const std::filesystem::path kRunFolder = "/run";
inline const std::filesystem::path kCheckpoints = kRunFolder / kCheckpointsName;

/// What a run does beside its steps.
struct SaveSchedule {
  std::vector<std::int64_t> after{};   ///< steps done; saved while training goes on
  SaveKinds kinds{.whole = true};      ///< as what
  bool at_end = false;                 ///< the last state is saved when everything is done
  std::optional<std::int64_t> from{};  ///< step of the checkpoint that the run goes on from
  std::int64_t steps = 0;              ///< that are done at the end, those before `from` included
  /// Called on every rank before a step is submitted; may be null.
  std::function<void(Session&, std::int64_t step)> before_step = nullptr;
};

/// What a run left.
struct SavedRun {
  RunResult run;                    ///< losses and norms of the steps that this session did
  std::vector<SaveReport> reports;  ///< of rank 0, in order
  std::vector<bool> missed;         ///< by step: early updates were undone
  std::int64_t waits = 0;           ///< steps that found a save due and another one under way
};

/// Returns hooks of a session that saves to kCheckpoints, and goes on from the checkpoint of step
/// `from` if it is given.
[[nodiscard]] SessionHooks hooks_of(Files& files, std::optional<std::int64_t> from = {});

/// Trains on `ranks` ranks, on hosts as run_ranks has them. A save that falls due while another is
/// written is begun as soon as that one has ended.
[[nodiscard]] SavedRun train_and_save(const RunConfig& config, int ranks, Files& files,
                                      const SaveSchedule& schedule, SessionHooks hooks = {},
                                      int on_host = 0);

/// Writes a checkpoint of one small file and of what `manifest` says beside it, for a config that
/// is not given there that of tiny_config().
void add_checkpoint(Files& files, const std::filesystem::path& run, Manifest manifest);

/// The bytes of all files below a folder, by their path in it.
using FolderContents = std::map<std::string, std::string>;
[[nodiscard]] FolderContents contents_of(const Files& files, const std::filesystem::path& folder);
/// Returns those of the checkpoint of a step; the manifest is not among them if only tensors are
/// asked for, because it holds the config.
enum class Manifests : std::uint8_t { kWith, kWithout };
[[nodiscard]] FolderContents checkpoint_contents(const Files& files, std::int64_t step,
                                                 Manifests manifests = Manifests::kWith);
/// Returns which files differ, are missing or are too many, as a text; empty if none.
[[nodiscard]] std::string differences(const FolderContents& found, const FolderContents& expected);

/// The training state of all ranks, put together: by block and tensor, in f64, without the padding
/// of shards. Masters stand for weights and their low halves.
struct WholeState {
  std::map<std::string, std::vector<double>> tensors;  ///< "layers.0 m" and so on
  bool operator==(const WholeState&) const = default;
};
/// All ranks call it, when everything that was submitted is done.
[[nodiscard]] WholeState gather_state(Session& session, Ranks& ranks);

/// Files that do something before each write: wait, or take their time.
class HookedFiles final : public Files {
 public:
  HookedFiles(Files& files, std::function<void()> before_write)
      : files_(files), before_write_(std::move(before_write)) {}

  std::unique_ptr<FileWriter> create(const Path& file) override;
  std::unique_ptr<FileWriter> open_to_write(const Path& file) override;
  [[nodiscard]] std::unique_ptr<FileReader> open(const Path& file) const override {
    return files_.open(file);
  }
  void make_folder(const Path& folder) override { files_.make_folder(folder); }
  void rename(const Path& from, const Path& to) override { files_.rename(from, to); }
  void remove(const Path& path) override { files_.remove(path); }
  void sync_folder(const Path& folder) override { files_.sync_folder(folder); }
  [[nodiscard]] Kind kind(const Path& path) const override { return files_.kind(path); }
  [[nodiscard]] std::vector<std::string> list(const Path& folder) const override {
    return files_.list(folder);
  }
  [[nodiscard]] std::optional<std::uint64_t> free_bytes(const Path& folder) const override {
    return files_.free_bytes(folder);
  }

 private:
  Files& files_;
  std::function<void()> before_write_;
};

}  // namespace strata::test
