// Zsh has _arguments, to which each option is one line that says what it excludes, what it does and
// what its value is.

#include <string>
#include <string_view>
#include <vector>

#include "command_line/shell_completion.h"

namespace strata {

namespace {

constexpr const char* kZshHelpers = R"sh(
# Completes the words $2... and what $1 names: file, folder or none.
_strata_value() {
  local kind=$1
  shift
  (( $# )) && compadd -- "$@"
  case $kind in
    file) _files ;;
    folder) _files -/ ;;
  esac
}

_strata_key() { _describe 'key of the config' _strata_keys }

# Completes KEY=VALUE: first the key, then what it may be.
_strata_setting() {
  if ! compset -P 1 '[^=]#='; then
    _describe 'key of the config' _strata_keys -S = -q
    return
  fi
  case ${${IPREFIX%=}##*=} in
)sh";

/// Returns the text within single quotes of the shell.
std::string in_zsh_quotes(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
    } else {
      result += c;
    }
  }
  return result + '\'';
}

/// Returns the text with what _arguments and _describe take for their own marked.
std::string escaped(std::string_view text, std::string_view marks) {
  std::string result;
  for (const char c : text) {
    if (marks.find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

std::string spaced(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += ' ' + word;
  return text;
}

std::string action_of(const OptionText& option, const CommandText& program) {
  if (option.kind == ValueKind::kSetting) return " _strata_setting";
  if (option.kind == ValueKind::kKey) return " _strata_key";
  std::vector<std::string> words = option.words;
  if (option.kind == ValueKind::kCommand) {
    for (const CommandText& command : program.commands) words.push_back(last_word(command));
  }
  const char* kind = option.kind == ValueKind::kFile     ? "file"
                     : option.kind == ValueKind::kFolder ? "folder"
                                                         : "none";
  return " _strata_value " + std::string(kind) + spaced(words);
}

/// Appends the lines of _arguments for the options of a command.
void add_options(const CommandText& command, const CommandText& program, std::string& text) {
  for (const OptionText& option : command.options) {
    const std::string about = '[' + escaped(option.description, "[]\\") + ']';
    for (const std::string& name : option.names) {
      std::string line = option.repeated ? "*" : "";
      line += name;
      if (!option.placeholder.empty()) {
        line += (name.starts_with("--") ? "=" : "") + about + ':' +
                escaped(option.placeholder, ":\\") + ':' + action_of(option, program);
      } else {
        line += about;
      }
      text += " \\\n    " + in_zsh_quotes(line);
    }
  }
}

std::string function_of(const CommandText& command) {
  std::string name = "_" + command.name;
  for (char& c : name) {
    if (c == ' ' || c == '-') c = '_';
  }
  return name + (command.name.find(' ') == std::string::npos ? "_program" : "_command");
}

void add_functions(const CommandText& command, const CommandText& program, std::string& text) {
  text += "\n" + function_of(command) + "() {\n";
  if (command.commands.empty()) {
    text += "  _arguments -s";
    add_options(command, program, text);
    for (std::size_t i = 0; i < command.arguments.size(); ++i) {
      const OptionText& argument = command.arguments[i];
      const std::string place = argument.repeated ? "*" : std::to_string(i + 1);
      text += " \\\n    " + in_zsh_quotes(place + ':' + escaped(argument.names.front(), ":\\") +
                                          ':' + action_of(argument, program));
    }
    text += "\n}\n";
    return;
  }
  text += "  local context state state_descr line\n  typeset -A opt_args\n  _arguments -C";
  add_options(command, program, text);
  text += " \\\n    '1:command:->command' \\\n    '*::argument:->argument'\n  case $state in\n";
  text += "    command)\n      local -a commands=(\n";
  for (const CommandText& inner : command.commands) {
    text += "        " + in_zsh_quotes(last_word(inner) + ':' + escaped(inner.description, ":\\")) +
            '\n';
  }
  text += "      )\n      _describe command commands ;;\n    argument)\n      case $words[1] in\n";
  for (const CommandText& inner : command.commands) {
    text += "        " + last_word(inner) + ") " + function_of(inner) + " ;;\n";
  }
  text += "      esac ;;\n  esac\n}\n";
  for (const CommandText& inner : command.commands) add_functions(inner, program, text);
}

}  // namespace

std::string zsh_completion(const CommandText& program, const std::vector<KeyText>& keys) {
  std::string text =
      "#compdef strata\n# zsh completion of strata, written by `strata completions "
      "zsh`: put it as _strata into a folder of $fpath.\n\n";
  text += "typeset -ga _strata_keys=(\n";
  for (const KeyText& key : keys) {
    text += "  " + in_zsh_quotes(key.path + ':' + escaped(key.description, ":\\")) + '\n';
  }
  text += ")\n";
  text += kZshHelpers;
  for (const KeyText& key : keys) {
    if (key.words.empty() && !key.names_file) continue;
    text += "    " + key.path + ") _strata_value " + (key.names_file ? "file" : "none") +
            spaced(key.words) + " ;;\n";
  }
  text += "  esac\n}\n";
  add_functions(program, program, text);
  text += "\n_strata() { " + function_of(program) + " \"$@\" }\n\n";
  // Loaded by itself as the function _strata, or by source.
  text +=
      "if [[ $funcstack[1] == _strata ]]; then _strata \"$@\"; else compdef _strata strata; fi\n";
  return text;
}

}  // namespace strata
