// Finds what somebody may have meant who typed something else.

#include <algorithm>

#include "command_line/sub_commands.h"
#include "strata/base/fields.h"
#include "strata/base/suggestion.h"
#include "strata/config/config.h"

namespace strata {

namespace {

/// Returns what the user probably meant by an option that `command` does not have, or nothing.
std::string meant_option(const CLI::App& command, const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  RunConfig config;
  const FieldList fields = fields_of(config);
  std::vector<std::string> keys;
  collect_paths(fields, "", keys);
  const bool takes_keys = command.get_option_no_throw("--set") != nullptr;
  if (std::ranges::count(keys, name.substr(2)) != 0) return "--set " + argument.substr(2);
  std::string word = name.substr(2);
  std::ranges::replace(word, '-', '_');
  const ForeignName* foreign = fields.find_foreign(word);
  if (takes_keys && foreign != nullptr && !foreign->key.starts_with('-')) {
    return "--set " + foreign->key + "=VALUE";
  }
  std::vector<std::string> options;
  for (const CLI::Option* option : command.get_options()) options.push_back(option->get_name());
  return nearest_path(name, options).value_or("");
}

}  // namespace

std::string meant(const CLI::App& app, const std::vector<std::string>& arguments) {
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands({})) commands.push_back(command->get_name());
  if (arguments.empty()) return "";
  if (std::ranges::count(commands, arguments[0]) == 0) {
    commands.emplace_back("--help");
    const auto nearest = nearest_path(arguments[0], commands);
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

}  // namespace strata
