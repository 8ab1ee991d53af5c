// Reads the config of a run with what the command line changes in it, and declares the options that
// commands about a run share.

#include "command_line/run_arguments.h"

#include <filesystem>

#include "command_line/assignments.h"
#include "command_line/sub_commands.h"
#include "strata/base/fields.h"
#include "strata/base/log.h"
#include "strata/checkpoint/files.h"
#include "strata/config/assignments.h"
#include "strata/runfiles/named_adapter.h"

namespace strata {

namespace {

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

}  // namespace

std::vector<std::string> sets_of(const RunArguments& arguments) {
  std::vector<std::string> sets = arguments.sets;
  const auto set = [&sets](const std::string& key, const std::string& value) {
    if (!value.empty()) sets.push_back(key + '=' + value);
  };
  set("memory.device_limit", arguments.device_memory);
  set("memory.host_limit", arguments.host_memory);
  return sets;
}

RunConfig load_config(const RunArguments& arguments, TrainingData training_data) {
  warn_of_replaced(arguments.sets);
  /// Returns the model of the checkpoint that the run goes on from, or an empty path.
  const auto resumed_model = [&](const RunConfig& read) {
    return model_to_resume(*make_system_files(), arguments.resume,
                           arguments.output.empty() ? read.run.output : arguments.output);
  };
  const auto find_model = [&](const RunConfig& read) {
    const std::filesystem::path folder = resumed_model(read);
    if (!folder.empty()) {
      log::info("model.path: {} is not there; {} of the checkpoint takes its place",
                read.model.path, folder.string());
    }
    return folder;
  };
  const auto find_adapter = [&](const RunConfig& read) {
    const std::filesystem::path model = resumed_model(read);
    if (model.empty()) return find_start_adapter(read);
    FoundAdapter found = find_named_adapter(model.parent_path(), "--resume").found;
    found.folder = found.config.path;  // which may be gone, and is not read again
    return found;
  };
  RunConfig config = load_run_config(arguments.config, sets_of(arguments), training_data,
                                     {.model = find_model, .adapter = find_adapter});
  if (!arguments.output.empty()) config.run.output = arguments.output;
  config.validate(arguments.config);
  return config;
}

CLI::Option& add_json(CLI::App& command, std::string& json) {
  return *command
              .add_option("--json", json,
                          "also write what was found to this file, as JSON; -: to standard output")
              ->type_name("FILE");
}

CLI::App& add_run_command(CLI::App& app, const std::string& name, const std::string& description,
                          RunArguments& arguments) {
  CLI::App& command = *app.add_subcommand(name, description);
  command.add_option("config", arguments.config, "run config, a JSON file")->required();
  add_assignments(command, arguments.sets);
  command.footer([] { return sections_text(); });
  return command;
}

void add_size(CLI::App& command, const char* name, std::string& size, const char* description) {
  command.add_option(name, size, description)->check(size_in_bytes())->type_name("SIZE");
}

void add_generation(CLI::App& command, const std::string& description, GenerationJob& said,
                    std::optional<GenerationJob>& job) {
  CLI::Option* const generate = command.add_flag("--generate", description);
  constexpr std::int64_t kMostPrompts = 1'000'000'000;
  const auto add = [&](CLI::Option* option) { option->needs(generate); };
  add(add_count(command, "--prompts", said.load.sequences, "how many; 64 by default",
                kMostPrompts));
  add(add_count(command, "--prompt-tokens", said.load.prompt_tokens,
                "tokens of each prompt; 512 by default"));
  add(add_count(command, "--max-tokens", said.load.drawn_tokens,
                "tokens drawn after each; 128 by default"));
  add(add_count(command, "--batch", said.sequences,
                "prompts that are continued at once; chosen by default", kMostAtOnce));
  add(&add_kv_dtype(command, said.kv_dtype));
  command.parse_complete_callback([generate, &said, &job] {
    if (generate->count() > 0) job = said;
  });
}

}  // namespace strata
