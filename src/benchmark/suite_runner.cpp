// Each run is the program started again as a user would start it: one that does not fit, crashes or
// hangs costs its own figures alone, finds the device empty, and can be repeated by hand
// (docs/decisions/0034-runs-of-a-suite-are-processes.md).

#include "strata/benchmark/suite_runner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "strata/base/child_program.h"
#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/log.h"
#include "strata/base/output_file.h"
#include "strata/base/process.h"
#include "strata/base/stop_signals.h"
#include "strata/base/temporary.h"
#include "strata/base/text.h"
#include "strata/base/work_meter.h"
#include "strata/benchmark/tables.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostResultBytes = std::size_t{1} << 24;

/// Returns where the folder of this suite's own is made: beside its results, since a rank that
/// writes them may be on another host, else among the temporary files of this one.
fs::path folder_name(const fs::path& results) {
  return results.empty() ? temporary_name("strata-suite") : fs::path(results.string() + ".run");
}

/// Returns the last line of an output that has a letter: launchers draw frames around theirs.
std::string_view last_line(std::string_view output) {
  const std::size_t letter = output.find_last_of("abcdefghijklmnopqrstuvwxyz");
  if (letter == std::string_view::npos) return {};
  const std::size_t begin = output.rfind('\n', letter) + 1;  // 0 if it is the first one
  return output.substr(begin, output.find('\n', letter) - begin);
}

/// Returns what a program that failed says last about it: from the last line that begins as errors
/// do on, else the last line.
std::string last_words(std::string_view output) {
  constexpr std::string_view kLogged = "[error] ", kThrown = "strata: ";
  std::string_view said;
  for (std::size_t at = 0; at < output.size();) {
    const std::size_t end = std::min(output.find('\n', at), output.size());
    const std::string_view line = output.substr(at, end - at);
    const std::size_t logged = line.find(kLogged);
    if (logged != std::string_view::npos) said = output.substr(at + logged + kLogged.size());
    if (line.starts_with(kThrown)) said = output.substr(at + kThrown.size());
    at = end + 1;
  }
  if (said.empty()) said = last_line(output);
  while (said.ends_with('\n')) said.remove_suffix(1);
  constexpr std::size_t kMost = 2000;
  return shortened(said, kMost);
}

/// Returns why a run has no figures.
std::string why_failed(const ChildEnd& end, const SuiteRow& row) {
  if (end.told) {
    return fmt::format("did not end within {:.4g} minutes (limit_minutes)", row.limit_minutes);
  }
  const std::string said = last_words(end.output);
  if (!end.signalled) return said.empty() ? "said nothing" : said;
  const int signal = end.exit_code - 128;
  return fmt::format("ended by signal {}", signal) +
         (signal == SIGKILL ? ", as the system ends programs when host memory runs out" : "") +
         (said.empty() ? "" : "; it said: " + said);
}

class SuiteRunner {
 public:
  SuiteRunner(const SuiteRuns& runs, SuiteResults& results, const std::vector<SuiteJob>& jobs)
      : runs_(runs), results_(results), jobs_(jobs), folder_(folder_name(runs.json)) {}

  void run_all() {
    const StopSignals stop;
    std::int64_t turns = 0, left = 0, done = 0;
    for (const SuiteJob& job : jobs_) {
      turns = std::max(turns, job.row.repeats);
      left += std::max<std::int64_t>(0, job.row.repeats - runs_of(job));
    }
    write();
    const WorkMeter meter(work_, WorkMeter::Elsewhere::kLogged);
    for (std::int64_t turn = 0; turn < turns; ++turn) {
      for (std::size_t i = 0; i < jobs_.size(); ++i) {
        const SuiteJob& job = jobs_[i];
        if (turn >= job.row.repeats || runs_of(job) > turn || record(job).refused()) continue;
        const std::string name = fmt::format("row {} of {}: {}, run {} of {}", i + 1, jobs_.size(),
                                             job.row.name, turn + 1, job.row.repeats);
        log::info("{} ({} of {} in all): {}", name, ++done, left, contents(job));
        run(job, name, stop);
        write();
      }
    }
  }

 private:
  /// Returns the file that a run writes.
  [[nodiscard]] fs::path run_file() const { return folder_.path() / "run.json"; }
  RowRecord& record(const SuiteJob& job) { return results_.rows[job.record]; }
  [[nodiscard]] std::int64_t runs_of(const SuiteJob& job) const {
    return static_cast<std::int64_t>(results_.rows[job.record].runs.size());
  }

  /// Returns what a run of the row measures: its title, if it has one of its own, and how much of
  /// what.
  [[nodiscard]] std::string contents(const SuiteJob& job) const {
    const SuiteRow& row = job.row;
    const std::string title = row.title == row.name ? "" : row.title + "; ";
    if (row.generation) {
      const SuiteGeneration& g = *row.generation;
      return title + fmt::format("{} prompt(s) of {} tokens, {} drawn after each",
                                 format_count(g.prompts), format_count(g.prompt_tokens),
                                 format_count(g.max_tokens));
    }
    const std::vector<FieldText>& config = results_.rows[job.record].config;
    const auto value = [&](std::string_view path) {
      return std::ranges::find(config, path, &FieldText::path)->value;
    };
    return title + value("run.steps") + " step(s) with rows of " + value("data.sequence_length") +
           " tokens";
  }

  /// Measures one run of a row, which the log calls `name`.
  void run(const SuiteJob& job, const std::string& name, const StopSignals& stop) {
    std::vector<std::string> words = runs_.launcher;
    words.push_back(fs::read_symlink("/proc/self/exe").string());
    const std::vector<std::string> arguments = arguments_of(job.row);
    words.insert(words.end(), arguments.begin(), arguments.end());
    words.insert(words.end(), {"--json", run_file().string()});
    std::error_code ignored;
    fs::remove(run_file(), ignored);
    RunRecord run{
        .date = utc_now(), .wall_s = 0, .exit_code = 0, .error = {}, .json = {}, .figures = {}};
    const double begin_s = steady_seconds();
    work_.begin(name);
    const ChildEnd end = run_child(words, {.limit_s = 60 * job.row.limit_minutes,
                                           .stop = [&] { return stop.received() != 0; }});
    work_.end();
    run.wall_s = steady_seconds() - begin_s;
    // A batch system sends its signal to all processes of a job, and this one may get it last.
    if (end.signalled && !end.told) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    if (const int signal = stop.received()) {
      if (!runs_.json.empty()) {
        log::info("what was measured is in {}; --resume measures the rest", runs_.json.string());
      }
      throw Interrupted(signal);
    }
    run.exit_code = end.exit_code;
    take_result(run, end, job.row);
    tell(run, name);
    record(job).runs.push_back(std::move(run));
  }

  /// Reads what the run wrote, or why it did not.
  void take_result(RunRecord& run, const ChildEnd& end, const SuiteRow& row) const {
    if (end.exit_code != 0) {
      run.error = why_failed(end, row);
      return;
    }
    try {
      run.json = read_text_file(run_file(), kMostResultBytes);
      run.figures = read_bench(run.json, "the results of the run");
    } catch (const Error& error) {
      run.json.clear();
      run.error = error.what();
    }
  }

  static void tell(const RunRecord& run, const std::string& name) {
    if (!run.figures) {
      log::warn("{}: failed after {:.1f} s with exit code {}: {}", name, run.wall_s, run.exit_code,
                run.error);
      return;
    }
    const BenchFigures& f = *run.figures;
    log::info("{}: {} tokens/s{} after {:.1f} s", name, format_count(std::llround(f.tokens_per_s)),
              f.mfu ? fmt::format(", {:.1f} % MFU", 100 * *f.mfu) : "", run.wall_s);
  }

  void write() const {
    if (!runs_.json.empty()) write_file(runs_.json.string(), to_json(results_));
    if (!runs_.markdown.empty()) write_file(runs_.markdown.string(), to_markdown(results_));
  }

  const SuiteRuns& runs_;
  SuiteResults& results_;
  const std::vector<SuiteJob>& jobs_;
  TemporaryFolder folder_;
  WorkProgress work_;  ///< the run under way
};

}  // namespace

void run_suite(const SuiteRuns& runs, const std::vector<SuiteJob>& jobs, SuiteResults& results) {
  SuiteRunner(runs, results, jobs).run_all();
}

}  // namespace strata
