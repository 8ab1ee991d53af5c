// The commands about a run: what they have in common is the config, and what the command line
// changes in it.

#include "command_line/sub_commands.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "command_line/assignments.h"
#include "command_line/number_range.h"
#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/log.h"
#include "strata/checkpoint/files.h"
#include "strata/commands/commands.h"
#include "strata/config/assignments.h"
#include "strata/config/config.h"
#include "strata/device/gpu_models.h"
#include "strata/train/resume.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

/// What the command line says about a run, beside its config file.
struct RunArguments {
  std::string config;
  std::vector<std::string> sets;
  std::string output;
  std::string device_memory;
  std::string host_memory;
  bool overwrite = false;
  ResumeRequest resume;
  BenchOptions bench;
  SuiteOptions suite;
  std::string launcher;
  CompareOptions compare;
  PlanOptions plan;
  GenerationJob generation;
  TuneOptions tune;
};

/// Returns all assignments of the command line, those of options of their own last.
std::vector<std::string> sets_of(const RunArguments& arguments) {
  std::vector<std::string> sets = arguments.sets;
  const auto set = [&sets](const std::string& key, const std::string& value) {
    if (!value.empty()) sets.push_back(key + '=' + value);
  };
  set("memory.device_limit", arguments.device_memory);
  set("memory.host_limit", arguments.host_memory);
  return sets;
}

/// Reads the run config with what the command line changes in it, and validates it.
RunConfig load(const RunArguments& arguments, TrainingData training_data) {
  warn_of_replaced(arguments.sets);
  const auto find_model = [&](const RunConfig& read) {
    const std::unique_ptr<Files> files = make_system_files();
    const fs::path folder = model_to_resume(
        *files, arguments.resume, arguments.output.empty() ? read.run.output : arguments.output);
    if (!folder.empty()) {
      log::info("model.path: {} is not there; {} of the checkpoint takes its place",
                read.model.path, folder.string());
    }
    return folder;
  };
  RunConfig config =
      load_run_config(arguments.config, sets_of(arguments), training_data, find_model);
  if (!arguments.output.empty()) config.run.output = arguments.output;
  config.validate(arguments.config);
  return config;
}

/// Returns the sections of a config, and where their keys are told of: all of them would hide the
/// options above.
std::string sections_text() {
  RunConfig config;
  const FieldList sections = fields_of(config);
  std::string names;
  for (const Field& section : sections.all()) names += (names.empty() ? "" : ", ") + section.key;
  return "The config has the sections " + names +
         ".\nstrata config-help lists their keys, strata config-help optimizer those of one, and "
         "strata config-help optimizer.lr says what one is for.";
}

/// Declares where JSON goes.
CLI::Option& add_json(CLI::App& command, std::string& json) {
  return *command
              .add_option("--json", json,
                          "also write what was found to this file, as JSON; -: to standard output")
              ->type_name("FILE");
}

/// Declares a sub-command that reads a run config.
CLI::App& add_run_command(CLI::App& app, const std::string& name, const std::string& description,
                          RunArguments& arguments) {
  CLI::App& command = *app.add_subcommand(name, description);
  command.add_option("config", arguments.config, "run config, a JSON file")->required();
  add_assignments(command, arguments.sets);
  command.footer([] { return sections_text(); });
  return command;
}

/// Declares what is said of a load to generate; `job` has it if there is one.
void add_generation(CLI::App& command, const std::string& description, GenerationJob& said,
                    std::optional<GenerationJob>& job) {
  CLI::Option* const generate = command.add_flag("--generate", description);
  const auto add_count = [&](const char* name, auto& count, std::int64_t most, const char* what) {
    command.add_option(name, count, what)
        ->needs(generate)
        ->check(whole_number(1, most))
        ->type_name("COUNT");
  };
  constexpr std::int64_t kMostPrompts = 1'000'000'000;
  add_count("--prompts", said.load.sequences, kMostPrompts, "how many; 64 by default");
  add_count("--prompt-tokens", said.load.prompt_tokens, kMostCounted,
            "tokens of each prompt; 512 by default");
  add_count("--max-tokens", said.load.drawn_tokens, kMostCounted,
            "tokens drawn after each; 128 by default");
  add_count("--batch", said.sequences, kMostAtOnce,
            "prompts that are continued at once; chosen by default");
  add_kv_dtype(command, said.kv_dtype).needs(generate);
  command.parse_complete_callback([generate, &said, &job] {
    if (generate->count() > 0) job = said;
  });
}

void add_train(CLI::App& app, const std::shared_ptr<RunArguments>& options, Action& action) {
  CLI::App& train = add_run_command(app, "train", "Train a model", *options);
  train.add_option("--output", options->output, "run folder (run.output)")->type_name("DIR");
  CLI::Option* const overwrite = train.add_flag("--overwrite", options->overwrite,
                                                "replace the run that is in the run folder");
  train
      .add_option("--resume", options->resume.from,
                  "go on from a checkpoint: auto, the newest whole one of the run folder if there "
                  "is one; a step of it; or the folder of a checkpoint or of another run")
      ->excludes(overwrite)
      ->type_name("auto|STEP|DIR");
  train
      .add_option(
          "--allow", options->resume.allowed,
          "a key that may differ from the checkpoint's though it changes the numbers, or data: "
          "what the files of data hold")
      ->type_name("KEY")
      ->allow_extra_args(false);
  train.callback([options, &action] {
    action = [options] {
      return train_command([options] { return load(*options, TrainingData::kRequired); },
                           {.old_run = options->overwrite ? OldRun::kReplace : OldRun::kRefuse,
                            .resume = options->resume});
    };
  });
}

void add_plan(CLI::App& app, const std::shared_ptr<RunArguments>& options, Action& action) {
  CLI::App& plan = add_run_command(
      app, "plan",
      "Show every byte that a run takes, and predict its speed, before anything is allocated",
      *options);
  plan.add_option("--device-memory", options->device_memory, "memory.device_limit, such as 24GiB")
      ->check(size_in_bytes())
      ->type_name("SIZE");
  plan.add_option("--gpu", options->plan.gpu,
                  "plan for this GPU's memory and speed instead of this machine's: " + gpu_names())
      ->type_name("NAME");
  plan.add_option("--host-memory", options->host_memory, "memory.host_limit, such as 128GiB")
      ->check(size_in_bytes())
      ->type_name("SIZE");
  plan.add_option("--ranks", options->plan.ranks, "plan for rank 0 of so many, without a launcher")
      ->check(whole_number(1))
      ->type_name("COUNT");
  plan.add_option(
          "--ranks-per-node", options->plan.ranks_per_node,
          "so many of the ranks are on each host, all without this; without --gpu they share "
          "the host memory that this machine has now")
      ->check(whole_number(1))
      ->type_name("COUNT");
  CLI::Option& json = add_json(plan, options->plan.json);
  add_generation(plan, "plan for continuing prompts with the model, instead of training it",
                 options->generation, options->plan.generation);
  json.excludes(plan.get_option("--generate"));
  plan.callback([options, &action] {
    action = [options] {
      return plan_command(load(*options, TrainingData::kOptional), options->plan);
    };
  });
}

void add_tune(CLI::App& app, const std::shared_ptr<RunArguments>& options, Action& action) {
  CLI::App& command = *app.add_subcommand(
      "tune", "Find the fastest way to train a model on a machine, and write its config");
  TuneOptions& tune = options->tune;
  command
      .add_option(
          "model", tune.request.model,
          "folder of a Hugging Face model, its config.json, or a run config, of which every "
          "key that it gives stays")
      ->required();
  CLI::Option* const output =
      command.add_option("--output", tune.output, "write the best config to this file")
          ->type_name("FILE");
  command.add_flag("--overwrite", tune.overwrite, "replace a file that lies there")->needs(output);
  add_json(command, tune.plan.json);
  command
      .add_option(
          "--tokens", tune.request.tokens,
          "tokens of a step of all ranks; rows, sub_batches and passes of a config are then "
          "chosen anew")
      ->check(whole_number(1, kMostTokens))
      ->type_name("COUNT");
  command.add_option("--sequence-length", tune.request.sequence_length, "data.sequence_length")
      ->check(whole_number(1))
      ->type_name("TOKENS");
  command
      .add_option("--grad-clip", tune.request.grad_clip,
                  "optimizer.grad_clip, or none; 1 for a model without a run config")
      ->type_name("NORM|none");
  command
      .add_option("--allow", tune.request.allowed,
                  "a key that is chosen although the config gives it, or, optimizer.moment_dtype, "
                  "although it changes the numbers")
      ->type_name("KEY")
      ->allow_extra_args(false);
  command
      .add_option("--gpu", tune.plan.gpu,
                  "tune for this GPU's memory and speed instead of this machine's: " + gpu_names())
      ->type_name("NAME");
  command.add_option("--backend", tune.request.backend, "run.backend")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->type_name("NAME");
  command
      .add_option("--device-memory", options->device_memory, "memory.device_limit, such as 24GiB")
      ->check(size_in_bytes())
      ->type_name("SIZE");
  command.add_option("--host-memory", options->host_memory, "memory.host_limit, such as 128GiB")
      ->check(size_in_bytes())
      ->type_name("SIZE");
  command.add_option("--ranks", tune.plan.ranks, "tune for so many ranks, without a launcher")
      ->check(whole_number(1))
      ->type_name("COUNT");
  command
      .add_option("--ranks-per-node", tune.plan.ranks_per_node,
                  "so many of the ranks are on each host, all without this")
      ->check(whole_number(1))
      ->type_name("COUNT");
  CLI::Option* const measure =
      command
          .add_option("--measure", tune.measure,
                      "run so many of the best here, take the fastest, and store the rates that "
                      "were seen for later predictions")
          ->check(whole_number(1))
          ->type_name("COUNT");
  command
      .add_option("--steps", tune.steps, "steps that --measure measures of each, 3 without this")
      ->needs(measure)
      ->check(whole_number(1))
      ->type_name("COUNT");
  command
      .add_option("--threads", tune.threads,
                  "threads that predict, one for each usable core without this")
      ->check(whole_number(1, kMostThreads))
      ->type_name("COUNT");
  add_assignments(command, options->sets);
  command.callback([options, &action] {
    action = [options] {
      warn_of_replaced(options->sets);
      options->tune.request.sets = sets_of(*options);
      return tune_command(options->tune);
    };
  });
}

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

void add_bench(CLI::App& app, const std::shared_ptr<RunArguments>& options, Action& action) {
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
      return bench_command([options] { return load(*options, TrainingData::kOptional); },
                           options->bench);
    };
  });
}

}  // namespace

void add_run_commands(CLI::App& app, Action& action) {
  const auto options = std::make_shared<RunArguments>();
  add_train(app, options, action);
  add_plan(app, options, action);
  add_tune(app, options, action);
  add_bench(app, options, action);
}

}  // namespace strata
