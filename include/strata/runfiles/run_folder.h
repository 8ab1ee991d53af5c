// The run folder belongs to one process and to one run: whoever trains makes a RunFolder first, and
// is refused where another run lies or another process is at work. Only rank 0 has one.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "strata/base/process.h"
#include "strata/checkpoint/checkpoint_folder.h"

namespace strata {

class FolderLock;

/// What becomes of a run that lies in the folder already.
enum class OldRun : std::uint8_t {
  kRefuse,   ///< it stays, and the new one is refused
  kReplace,  ///< its files go
  kResume,   ///< it stays, and the new one adds to it
};

/// How a run that goes on waits for the process that has its folder.
struct FolderWait {
  std::function<double()> clock = steady_seconds;  ///< seconds that never go back
  /// Lets some time pass before the next look.
  std::function<void()> pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); };
};

/// The name, in a run folder, of the file with the metrics.
inline constexpr std::string_view kMetricsName = "metrics.jsonl";
/// The name, in a run folder and in a checkpoint, of the file with the plans of matrix products.
inline constexpr std::string_view kPlansName = "plans.json";
/// No file of plans is longer: a plan has some 200 bytes.
inline constexpr std::size_t kMostPlanBytes = std::size_t{16} << 20;
/// The name, in a run folder, of the folder with the tokenizer that the run's model leaves with.
inline constexpr std::string_view kRunTokenizerName = "tokenizer";
/// What `strata report` makes of a run, in its folder.
inline constexpr std::string_view kReportName = "report.html";

/// Returns the names of what tells that a folder holds a run, "config.json, checkpoints"; empty if
/// it holds none, or is not there.
[[nodiscard]] std::string run_in_folder(const std::filesystem::path& folder);

/// A folder that this process alone writes to while the object lives, by a lock of the kernel.
class RunFolder {
 public:
  /// Makes the folder if it is not there, and locks it. A folder holds a run if it has a
  /// config.json or a metrics.jsonl; a train.log alone is left by a start that failed, and is added
  /// to. With kReplace the files of a run that strata writes are removed, links themselves and not
  /// what they lead to, and nothing else; otherwise a link that has the name of one is refused.
  /// config.json stays until the new one replaces it, because the run may be read from it. Throws
  /// ConfigError that says what to do if a run, a config.json of somebody else's or another process
  /// is there, and IoError if the folder cannot be made or written. With kResume a process that is
  /// ending is waited for. A file system without locks costs a warning.
  RunFolder(std::filesystem::path path, OldRun old_run, const FolderWait& wait = {});
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  [[nodiscard]] std::filesystem::path config() const { return path_ / "config.json"; }
  [[nodiscard]] std::filesystem::path metrics() const { return path_ / kMetricsName; }
  [[nodiscard]] std::filesystem::path samples() const { return path_ / "samples.jsonl"; }
  /// Returns the folder itself, which takes the event files of run.tensorboard.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path log() const { return path_ / "train.log"; }
  [[nodiscard]] std::filesystem::path checkpoints() const { return path_ / kCheckpointsName; }
  /// Returns the name of a file that somebody makes to ask for a checkpoint.
  [[nodiscard]] std::filesystem::path save_request() const { return path_ / "save"; }
  [[nodiscard]] std::filesystem::path trace() const { return path_ / "trace.json"; }

 private:
  void make() const;
  void require_room(OldRun old_run) const;
  void remove_probes() const;
  void remove_old_run() const;

  std::filesystem::path path_;
  std::unique_ptr<FolderLock> lock_;
};

}  // namespace strata
