// The commands as a tree of plain texts, read off the parser that reads the command line. Man pages
// and the completion of shells are written from it, so that they cannot name an option that the
// program does not have.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace strata {

/// What else than the words of an option may stand as its value.
enum class ValueKind : std::uint8_t {
  kNone,     ///< nothing that a shell could know
  kFile,     ///< a file or a folder
  kFolder,   ///< a folder
  kKey,      ///< a key of the run config
  kSetting,  ///< KEY=VALUE of the run config
  kCommand,  ///< a command of the program
};

/// An option, or an argument without a name.
struct OptionText {
  std::vector<std::string> names;  ///< "--output", "-h"; of an argument its name alone
  std::string description;
  std::string placeholder;         ///< "DIR", "auto|yes|no"; empty for a flag
  std::vector<std::string> words;  ///< values that the placeholder spells out
  ValueKind kind = ValueKind::kNone;
  bool required = false;
  bool repeated = false;
  bool operator==(const OptionText&) const = default;
};

struct CommandText {
  std::string name;  ///< the whole of it: "strata tokenizer train"
  std::string description;
  std::vector<OptionText> arguments;
  std::vector<OptionText> options;
  std::vector<CommandText> commands;
  bool operator==(const CommandText&) const = default;
};

/// Returns the texts of `app`, whose whole name is `name`, and of all that is below it.
[[nodiscard]] CommandText command_tree(const CLI::App& app, const std::string& name);

/// A key of the run config, with the values that a shell can complete.
struct KeyText {
  std::string path;
  std::string description;  ///< its first sentence
  std::vector<std::string> words;
  bool names_file = false;
};
/// Returns the keys of the run config that are no sections.
[[nodiscard]] std::vector<KeyText> config_keys();

/// Returns the last word of a command's name.
[[nodiscard]] std::string last_word(const CommandText& command);

}  // namespace strata
