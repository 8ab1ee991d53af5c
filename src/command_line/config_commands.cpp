// The commands that say what a run config may hold.

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "command_line/sub_commands.h"
#include "strata/base/describe_fields.h"
#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/suggestion.h"
#include "strata/base/text.h"
#include "strata/config/config.h"

namespace strata {

namespace {

/// Returns the help of a key, or of all in a section. Throws ConfigError, with what may be meant,
/// for an unknown one.
std::string help_of(const std::string& key) {
  RunConfig config;
  const FieldList fields = fields_of(config);
  std::istringstream lines(describe_fields(fields, help_columns()));
  std::string text;
  bool meant = false;
  for (std::string line; std::getline(lines, line);) {
    const bool is_head = !line.empty() && line[0] != ' ';
    if (is_head) {
      const std::string path = line.substr(0, line.find(' '));
      meant = path == key || path.starts_with(key + '.');
    }
    if (meant) text += line + '\n';
  }
  if (!text.empty()) return text;
  const ForeignName* const foreign = fields.find_foreign(key);
  if (foreign != nullptr && foreign->key.empty()) {
    throw ConfigError("config-help: there is no key " + key + "; " + foreign->remark);
  }
  if (foreign != nullptr && !foreign->key.starts_with('-')) return help_of(foreign->key);
  std::vector<std::string> paths;
  collect_paths(fields, "", paths);
  const auto nearest = nearest_path(key, paths);
  throw ConfigError(
      "config-help: there is no key " + printable_name(shortened(key)) +
      (nearest ? "; did you mean " + *nearest + "?" : "; strata config-help lists all"));
}

void add_config_help(CLI::App& app, Action& action) {
  CLI::App& help = *app.add_subcommand("config-help", "List the keys of a run config");
  const auto markdown = std::make_shared<bool>(false);
  const auto key = std::make_shared<std::string>();
  CLI::Option* const all = help.add_flag("--markdown", *markdown, "as docs/config.md has them");
  help.add_option("key", *key, "a key, such as optimizer.lr, or a section; all without it")
      ->excludes(all)
      ->type_name("KEY");
  help.callback([markdown, key, &action] {
    action = [markdown, key] {
      std::cout << (*markdown      ? config_reference()
                    : key->empty() ? describe_fields(RunConfig{}, help_columns())
                                   : help_of(*key));
      return 0;
    };
  });
}

void add_config_schema(CLI::App& app, Action& action) {
  CLI::App& schema = *app.add_subcommand(
      "config-schema", "Print the JSON Schema of a run config, by which editors complete it");
  schema.callback([&action] {
    action = [] {
      std::cout << config_schema();
      return 0;
    };
  });
}

}  // namespace

void add_config_commands(CLI::App& app, Action& action) {
  add_config_help(app, action);
  add_config_schema(app, action);
}

}  // namespace strata
