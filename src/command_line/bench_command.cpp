// The command bench: one run, a suite of them, or results that are compared.

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "command_line/assignments.h"
#include "command_line/number_range.h"
#include "command_line/run_arguments.h"
#include "command_line/sub_commands.h"
#include "strata/config/assignments.h"

namespace strata {

namespace {

/// Returns what white space separates.
std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

/// Declares what `bench --suite` is told. Returns --suite.
CLI::Option* add_suite(CLI::App& bench, RunArguments& arguments) {
  SuiteOptions& suite = arguments.suite;
  CLI::Option* const file =
      bench
          .add_option("--suite", suite.suite,
                      "measure the rows of this suite, such as configs/suites/h200.json, in turns")
          ->type_name("FILE");
  const auto add = [&](CLI::Option* option) { return option->needs(file); };
  add(bench.add_option("--rows", suite.rows, "rows of the suite, with commas between; else all"))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME");
  add(bench.add_option("--repeats", suite.repeats,
                       "how often each row is measured, instead of what the suite says"))
      ->check(whole_number(1, 1000))
      ->type_name("COUNT");
  add(bench.add_option("--launcher", arguments.launcher,
                       "words that start the ranks of each row, such as \"mpirun -np 2\""))
      ->type_name("WORDS");
  CLI::Option* const json = bench.get_option("--json");
  CLI::Option* const markdown = add(
      bench.add_option("--markdown", suite.markdown, "also write the suite's table to this file"));
  markdown->type_name("FILE");
  CLI::Option* const list =
      add(bench.add_flag("--list", suite.list, "print the rows and their commands, and end"));
  CLI::Option* const resume = add(bench.add_flag(
      "--resume", suite.resume, "go on with the results in the file that --json names"));
  CLI::Option* const overwrite =
      add(bench.add_flag("--overwrite", suite.overwrite, "replace results that lie there"));
  overwrite->needs(json)->excludes(resume);
  resume->needs(json);
  for (CLI::Option* const other : {json, markdown, resume, overwrite}) list->excludes(other);
  return file;
}

/// Declares what `bench --compare` is told. Returns --compare.
CLI::Option* add_compare(CLI::App& bench, CompareOptions& compare) {
  constexpr int kMostFiles = 1000;
  CLI::Option* const files =
      bench
          .add_option("--compare", compare.files,
                      "compare results with those of the first file, instead of measuring")
          ->expected(2, kMostFiles)
          ->type_name("FILE");
  bench
      .add_option("--fail-below", compare.fail_below,
                  "end with exit code 1 if a row is slower than so many times before, by more than "
                  "the noise")
      ->needs(files)
      ->check(number(0.001, 1000))
      ->type_name("RATIO");
  return files;
}

}  // namespace

void add_bench_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<RunArguments>();
  CLI::App& bench = add_run_command(app, "bench",
                                    "Measure steps on synthetic tokens, 8 unless --set run.steps "
                                    "says otherwise: speed and peaks; "
                                    "one run or a suite of them",
                                    *options);
  CLI::Option* const config = bench.get_option("config")->required(false)->description(
      "run config, a JSON file; needed without --suite and --compare");
  add_generation(bench, "measure how random prompts are continued with random weights, instead",
                 options->generation, options->bench.generation);
  CLI::Option* const json =
      bench
          .add_option("--json", options->bench.json,
                      "also write the results to this file; - prints them in place of the table")
          ->type_name("FILE");
  CLI::Option* const generate = bench.get_option("--generate");
  bench
      .add_option("--trace", options->bench.trace,
                  "also write what each lane did in two sweeps halfway to this file, for Perfetto")
      ->needs(generate)
      ->type_name("FILE");
  CLI::Option* const suite = add_suite(bench, *options);
  CLI::Option* const compare = add_compare(bench, options->compare);
  suite->excludes(config)->excludes(generate);
  for (CLI::Option* const other : {config, generate, json, suite}) compare->excludes(other);
  compare->excludes(bench.get_option("--set"));
  bench.callback([options, config, suite, compare, &action] {
    if (compare->count() > 0) {
      action = [options] { return bench_compare(options->compare); };
      return;
    }
    if (suite->count() > 0) {
      action = [options] {
        warn_of_replaced(options->sets);
        SuiteOptions& told = options->suite;
        told.sets = options->sets;
        told.json = options->bench.json;
        told.launcher = words_of(options->launcher);
        return bench_suite(told);
      };
      return;
    }
    if (config->count() == 0) throw CLI::RequiredError("config");
    action = [options] {
      options->bench.steps_told = assigns(options->sets, "run.steps", options->config);
      return bench_command([options] { return load_config(*options, TrainingData::kOptional); },
                           options->bench);
    };
  });
}

}  // namespace strata
