// The self-test of a death: the program itself trains, is killed without a chance to save, and goes
// on from its last checkpoint as another process.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <string>
#include <thread>

#include "doctor/child_process.h"
#include "doctor/tiny_training.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/log.h"
#include "strata/base/process.h"
#include "strata/checkpoint/checkpoint_folder.h"

namespace strata {

namespace {

constexpr std::int64_t kKilledSteps = 120;
constexpr std::int64_t kEvery = 20;  // steps between checkpoints
constexpr double kLimitS = 600;      // a run takes a second, and some to start; this is a hang

/// The last lines of a log, for a message.
std::string end_of(const std::filesystem::path& log) {
  constexpr std::size_t kShown = 400;
  std::string text = read_text_file(log, kMiB);
  if (text.size() > kShown) text.erase(0, text.size() - kShown);
  std::ranges::replace(text, '\n', ' ');
  return text;
}

/// Runs of the program in folders below one.
class Runs {
 public:
  explicit Runs(const SelfTestOptions& options)
      : program_(options.program.string()), folder_(options.scratch / "kill") {
    std::filesystem::create_directories(folder_);
    RunConfig config = tiny_training(options);
    config.run.steps = kKilledSteps;
    config.run.log_every = kKilledSteps;
    config.checkpoint.at_end = true;
    config.checkpoint.every_steps = kEvery;
    save_run_config(config, folder_ / "config.json");
  }

  [[nodiscard]] std::filesystem::path checkpoints(const std::string& name) const {
    return folder_ / name / kCheckpointsName;
  }
  [[nodiscard]] std::filesystem::path log() const { return folder_ / "log"; }

  /// Trains to the end; throws Error with what the program said if it does not get there.
  void finish(const std::string& name, const std::vector<std::string>& more = {}) const {
    ChildProcess process(arguments(name, more), log());
    process.wait(kLimitS);
    if (process.code() == 0) return;
    throw IoError(fmt::format("{} ended with {}: {}", program_, process.code(), end_of(log())));
  }

  /// Trains until the first checkpoint is there and kills the run. Returns its exit code.
  [[nodiscard]] int begin_and_kill(const std::string& name) const {
    ChildProcess process(arguments(name, {}), log());
    const auto files = make_system_files();
    const double end_s = steady_seconds() + kLimitS;
    while (!process.ended() && steady_seconds() < end_s &&
           list_checkpoints(*files, checkpoints(name)).empty()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    process.kill();
    return process.code();
  }

 private:
  [[nodiscard]] std::vector<std::string> arguments(const std::string& name,
                                                   const std::vector<std::string>& more) const {
    std::vector<std::string> all{program_, "train", (folder_ / "config.json").string(), "--output",
                                 (folder_ / name).string()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  std::string program_;
  std::filesystem::path folder_;
};

/// Returns the bytes of all files of a checkpoint by their path, but for the manifest, which has
/// the name of the run.
std::map<std::string, std::string> contents_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().lexically_relative(folder).string();
    if (!entry.is_regular_file() || name == kManifestName) continue;
    all[name] = read_text_file(entry.path(), kGiB);
  }
  return all;
}

/// Returns a line for the first file that differs, or an empty text.
std::string first_file_that_differs(const std::filesystem::path& got,
                                    const std::filesystem::path& want) {
  const std::map<std::string, std::string> found = contents_of(got);
  const std::map<std::string, std::string> expected = contents_of(want);
  for (const auto& [name, bytes] : expected) {
    const auto file = found.find(name);
    if (file == found.end()) return name + " is missing";
    const auto& other = file->second;
    if (other.size() != bytes.size()) {
      return fmt::format("{} has {} bytes instead of {}", name, other.size(), bytes.size());
    }
    const auto at = std::ranges::mismatch(bytes, other).in1 - bytes.begin();
    if (at != std::ssize(bytes)) return fmt::format("{} differs from byte {} on", name, at);
  }
  return {};
}

}  // namespace

std::vector<Finding> check_kill(const SelfTestOptions& options) {
  if (options.program.empty()) return {};
  const Runs runs(options);
  runs.finish("whole");
  Finding finding{.name = "kill and resume"};
  const int code = runs.begin_and_kill("killed");
  const std::vector<std::int64_t> saved =
      list_checkpoints(*make_system_files(), runs.checkpoints("killed"));
  if (code != -SIGKILL || saved.empty()) {
    finding.verdict = Verdict::kBad;
    finding.found =
        fmt::format("the run that was to be killed ended with {} and {} checkpoints: {}", code,
                    saved.size(), end_of(runs.log()));
    finding.remedy = "see what the program said; on a machine that is very busy, run this again";
    return {finding};
  }
  runs.finish("killed", {"--resume", "auto"});
  const std::string last = checkpoint_name(kKilledSteps);
  const std::string difference =
      first_file_that_differs(runs.checkpoints("killed") / last, runs.checkpoints("whole") / last);
  if (!difference.empty()) {
    finding.verdict = Verdict::kBad;
    finding.found = "a run that was killed and went on left another checkpoint: " + difference;
    finding.remedy = remedy_of_wrong_numbers(
        options.backend,
        "run this again with --folder on another disk: if that is fine, suspect this one");
    return {finding};
  }
  finding.found = fmt::format(
      "killed behind step {}, gone on to step {}; the checkpoint there is that of a run that was "
      "not killed, byte for byte",
      saved.back(), kKilledSteps);
  return {finding};
}

}  // namespace strata
