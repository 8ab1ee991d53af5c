// Finds what somebody may have meant who typed something else.

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "command_line/sub_commands.h"
#include "strata/base/fields.h"
#include "strata/base/suggestion.h"
#include "strata/config/config.h"

namespace strata {

namespace {

/// Returns the --set that a word names the key of, by its path, its last part if no other key ends
/// so, or its name in another program; or nothing. `value` is "=" and what is given, or empty.
std::string meant_key(std::string word, const std::string& value) {
  RunConfig config;
  const FieldList fields = fields_of(config);
  std::vector<std::string> keys;
  collect_paths(fields, "", keys);
  std::ranges::replace(word, '-', '_');
  const ForeignName* const foreign = fields.find_foreign(word);
  if (foreign != nullptr) {
    const bool is_key = !foreign->key.empty() && !foreign->key.starts_with('-');
    return is_key ? "--set " + foreign->key + "=VALUE" : "";
  }
  std::erase_if(keys, [&](const std::string& k) {
    const bool section = fields.find(k) != nullptr;  // and no key has its name without a dot
    return section || (k != word && !k.ends_with('.' + word));
  });
  if (keys.size() != 1) return "";
  return "--set " + keys[0] + (value.empty() ? "=VALUE" : value);
}

/// Returns what the user probably meant by an option that `command` does not have, or nothing.
std::string meant_option(const CLI::App& command, const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  if (command.get_option_no_throw("--set") != nullptr) {
    std::string set = meant_key(name.substr(2), argument.substr(name.size()));
    if (!set.empty()) return set;
  }
  std::vector<std::string> options;
  for (const CLI::Option* option : command.get_options()) options.push_back(option->get_name());
  return nearest_path(name, options).value_or("");
}

const CLI::App* find_command(const CLI::App& group, const std::string& name) {
  for (const CLI::App* command : group.get_subcommands({})) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

/// Returns the command, or option, below `path` that was probably meant by a name, or nothing.
std::string meant_command(const CLI::App& group, const std::string& name, const std::string& path) {
  std::vector<std::string> names;
  for (const CLI::App* command : group.get_subcommands({})) names.push_back(command->get_name());
  for (const CLI::Option* option : group.get_options()) names.push_back(option->get_name());
  if (std::ranges::count(names, "--" + name) != 0) return path + " --" + name;
  const auto begins = [&](const std::string& known) { return known.starts_with(name); };
  if (name.size() > 2 && std::ranges::count_if(names, begins) == 1) {
    return path + ' ' + *std::ranges::find_if(names, begins);
  }
  const auto nearest = nearest_path(name, names);
  return nearest ? path + ' ' + *nearest : "";
}

/// Returns what was probably meant by the arguments of a command, of which the first is its name.
std::string meant_arguments(const CLI::App& command, std::span<const std::string> arguments) {
  const bool takes_keys = command.get_option_no_throw("--set") != nullptr;
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
    } else if (assigns && i > 1 && takes_keys) {
      return "--set " + argument;
    }
  }
  return "";
}

}  // namespace

std::string meant(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* command = &app;
  std::string path = "strata";
  std::size_t depth = 0;
  for (; depth < arguments.size() && !command->get_subcommands({}).empty(); ++depth) {
    const std::string& name = arguments[depth];
    const CLI::App* const next = find_command(*command, name);
    if (next == nullptr) return meant_command(*command, name, path);
    command = next;
    path += ' ' + name;
  }
  if (depth == 0) return "";
  return meant_arguments(*command, std::span(arguments).subspan(depth - 1));
}

}  // namespace strata
