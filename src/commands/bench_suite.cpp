// Reads the suite and what was measured before, has the rest measured, and prints the table.
// Everything that can be wrong with what a user named is said before the first run.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "commands/machine_provenance.h"
#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/log.h"
#include "strata/base/output_file.h"
#include "strata/base/text.h"
#include "strata/benchmark/results.h"
#include "strata/benchmark/suite.h"
#include "strata/benchmark/suite_runner.h"
#include "strata/benchmark/tables.h"
#include "strata/comm/ranks.h"
#include "strata/commands/commands.h"
#include "strata/config/assignments.h"
#include "strata/launch/command_ranks.h"
#include "strata/runfiles/named_adapter.h"
#include "strata/train/measured_steps.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

constexpr const char* kMarkdownBegin = "Suite `";

std::string command_of(const SuiteOptions& options) {
  std::vector<std::string> words{"strata", "bench", "--suite", options.suite.string()};
  std::string rows;
  for (const std::string& row : options.rows) rows += (rows.empty() ? "" : ",") + row;
  if (!rows.empty()) words.insert(words.end(), {"--rows", rows});
  if (options.repeats) words.insert(words.end(), {"--repeats", std::to_string(*options.repeats)});
  for (const std::string& set : options.sets) words.insert(words.end(), {"--set", set});
  if (!options.launcher.empty()) {
    words.insert(words.end(), {"--launcher", shell_line(options.launcher)});
  }
  return shell_line(words);
}

std::string command_of(const SuiteRow& row, const SuiteOptions& options) {
  std::vector<std::string> words = options.launcher;
  words.emplace_back("strata");
  const std::vector<std::string> arguments = arguments_of(row);
  words.insert(words.end(), arguments.begin(), arguments.end());
  return shell_line(words);
}

/// Returns what an error of a row's config says, with the row.
ConfigError in_row(const Suite& suite, const SuiteRow& row, const std::string& what) {
  return ConfigError(suite.file.string() + ": row " + row.name + ": " + what);
}

/// Reads the config of a row, so that whatever is wrong with it is said before anything is run.
RowRecord new_record(const Suite& suite, const SuiteRow& row, const SuiteOptions& options) {
  try {
    RunConfig config = load_run_config(row.config, row.sets, TrainingData::kOptional,
                                       {.adapter = find_start_adapter});
    if (!row.generation) {
      config = synthetic_run(config, assigns(row.sets, "run.steps", row.config.string())
                                         ? config.run.steps
                                         : kBenchSteps);
    }
    return {.name = row.name,
            .title = row.title,
            .command = command_of(row, options),
            .repeats = row.repeats,
            .config = field_texts(config),
            .runs = {}};
  } catch (const ConfigError& error) {
    throw in_row(suite, row, error.what());
  } catch (const IoError& error) {
    throw in_row(suite, row, error.what());
  }
}

/// Reads the suite, with what the command line changes in it. All rows are there.
Suite suite_of(const SuiteOptions& options) {
  Suite suite = read_suite(options.suite);
  for (SuiteRow& row : suite.rows) {
    if (options.repeats) row.repeats = *options.repeats;
    row.sets.insert(row.sets.end(), options.sets.begin(), options.sets.end());
  }
  return suite;
}

int print_list(Suite suite, const SuiteOptions& options) {
  select_rows(suite, options.rows);
  std::string text = suite.title.empty() ? "" : printable_name(suite.title) + "\n";
  for (const SuiteRow& row : suite.rows) {
    static_cast<void>(new_record(suite, row, options));
    text += "\n" + row.name + ": " + printable_name(row.title) +
            fmt::format(" ({} runs)\n", row.repeats) + printable_name(command_of(row, options)) +
            "\n";
  }
  std::fputs(text.c_str(), stdout);
  return 0;
}

/// Refuses to replace what is no table of a suite.
void require_table(const fs::path& file) {
  if (!is_there(file)) return;
  require_replaceable(file.string());
  std::string begin(std::string_view(kMarkdownBegin).size(), '\0');
  const InputFile in(file);
  begin.resize(in.read_some(0, std::as_writable_bytes(std::span(begin))));
  if (begin.empty() || begin == kMarkdownBegin) return;
  throw IoError("--markdown: " + file.string() +
                " is there and is no table of a suite; name another file");
}

/// Returns the results that lie where the new ones go, if they are gone on with.
std::optional<SuiteResults> old_results(const SuiteOptions& options) {
  if (options.json.empty() || !is_there(options.json)) return std::nullopt;
  require_replaceable(options.json.string());
  const std::string file = options.json.string();
  if (!options.resume && !options.overwrite) {
    throw IoError("--json: " + file +
                  " is there; add --resume to measure what it lacks, or --overwrite");
  }
  SuiteResults old = read_results(options.json);
  if (!options.resume) return std::nullopt;
  return old;
}

/// Throws ConfigError if runs of `old` are not comparable with those of this program here.
void require_same_place(const SuiteResults& old, const SuiteResults& now, const fs::path& file) {
  Provenance a = old.provenance, b = now.provenance;
  std::string text;
  if (old.suite != now.suite) {
    text +=
        fmt::format("\n  suite: {}, now {}", printable_name(old.suite), printable_name(now.suite));
  }
  for (const std::string& path : differing_provenance(a, b)) {
    text += "\n  " + path + ": " + shortened(field_text(*fields_of(a).find(path))) + ", now " +
            shortened(field_text(*fields_of(b).find(path)));
  }
  if (text.empty()) return;
  throw ConfigError("--resume: " + file.string() +
                    " was measured by another program, or on another machine; name another file "
                    "with --json, or add --overwrite instead of --resume:" +
                    text);
}

bool same_config(const RowRecord& a, const RowRecord& b) {
  return std::ranges::equal(a.config, b.config, [](const FieldText& x, const FieldText& y) {
    return x.path == y.path && x.value == y.value;
  });
}

/// Takes over the runs of an earlier record of the row that have figures.
void keep_runs(RowRecord& row, const SuiteResults& old) {
  const auto found = std::ranges::find(old.rows, row.name, &RowRecord::name);
  if (found == old.rows.end() || found->command != row.command || !same_config(*found, row)) return;
  for (const RunRecord& run : found->runs) {
    if (run.figures) row.runs.push_back(run);
  }
  row.repeats = std::max(row.repeats, static_cast<std::int64_t>(row.runs.size()));
}

/// Says which rows lack figures, and returns the exit code.
int verdict(const SuiteResults& results, const std::vector<SuiteJob>& jobs) {
  std::string failed, unfit;
  for (const SuiteJob& job : jobs) {
    const RowRecord& row = results.rows[job.record];
    const RunRecord* const failure = row.failure();
    if (failure == nullptr) continue;
    std::string& names = failure->exit_code == OutOfMemory("").exit_code() ? unfit : failed;
    names += (names.empty() ? "" : ", ") + row.name;
  }
  if (!unfit.empty()) log::error("rows that do not fit this machine: {}", unfit);
  if (!failed.empty()) log::error("rows of which runs failed: {}", failed);
  if (!failed.empty()) return 1;
  return unfit.empty() ? 0 : OutOfMemory("").exit_code();
}

/// Throws if a launcher started several of this process: each would measure beside the others.
void require_alone() {
  const int ranks =
      make_command_ranks("bench --suite")->size();  // they part before one of them throws
  if (ranks == 1) return;
  throw ConfigError("--suite: a launcher has started " + std::to_string(ranks) +
                    " ranks of this; start it alone and name the launcher of its rows, as in "
                    "--launcher \"mpirun -np " +
                    std::to_string(ranks) + "\"");
}

/// Returns the results before anything is measured: where and by what it will be.
SuiteResults begun_results(const Suite& suite, const SuiteOptions& options) {
  SuiteResults results{
      .suite = suite.name, .title = suite.title, .provenance = this_machine(), .rows = {}};
  results.provenance.command = command_of(options);
  results.provenance.launcher = shell_line(options.launcher);
  return results;
}

/// Adds a record for each row that is measured, with what `old` has of it, and the old records of
/// the other rows. Returns what is to be measured.
std::vector<SuiteJob> add_records(const Suite& suite, const SuiteOptions& options,
                                  const std::optional<SuiteResults>& old, SuiteResults& results) {
  Suite selected = suite;
  select_rows(selected, options.rows);
  std::vector<SuiteJob> jobs;
  for (const SuiteRow& row : suite.rows) {
    if (std::ranges::find(selected.rows, row.name, &SuiteRow::name) != selected.rows.end()) {
      RowRecord record = new_record(suite, row, options);
      if (old) keep_runs(record, *old);
      jobs.push_back({.row = row, .record = results.rows.size()});
      results.rows.push_back(std::move(record));
    } else if (old) {
      const auto kept = std::ranges::find(old->rows, row.name, &RowRecord::name);
      if (kept != old->rows.end()) results.rows.push_back(*kept);
    }
  }
  return jobs;
}

}  // namespace

int bench_suite(const SuiteOptions& options) {
  const Suite suite = suite_of(options);
  if (options.list) return print_list(suite, options);
  if (options.json == kStandardOutput) {
    throw ConfigError(
        "--json -: a suite writes its results anew after each run, so that none is lost; name a "
        "file");
  }
  if (options.launcher.empty()) require_alone();
  if (!options.markdown.empty()) require_table(options.markdown);
  const std::optional<SuiteResults> old = old_results(options);
  SuiteResults results = begun_results(suite, options);
  if (old) {
    require_same_place(*old, results, options.json);
    results.provenance.date = old->provenance.date;
  }
  const std::vector<SuiteJob> jobs = add_records(suite, options, old, results);
  run_suite({.launcher = options.launcher, .json = options.json, .markdown = options.markdown},
            jobs, results);
  std::fputs(to_markdown(results).c_str(), stdout);
  std::fflush(stdout);
  return verdict(results, jobs);
}

}  // namespace strata
