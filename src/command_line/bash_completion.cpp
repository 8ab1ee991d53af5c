// Bash splits words at '=', so the script joins them again, completes the whole word, and gives
// bash the part that follows its last split.

#include <string>
#include <vector>

#include "command_line/shell_completion.h"

namespace strata {

namespace {

constexpr const char* kHead =
    R"sh(# bash completion of strata, written by `strata completions bash`.

# Completes $cur by the words of $1, and by what $2 names: file, folder or nothing.
_strata_reply() {
  local found
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
  case ${2:-} in
    file) mapfile -t found < <(compgen -f -- "$cur") ;;
    folder) mapfile -t found < <(compgen -d -- "$cur") ;;
    *) return ;;
  esac
  COMPREPLY+=("${found[@]}")
  compopt -o filenames 2>/dev/null
}

# Completes KEY=VALUE: first the key, then what it may be.
_strata_setting() {
  local key=${cur%%=*} i
  if [[ $cur != *=* ]]; then
    mapfile -t COMPREPLY < <(compgen -S = -W "$_strata_keys" -- "$cur")
    compopt -o nospace 2>/dev/null
    return
  fi
  cur=${cur#*=}
  _strata_value "$key"
  for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=$key=${COMPREPLY[i]}; done
}

)sh";

constexpr const char* kBody = R"sh(
_strata() {
  local cur prev word before='' split='' command='' i
  local -a words=()
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if ((i > 1)) && [[ $word == = || ${COMP_WORDS[i - 1]} == = ]]; then
      words[-1]+=$word
    else
      words+=("$word")
    fi
  done
  cur=${words[-1]}
  # What bash has split off ahead of its own last word is no part of a reply.
  if [[ $COMP_WORDBREAKS == *=* && $cur == *=* ]]; then split=${cur%=*}=; fi
  prev=${words[-2]}
  if [[ $cur == --*=* ]]; then
    prev=${cur%%=*} before=$prev= cur=${cur#*=}
  fi
  COMPREPLY=()
  for word in "${words[@]:1:${#words[@]}-2}"; do
    [[ $word == -* ]] || _strata_enter "$word" || break
  done
  _strata_complete
  for i in "${!COMPREPLY[@]}"; do
    word=$before${COMPREPLY[i]}
    COMPREPLY[i]=${word#"$split"}
  done
}
complete -F _strata strata
)sh";

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::vector<std::string> names_of(const std::vector<CommandText>& commands) {
  std::vector<std::string> names;
  for (const CommandText& command : commands) names.push_back(last_word(command));
  return names;
}

const char* file_argument(ValueKind kind) {
  return kind == ValueKind::kFile ? " file" : kind == ValueKind::kFolder ? " folder" : "";
}

/// Returns the command that completes the value of an option, or an argument.
std::string completion_of(const OptionText& option, const CommandText& program) {
  if (option.kind == ValueKind::kSetting) return "_strata_setting";
  if (option.kind == ValueKind::kKey) return "_strata_reply \"$_strata_keys\"";
  std::vector<std::string> words = option.words;
  if (option.kind == ValueKind::kCommand) words = names_of(program.commands);
  return "_strata_reply '" + joined(words) + "'" + file_argument(option.kind);
}

/// Appends the cases of `_strata_complete` for a command and for all below it.
void add_cases(const CommandText& command, const CommandText& program, std::string& text) {
  text += "    '" + command.name + "')\n      case $prev in\n";
  std::string options;
  for (const OptionText& option : command.options) {
    options += (options.empty() ? "" : " ") + joined(option.names);
    if (option.placeholder.empty()) continue;
    std::string names;
    for (const std::string& name : option.names) names += (names.empty() ? "" : "|") + name;
    text += "        " + names + ") " + completion_of(option, program) + "; return ;;\n";
  }
  text +=
      "      esac\n      if [[ $cur == -* ]]; then _strata_reply '" + options + "'; return; fi\n";
  if (!command.commands.empty()) {
    text += "      _strata_reply '" + joined(names_of(command.commands)) + "'\n";
  } else if (!command.arguments.empty()) {
    text += "      " + completion_of(command.arguments.front(), program) + "\n";
  }
  text += "      ;;\n";
  for (const CommandText& inner : command.commands) add_cases(inner, program, text);
}

/// Appends the names of all commands below `command` that have an own name to `_strata_enter`.
void add_names(const CommandText& command, std::string& text) {
  for (const CommandText& inner : command.commands) {
    text += (text.empty() ? "'" : "|'") + inner.name + "'";
    add_names(inner, text);
  }
}

}  // namespace

std::string bash_completion(const CommandText& program, const std::vector<KeyText>& keys) {
  std::vector<std::string> paths;
  std::string values;
  for (const KeyText& key : keys) {
    paths.push_back(key.path);
    if (key.words.empty() && !key.names_file) continue;
    values += "    " + key.path + ") _strata_reply '" + joined(key.words) + "'" +
              (key.names_file ? " file" : "") + " ;;\n";
  }
  std::string names;
  add_names(program, names);
  std::string text = kHead;
  text += "_strata_keys='" + joined(paths) + "'\n\n";
  text += "# Completes $cur as the value of the key $1.\n_strata_value() {\n  case $1 in\n" +
          values + "    *) COMPREPLY=() ;;\n  esac\n}\n\n";
  text +=
      "# Goes on to the command $1 of $command, if it has that.\n_strata_enter() {\n"
      "  case \"${command:-strata} $1\" in\n    " +
      names + ") command=\"${command:-strata} $1\" ;;\n    *) return 1 ;;\n  esac\n}\n\n";
  text += "_strata_complete() {\n  case ${command:-strata} in\n";
  add_cases(program, program, text);
  text += "  esac\n}\n";
  return text + kBody;
}

}  // namespace strata
