// What an option takes stands in the placeholder that its help shows: what is written small are the
// words themselves, what is written large says their kind, as in auto|STEP|DIR.

#include "command_line/command_tree.h"

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/fields.h"
#include "strata/config/config.h"

namespace strata {

namespace {

bool is_word(const std::string& text) {
  const auto belongs = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !text.empty() && text[0] >= 'a' && text[0] <= 'z' && std::ranges::all_of(text, belongs);
}

ValueKind kind_of(const std::string& part) {
  constexpr std::pair<const char*, ValueKind> kKinds[] = {
      {"FILE", ValueKind::kFile},      {"PATH", ValueKind::kFile},
      {"DIR", ValueKind::kFolder},     {"FOLDER", ValueKind::kFolder},
      {"KEY", ValueKind::kKey},        {"KEY=VALUE", ValueKind::kSetting},
      {"COMMAND", ValueKind::kCommand}};
  for (const auto& [name, kind] : kKinds) {
    if (part == name) return kind;
  }
  return ValueKind::kNone;
}

/// Reads words and kind off the placeholder. FILE|DIR is a file, since what completes files
/// completes folders as well.
void read_placeholder(OptionText& option) {
  std::istringstream parts(option.placeholder);
  for (std::string part; std::getline(parts, part, '|');) {
    const ValueKind kind = kind_of(part);
    if (is_word(part)) {
      option.words.push_back(part);
    } else if (kind != ValueKind::kNone && option.kind != ValueKind::kFile) {
      option.kind = kind;
    }
  }
}

OptionText option_text(const CLI::Option& from) {
  OptionText option;
  option.description = from.get_description();
  option.required = from.get_required();
  option.repeated = from.get_expected_max() > 1;
  const bool argument = from.get_positional();
  if (argument) option.names.push_back(from.get_name(true));
  if (!argument) {
    for (const std::string& name : from.get_lnames()) option.names.push_back("--" + name);
    for (const std::string& name : from.get_snames()) option.names.push_back("-" + name);
  }
  if (from.get_type_size() == 0) return option;
  const std::string type = from.get_type_name();  // the checks of the value follow a colon
  option.placeholder = type.substr(0, type.find(':'));
  read_placeholder(option);
  // An argument of no other type names a file.
  if (argument && option.placeholder == "TEXT") option.kind = ValueKind::kFile;
  return option;
}

void collect_keys(const FieldList& fields, const std::string& prefix, std::vector<KeyText>& keys) {
  for (const Field& field : fields.all()) {
    const std::string path = prefix + field.key;
    if (field.type == FieldType::kSection) {
      collect_keys(field.section(), path + '.', keys);
      continue;
    }
    KeyText& key = keys.emplace_back();
    key.path = path;
    key.description = field.description.substr(0, field.description.find(". "));
    key.words = field.choices;
    if (field.type == FieldType::kBool) key.words = {"true", "false"};
    key.names_file = field.type == FieldType::kFiles || field.type == FieldType::kString;
  }
}

}  // namespace

CommandText command_tree(const CLI::App& app, const std::string& name) {
  CommandText command;
  command.name = name;
  command.description = app.get_description();
  for (const CLI::Option* option : app.get_options()) {
    (option->get_positional() ? command.arguments : command.options)
        .push_back(option_text(*option));
  }
  for (const CLI::App* inner : app.get_subcommands({})) {
    command.commands.push_back(command_tree(*inner, name + ' ' + inner->get_name()));
  }
  return command;
}

std::vector<KeyText> config_keys() {
  RunConfig config;
  std::vector<KeyText> keys;
  collect_keys(fields_of(config), "", keys);
  return keys;
}

std::string last_word(const CommandText& command) {
  return command.name.substr(command.name.rfind(' ') + 1);
}

}  // namespace strata
