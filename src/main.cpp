// The command line: declares the sub-commands, reads the run config that they name and calls their
// functions in the layer of commands. What they throw becomes a line on standard error and an exit
// code.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/version.h"
#include "strata/commands/commands.h"
#include "strata/config/config.h"
#include "strata/device/gpu_models.h"

namespace {

using strata::RunConfig;

/// What the command line says about a run, beside its config file.
struct RunArguments {
  std::string config;
  std::vector<std::string> sets;
  std::string output;
  std::string device_memory;
  std::string host_memory;
  bool overwrite = false;
  strata::BenchOptions bench;
  strata::PlanOptions plan;
};

/// Reads the run config with what the command line changes in it, and validates it.
RunConfig load(const RunArguments& arguments, strata::TrainingData training_data) {
  RunConfig config = strata::load_run_config(arguments.config, arguments.sets, training_data);
  if (!arguments.output.empty()) config.run.output = arguments.output;
  if (!arguments.device_memory.empty()) {
    config.memory.device_limit = strata::ByteSize{strata::parse_bytes(arguments.device_memory)};
  }
  if (!arguments.host_memory.empty()) {
    config.memory.host_limit = strata::ByteSize{strata::parse_bytes(arguments.host_memory)};
  }
  config.validate(arguments.config);
  return config;
}

/// Declares a sub-command that reads a run config.
CLI::App& add_run_command(CLI::App& app, const std::string& name, const std::string& description,
                          RunArguments& arguments) {
  CLI::App& command = *app.add_subcommand(name, description);
  command.add_option("config", arguments.config, "run config, a JSON file")->required();
  command
      .add_option("--set", arguments.sets, "change a key of the config, as in --set run.steps=1000")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command.footer([] { return "Keys of the config:\n" + strata::describe_fields(RunConfig{}); });
  return command;
}

/// Declares all sub-commands; the one that the arguments name sets `action`.
class CommandLine {
 public:
  explicit CommandLine(CLI::App& app) {
    app.require_subcommand(1);
    app.set_version_flag("--version", strata::describe(strata::build_info()),
                         "Print version, commit and what was built in");
    add_train(app);
    add_plan(app);
    add_bench(app);
    add_tokenize(app);
    add_config_help(app);
  }
  [[nodiscard]] int run() const { return action_(); }

 private:
  void add_train(CLI::App& app) {
    CLI::App& train = add_run_command(app, "train", "Train a model", run_);
    train.add_option("--output", run_.output, "run folder (run.output)")->type_name("DIR");
    train.add_flag("--overwrite", run_.overwrite, "replace the run that is in the run folder");
    train.callback([this] {
      action_ = [this] {
        return strata::train_command(
            load(run_, strata::TrainingData::kRequired),
            run_.overwrite ? strata::OldRun::kReplace : strata::OldRun::kRefuse);
      };
    });
  }
  void add_plan(CLI::App& app) {
    CLI::App& plan = add_run_command(
        app, "plan",
        "Show every byte that a run takes, and predict its speed, before anything is allocated",
        run_);
    plan.add_option("--device-memory", run_.device_memory, "memory.device_limit, such as 24GiB")
        ->type_name("SIZE");
    plan.add_option("--gpu", run_.plan.gpu,
                    "plan for this GPU's memory and speed instead of this machine's: " +
                        strata::gpu_names())
        ->type_name("NAME");
    plan.add_option("--host-memory", run_.host_memory, "memory.host_limit, such as 128GiB")
        ->type_name("SIZE");
    plan.callback([this] {
      action_ = [this] {
        return strata::plan_command(load(run_, strata::TrainingData::kOptional), run_.plan);
      };
    });
  }
  void add_bench(CLI::App& app) {
    CLI::App& bench =
        add_run_command(app, "bench", "Measure steps on synthetic tokens: speed and peaks", run_);
    bench.add_option("--json", run_.bench.json, "also write the results to this file")
        ->type_name("FILE");
    bench.callback([this] {
      action_ = [this] {
        return strata::bench_command(load(run_, strata::TrainingData::kOptional), run_.bench);
      };
    });
  }
  void add_tokenize(CLI::App& app) {
    CLI::App& tokenize = *app.add_subcommand(
        "tokenize", "Make token files of UTF-8 text with the byte tokenizer (vocabulary 257)");
    tokenize.add_option("input", tokenize_.inputs, "text files, and folders to search")->required();
    tokenize.add_option("--output", tokenize_.output, "token file of the training set")
        ->required()
        ->type_name("FILE");
    tokenize
        .add_option("--validation-output", tokenize_.validation_output,
                    "token file of the validation set")
        ->type_name("FILE");
    tokenize
        .add_option("--validation-fraction", tokenize_.validation_fraction,
                    "share of the documents that goes to the validation set")
        ->type_name("0..1");
    tokenize
        .add_option("--extension", tokenize_.extensions,
                    "ending of the files taken from folders instead of .txt .text .md .rst; may be "
                    "repeated")
        ->type_name(".EXT")
        ->allow_extra_args(false);
    tokenize.add_flag("--overwrite", tokenize_.overwrite,
                      "replace outputs that are there and are not token files");
    tokenize.add_flag("--as-text", tokenize_.as_text,
                      "take what looks like JSON or another format for text, if it is valid UTF-8");
    tokenize.callback([this] { action_ = [this] { return strata::tokenize_command(tokenize_); }; });
  }
  void add_config_help(CLI::App& app) {
    CLI::App& help = *app.add_subcommand("config-help", "List the keys of a run config");
    help.add_flag("--markdown", markdown_, "as docs/config.md has them");
    help.callback([this] {
      action_ = [this] {
        std::cout << (markdown_ ? strata::config_reference()
                                : strata::describe_fields(RunConfig{}));
        return 0;
      };
    });
  }

  RunArguments run_;
  strata::TokenizeOptions tokenize_;
  bool markdown_ = false;
  std::function<int()> action_;
};

/// Prints why the program ends and returns its exit code.
int fail(const std::string& message, int exit_code) {
  std::cerr << "strata: " << message << '\n';
  return exit_code;
}

int run_program(int argc, char** argv) {
  CLI::App app("strata trains LLaMA models whose state is larger than GPU memory");
  try {
    CommandLine commands(app);
    app.parse(argc, argv);
    return commands.run();
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : strata::ConfigError("").exit_code();
  } catch (const strata::Error& e) {
    return fail(e.what(), e.exit_code());
  } catch (const std::bad_alloc&) {
    return fail("the system refused memory; lower memory.host_limit or the model's size",
                strata::OutOfMemory("").exit_code());
  } catch (const std::exception& e) {
    return fail(e.what(), 1);
  }
}

/// Returns whether everything that went to standard output has arrived there.
bool output_arrived() {
  return std::cout.flush().good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int code = run_program(argc, argv);
  if (code != 0 || output_arrived()) return code;
  return fail("standard output could not be written; is the disk full?", 1);
}
