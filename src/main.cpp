// The command line: declares the sub-commands, reads the run config that they name and calls their
// functions in the layer of commands. What they throw becomes a line on standard error and an exit
// code.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/log.h"
#include "strata/base/suggestion.h"
#include "strata/base/text.h"
#include "strata/base/version.h"
#include "strata/commands/commands.h"
#include "strata/config/config.h"
#include "strata/data/tokenize.h"
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
  strata::ResumeRequest resume;
  strata::BenchOptions bench;
  strata::PlanOptions plan;
};

/// Says which assignments a later one of the same key replaces.
void warn_of_replaced(const std::vector<std::string>& sets) {
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const std::string key = sets[i].substr(0, sets[i].find('=') + 1);
    for (std::size_t j = sets.size() - 1; j > i; --j) {
      if (!sets[j].starts_with(key) || sets[j] == sets[i]) continue;
      const auto shown = [](const std::string& text) {  // the log is not configured yet
        return strata::printable(strata::shortened(text));
      };
      strata::log::warn("--set {} is replaced by the later --set {}", shown(sets[i]),
                        shown(sets[j]));
      break;
    }
  }
}

/// Reads the run config with what the command line changes in it, and validates it.
RunConfig load(const RunArguments& arguments, strata::TrainingData training_data) {
  warn_of_replaced(arguments.sets);
  std::vector<std::string> sets = arguments.sets;
  const auto set = [&sets](const std::string& key, const std::string& value) {
    if (!value.empty()) sets.push_back(key + '=' + value);
  };
  set("memory.device_limit", arguments.device_memory);
  set("memory.host_limit", arguments.host_memory);
  RunConfig config = strata::load_run_config(arguments.config, sets, training_data);
  if (!arguments.output.empty()) config.run.output = arguments.output;
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
  command.footer([] {
    return "Keys of the config:\n" + strata::describe_fields(RunConfig{}, strata::help_columns());
  });
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
    add_tokenizer(app);
    add_inspect(app);
    add_export(app);
    add_import(app);
    add_config_help(app);
  }
  [[nodiscard]] int run() const { return action_(); }

 private:
  void add_train(CLI::App& app) {
    CLI::App& train = add_run_command(app, "train", "Train a model", run_);
    train.add_option("--output", run_.output, "run folder (run.output)")->type_name("DIR");
    train.add_flag("--overwrite", run_.overwrite, "replace the run that is in the run folder");
    train
        .add_option(
            "--resume", run_.resume.from,
            "go on from a checkpoint: auto, the newest whole one of the run folder if there "
            "is one; a step of it; or the folder of a checkpoint or of another run")
        ->type_name("auto|STEP|DIR");
    train
        .add_option("--allow", run_.resume.allowed,
                    "a key that may differ from the checkpoint's though it changes the numbers")
        ->type_name("KEY")
        ->allow_extra_args(false);
    train.callback([this] {
      action_ = [this] {
        return strata::train_command(
            [this] { return load(run_, strata::TrainingData::kRequired); },
            {.old_run = run_.overwrite ? strata::OldRun::kReplace : strata::OldRun::kRefuse,
             .resume = run_.resume});
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
    plan.add_option("--ranks", run_.plan.ranks, "plan for rank 0 of so many, without a launcher")
        ->check(CLI::PositiveNumber)
        ->type_name("COUNT");
    plan.add_option(
            "--ranks-per-node", run_.plan.ranks_per_node,
            "so many of the ranks are on each host, all without this; without --gpu they share "
            "the host memory that this machine has now")
        ->check(CLI::PositiveNumber)
        ->type_name("COUNT");
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
        return strata::bench_command([this] { return load(run_, strata::TrainingData::kOptional); },
                                     run_.bench);
      };
    });
  }
  void add_tokenize(CLI::App& app) {
    CLI::App& tokenize = *app.add_subcommand(
        "tokenize",
        "Make token files of UTF-8 text, by bytes (vocabulary 257) or with a model's tokenizer");
    tokenize
        .add_option("input", tokenize_.inputs,
                    "files of text or JSON lines, also packed by gzip or zstd; folders to search; "
                    "- for standard input")
        ->required();
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
                    "ending of the files taken from folders, before .gz or .zst, instead of .txt "
                    ".text .md .rst; may be repeated")
        ->type_name(".EXT")
        ->allow_extra_args(false);
    tokenize
        .add_option("--tokenizer", tokenize_.tokenizer,
                    "the file of a model's tokenizer, or its folder, instead of bytes")
        ->type_name("PATH");
    const auto add_put = [&](const char* name, strata::PutToken& put, const char* description) {
      const auto set = [&put](const std::string& text) {
        put = text == "yes"  ? strata::PutToken::kAlways
              : text == "no" ? strata::PutToken::kNever
                             : strata::PutToken::kAuto;
      };
      tokenize.add_option_function<std::string>(name, set, description)
          ->check(CLI::IsMember({"auto", "yes", "no"}))
          ->type_name("auto|yes|no");
    };
    add_put("--bos", tokenize_.bos,
            "begin documents with the tokenizer's bos token; auto: if it begins texts so");
    add_put("--eos", tokenize_.eos,
            "end documents with its eos token; auto: if tokenizer_config.json names one");
    tokenize.add_flag("--parse-special", tokenize_.parse_special,
                      "take texts of special tokens in documents for these tokens");
    tokenize.add_flag("--overwrite", tokenize_.overwrite,
                      "replace outputs that are there and are not token files");
    tokenize
        .add_option_function<std::string>(
            "--format",
            [this](const std::string& text) {
              tokenize_.format = text == "text"    ? strata::InputFormat::kText
                                 : text == "jsonl" ? strata::InputFormat::kRecords
                                                   : strata::InputFormat::kAuto;
            },
            "text, also if it looks like JSON or another format; jsonl: a record on each line; "
            "auto: by names and first bytes")
        ->check(CLI::IsMember({"auto", "text", "jsonl"}))
        ->type_name("auto|text|jsonl");
    tokenize
        .add_option("--text-field", tokenize_.text_field,
                    "member of a record that is the text, instead of \"text\"")
        ->type_name("NAME");
    tokenize
        .add_option("--threads", tokenize_.threads,
                    "threads that encode, which change no byte; 0: as many as there are cores")
        ->type_name("COUNT");
    tokenize.callback([this] { action_ = [this] { return strata::tokenize_command(tokenize_); }; });
  }
  void add_tokenizer(CLI::App& app) {
    CLI::App& tokenizer = *app.add_subcommand(
        "tokenizer", "Train a tokenizer, or show what that of a model holds and does");
    tokenizer.require_subcommand(1);
    const auto add = [&](const std::string& name, const std::string& description, auto command) {
      CLI::App& added = *tokenizer.add_subcommand(name, description);
      added
          .add_option(
              "tokenizer", tokenizer_.tokenizer,
              "a tokenizer.json, tokenizer.model, tekken.json or .tiktoken file, or its folder")
          ->required();
      added.callback(
          [this, command] { action_ = [this, command] { return command(tokenizer_); }; });
      return &added;
    };
    add("inspect", "Print size and hash of the vocabulary", strata::tokenizer_inspect_command);
    CLI::App* encode =
        add("encode", "Print the ids of a text on one line", strata::tokenizer_encode_command);
    encode->add_option("input", tokenizer_.input, "a file in UTF-8, or - for standard input");
    encode->add_flag("--parse-special", tokenizer_.parse_special,
                     "take the texts of special tokens for these tokens");
    encode->add_flag("--add-special", tokenizer_.add_special,
                     "add what the post-processor puts around a text");
    CLI::App* decode = add("decode", "Print the text of ids", strata::tokenizer_decode_command);
    decode->add_option("input", tokenizer_.input, "a file of ids, or - for standard input");
    decode->add_flag("--skip-special", tokenizer_.skip_special, "leave special tokens out");
    add_tokenizer_train(tokenizer);
  }
  void add_tokenizer_train(CLI::App& tokenizer) {
    CLI::App& train = *tokenizer.add_subcommand(
        "train", "Make a tokenizer of UTF-8 text: byte-level BPE, as tokenizer.json");
    strata::TrainTokenizerOptions& options = train_tokenizer_.options;
    train.add_option("input", options.inputs, "text files, and folders to search")->required();
    train.add_option("--output", train_tokenizer_.output, "the folder that is made")
        ->required()
        ->type_name("FOLDER");
    train
        .add_option("--vocab-size", options.training.vocabulary,
                    "ids in all: special tokens, 256 bytes and merges (default 32000)")
        ->type_name("N");
    train
        .add_option("--split", options.training.split,
                    "how texts are cut before pairs are merged: " + strata::split_names() +
                        " (default llama3)")
        ->type_name("NAME");
    train
        .add_option("--eos", options.training.eos,
                    "special token that ends texts (default <|endoftext|>); \"\": none")
        ->type_name("TOKEN");
    train
        .add_option("--special", options.training.special, "another special token; may be repeated")
        ->type_name("TOKEN")
        ->allow_extra_args(false);
    train
        .add_option("--extension", options.extensions,
                    "ending of the files taken from folders instead of .txt .text .md .rst; may be "
                    "repeated")
        ->type_name(".EXT")
        ->allow_extra_args(false);
    train.add_option("--threads", options.threads, "threads that count (default: all cores)")
        ->check(CLI::PositiveNumber)
        ->type_name("N");
    train
        .add_option_function<std::string>(
            "--format", [&options](const std::string& text) { options.as_text = text == "text"; },
            "text: take what looks like JSON or another format for text, if it is valid UTF-8")
        ->check(CLI::IsMember({"auto", "text"}))
        ->type_name("auto|text");
    train.add_flag("--overwrite", train_tokenizer_.overwrite,
                   "replace a tokenizer that lies in the output folder");
    train.callback(
        [this] { action_ = [this] { return strata::tokenizer_train_command(train_tokenizer_); }; });
  }
  void add_inspect(CLI::App& app) {
    CLI::App& inspect = *app.add_subcommand(
        "inspect", "Show what a checkpoint or a model holds, and verify its files");
    inspect
        .add_option("path", inspect_.path,
                    "a checkpoint, a run folder (its newest whole checkpoint is shown), or the "
                    "folder of a Hugging Face model")
        ->required();
    CLI::Option* verify =
        inspect.add_flag("--verify", inspect_.verify,
                         "read every byte of the checkpoint and compare it with the manifest");
    inspect.add_flag(
        "--files", inspect_.every_file,
        "list every file and tensor, also those of layers that are alike; with --step, "
        "every sample");
    inspect.add_flag("--json", inspect_.json, "print one JSON object, with every file and tensor");
    CLI::Option* step =
        inspect
            .add_option("--step", inspect_.step,
                        "list the samples that this step trained on or will train on instead, with "
                        "their places in the training set")
            ->type_name("STEP");
    step->excludes(verify);
    inspect
        .add_option("--ranks", inspect_.ranks,
                    "on how many ranks that step is; by default, what the checkpoint tells")
        ->type_name("COUNT");
    inspect.callback([this] { action_ = [this] { return strata::inspect_command(inspect_); }; });
  }
  void add_export(CLI::App& app) {
    CLI::App& command = *app.add_subcommand(
        "export",
        "Make a Hugging Face model of a checkpoint, in bf16 or with the exact f32 masters");
    command
        .add_option("checkpoint", export_.checkpoint,
                    "a checkpoint, or a run folder, whose newest whole one is taken")
        ->required();
    command.add_option("folder", export_.to, "the folder to make")->required();
    command
        .add_option("--dtype", export_.dtype,
                    "of the weights: bf16, or f32, which is exact where the checkpoint has low "
                    "halves; what the checkpoint holds in more digits is rounded to nearest")
        ->check(CLI::IsMember({"bf16", "f32"}))
        ->type_name("bf16|f32")
        ->capture_default_str();
    command.add_flag("--overwrite", export_.overwrite, "replace the model that is in the folder");
    command.callback([this] { action_ = [this] { return strata::export_command(export_); }; });
  }
  void add_import(CLI::App& app) {
    CLI::App& command =
        *app.add_subcommand("import", "Make a model as export writes it of any Hugging Face model");
    command.add_option("source", import_.from, "the folder of a Hugging Face model")->required();
    command.add_option("folder", import_.to, "the folder to make")->required();
    command
        .add_option("--dtype", import_.dtype,
                    "of the weights: bf16 or f32; by default bf16 if all weights of the model are, "
                    "else f32. What the model holds in more digits is rounded to nearest")
        ->check(CLI::IsMember({"bf16", "f32"}))
        ->type_name("bf16|f32");
    command.add_flag("--overwrite", import_.overwrite, "replace the model that is in the folder");
    command.callback([this] { action_ = [this] { return strata::import_command(import_); }; });
  }
  void add_config_help(CLI::App& app) {
    CLI::App& help = *app.add_subcommand("config-help", "List the keys of a run config");
    help.add_flag("--markdown", markdown_, "as docs/config.md has them");
    help.callback([this] {
      action_ = [this] {
        std::cout << (markdown_ ? strata::config_reference()
                                : strata::describe_fields(RunConfig{}, strata::help_columns()));
        return 0;
      };
    });
  }

  RunArguments run_;
  strata::TokenizeOptions tokenize_;
  strata::TokenizerOptions tokenizer_;
  strata::TrainTokenizerCommand train_tokenizer_;
  strata::InspectOptions inspect_;
  strata::ExportOptions export_;
  strata::ImportOptions import_;
  bool markdown_ = false;
  std::function<int()> action_;
};

/// Returns what the user probably meant by an option that `command` does not have, or nothing.
std::string meant_option(const CLI::App& command, const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  RunConfig config;
  std::vector<std::string> keys;
  strata::collect_paths(strata::fields_of(config), "", keys);
  if (std::ranges::count(keys, name.substr(2)) != 0) return "--set " + argument.substr(2);
  std::vector<std::string> options;
  for (const CLI::Option* option : command.get_options()) options.push_back(option->get_name());
  return strata::nearest_path(name, options).value_or("");
}

/// Returns what the user probably meant by arguments that could not be understood, or nothing.
std::string meant(const CLI::App& app, const std::vector<std::string>& arguments) {
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands({})) commands.push_back(command->get_name());
  if (arguments.empty()) return "";
  if (std::ranges::count(commands, arguments[0]) == 0) {
    commands.emplace_back("--help");
    const auto nearest = strata::nearest_path(arguments[0], commands);
    return nearest ? "strata " + *nearest : "";
  }
  const CLI::App& command = *app.get_subcommand(arguments[0]);
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const bool assigns = argument.find('=') != std::string::npos;
    if (arguments[i - 1] == "--set") {
      const bool split = !assigns && i + 1 < arguments.size() && !arguments[i + 1].starts_with('-');
      if (split) return "--set " + argument + '=' + arguments[i + 1];
    } else if (argument.starts_with("--")) {
      if (command.get_option_no_throw(argument.substr(0, argument.find('='))) != nullptr) continue;
      const std::string option = meant_option(command, argument);
      if (!option.empty()) return option;
    } else if (assigns && i > 1 && command.get_option_no_throw("--set") != nullptr) {
      return "--set " + argument;
    }
  }
  return "";
}

/// Prints why the program ends and returns its exit code.
int fail(const strata::Failure& failure) {
  std::cerr << "strata: " << strata::printable(failure.text) << '\n';
  return failure.exit_code;
}

/// Prints what the command line is wrong about; help, which is asked for by an exception as well,
/// goes to standard output.
int fail(const CLI::App& app, const CLI::ParseError& error,
         const std::vector<std::string>& arguments) {
  if (error.get_name() == "CallForHelp") {
    std::cout << strata::wrapped_lines(app.help(), strata::help_columns());
    return 0;
  }
  if (error.get_exit_code() == 0) return app.exit(error);  // --version
  std::string text = strata::shortened(error.what(), 2 * strata::kMostShown);
  const std::string instead = meant(app, arguments);
  if (!instead.empty()) text += "; did you mean " + strata::shortened(instead) + "?";
  return fail(
      {text + "\nRun with --help for more information.", strata::ConfigError("").exit_code()});
}

/// Throws ConfigError for an argument that is no text: it would go into files that have to be.
void require_text(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (strata::valid_utf8_bytes(arguments[i]) == arguments[i].size()) continue;
    throw strata::ConfigError("argument " + std::to_string(i + 1) +
                              " is not valid UTF-8; rename the file, or write it in UTF-8");
  }
}

int run_program(int argc, char** argv) {
  CLI::App app("strata trains LLaMA models whose state is larger than GPU memory", "strata");
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  try {
    require_text(arguments);
    CommandLine commands(app);
    app.parse(argc, argv);
    return commands.run();
  } catch (const CLI::ParseError& e) {
    return fail(app, e, arguments);
  } catch (const std::exception&) {
    return fail(strata::current_failure());
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
  return fail({"standard output could not be written; is the disk full?", 1});
}
