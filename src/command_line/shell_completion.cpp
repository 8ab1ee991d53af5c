// The scripts know nothing of commands. What is left to them is how their shell splits a line into
// words, how it completes the names of files, and that no space follows a word that ends with '='.

#include "command_line/shell_completion.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace strata {

namespace {

// Bash splits words at '=', so the script joins them again, asks for the whole word, and gives bash
// the part that follows its last split. What was typed as the program may be an alias.
constexpr const char* kBashScript =
    R"sh(# bash completion of strata, written by `strata completions bash`.
_strata() {
  local program=${COMP_WORDS[0]/#\~/$HOME} cur word at path split='' i
  local -a words=()
  type -P "$program" >/dev/null || program=strata
  for ((i = 1; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if ((i > 1)) && [[ $word == = || ${COMP_WORDS[i - 1]} == = ]]; then
      words[-1]+=$word
    else
      words+=("$word")
    fi
  done
  cur=${words[-1]}
  if [[ $COMP_WORDBREAKS == *=* && $cur == *=* ]]; then split=${cur%=*}=; fi
  COMPREPLY=()
  while IFS=$'\t' read -r word at; do
    case $word in
      :file | :folder)
        [[ $word == :file ]] && word=-f || word=-d
        while read -r path; do
          COMPREPLY+=("${cur:0:at}$path")
        done < <(compgen "$word" -- "${cur:at}")
        compopt -o filenames 2>/dev/null ;;
      "$cur"*)
        COMPREPLY+=("$word")
        [[ $word != *= ]] || compopt -o nospace 2>/dev/null ;;
    esac
  done < <("$program" complete -- "${words[@]}" 2>/dev/null)
  for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=${COMPREPLY[i]#"$split"}; done
}
complete -F _strata strata
)sh";

// Zsh loads it by itself as the function _strata, or by source.
constexpr const char* kZshScript =
    R"sh(#compdef strata
# zsh completion of strata, written by `strata completions zsh`: put it as _strata into a folder of $fpath.
_strata() {
  local line files at program=${${(Q)words[1]}/#\~/$HOME}
  local -a whole open
  whence -p -- $program >/dev/null || program=strata
  for line in ${(f)"$($program complete -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)"}; do
    case $line in
      :file*|:folder*) files=${line%%$'\t'*} at=${line#*$'\t'} ;;
      *=$'\t'*) open+=("${line/$'\t'/:}") ;;
      *) whole+=("${line/$'\t'/:}") ;;
    esac
  done
  _describe word whole -- open -S ''
  [[ -n $files ]] && compset -p $at && _files ${${files:#:file}:+-/}
}
if [[ $funcstack[1] == _strata ]]; then _strata "$@"; else compdef _strata strata; fi
)sh";

constexpr const char* kFishScript =
    R"sh(# fish completion of strata, written by `strata completions fish`.
function __strata_complete
    set -l words (commandline -opc)
    set -l cur (commandline -ct)
    set -l program (string replace -r '^~' $HOME -- $words[1])
    command -q $program; or set program strata
    for line in ($program complete -- $words[2..-1] "$cur" 2>/dev/null)
        set -l file (string split \t -- $line)
        switch $line
            case ':file*' ':folder*'
                set -l start (string sub -l $file[2] -- "$cur")
                set -l name (string sub -s (math $file[2] + 1) -- "$cur")
                if test $file[1] = :file
                    printf '%s\n' $start(__fish_complete_path "$name")
                else
                    printf '%s\n' $start(__fish_complete_directories "$name")
                end
            case '*'
                printf '%s\n' $line
        end
    end
end
complete -c strata -f -a '(__strata_complete)'
)sh";

/// The word that is being typed: `start` of it stays, `part` is completed.
struct TypedWord {
  std::string start;
  std::string part;
};

/// Divides a word after its first '='; without one nothing stays.
TypedWord divided(const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos) return {"", word};
  return {word.substr(0, equals + 1), word.substr(equals + 1)};
}

std::string answer_line(const std::string& word, const std::string& about) {
  return word + (about.empty() ? "" : '\t' + about) + '\n';
}

/// Returns the lines of the values that a placeholder or a key spells out, all with the same text
/// beside them, and of files.
std::string value_lines(const std::vector<std::string>& words, const std::string& about,
                        ValueKind kind, const std::string& start) {
  std::string lines;
  for (const std::string& word : words) lines += answer_line(start + word, about);
  const std::string at = std::to_string(start.size());
  if (kind == ValueKind::kFile) lines += answer_line(":file", at);
  if (kind == ValueKind::kFolder) lines += answer_line(":folder", at);
  return lines;
}

/// Returns the lines of KEY=VALUE: first those of all keys, then those of what the key may be.
std::string setting_lines(const TypedWord& typed) {
  const std::string assigned = divided(typed.part).start;
  std::string lines;
  for (const KeyText& key : config_keys()) {
    const std::string start = typed.start + key.path + '=';
    if (assigned.empty()) {
      lines += answer_line(start, key.description);
    } else if (assigned == key.path + '=') {
      const ValueKind kind = key.names_file ? ValueKind::kFile : ValueKind::kNone;
      lines += value_lines(key.words, "", kind, start);
    }
  }
  return lines;
}

/// Returns the lines of what an option or an argument takes.
std::string option_lines(const OptionText& option, const TypedWord& typed,
                         const CommandText& program) {
  if (option.kind == ValueKind::kSetting) return setting_lines(typed);
  std::string lines = value_lines(option.words, option.description, option.kind, typed.start);
  if (option.kind == ValueKind::kKey) {
    for (const KeyText& key : config_keys()) {
      lines += answer_line(typed.start + key.path, key.description);
    }
  }
  if (option.kind == ValueKind::kCommand) {
    for (const CommandText& command : program.commands) {
      lines += answer_line(typed.start + last_word(command), command.description);
    }
  }
  return lines;
}

/// Returns the option of that name if it takes a value, or nullptr.
const OptionText* option_with_value(const CommandText& command, const std::string& name) {
  const auto found = std::ranges::find_if(command.options, [&](const OptionText& option) {
    return !option.placeholder.empty() && std::ranges::count(option.names, name) != 0;
  });
  return found == command.options.end() ? nullptr : &*found;
}

/// Returns the lines of what may follow the options and `arguments` arguments of a command.
std::string next_lines(const CommandText& command, std::size_t arguments,
                       const CommandText& program) {
  std::string lines;
  for (const CommandText& inner : command.commands) {
    lines += answer_line(last_word(inner), inner.description);
  }
  if (!command.arguments.empty()) {
    const std::size_t last = command.arguments.size() - 1;
    lines += option_lines(command.arguments[std::min(arguments, last)], {}, program);
  }
  return lines;
}

std::string option_names(const CommandText& command) {
  std::string lines;
  for (const OptionText& option : command.options) {
    for (const std::string& name : option.names) lines += answer_line(name, option.description);
  }
  return lines;
}

}  // namespace

std::string completion_script(const std::string& shell) {
  return shell == "bash" ? kBashScript : shell == "zsh" ? kZshScript : kFishScript;
}

std::string completion_answer(const CommandText& program, std::span<const std::string> words) {
  const std::string typed = words.empty() ? "" : words.back();
  const CommandText* command = &program;
  const OptionText* open = nullptr;  // the option whose value the next word is
  std::size_t arguments = 0;
  for (const std::string& word : words.first(words.size() - (words.empty() ? 0 : 1))) {
    if (open != nullptr) {
      open = nullptr;
    } else if (word.starts_with('-')) {
      open = option_with_value(*command, word);
    } else if (command->commands.empty()) {
      ++arguments;
    } else {
      const auto inner = std::ranges::find(command->commands, word, last_word);
      if (inner == command->commands.end()) return "";
      command = &*inner;
    }
  }
  if (open != nullptr) return option_lines(*open, {"", typed}, program);
  if (!typed.starts_with('-')) return next_lines(*command, arguments, program);
  const TypedWord value = divided(typed);
  if (value.start.empty()) return option_names(*command);
  open = option_with_value(*command, value.start.substr(0, value.start.size() - 1));
  return open == nullptr ? "" : option_lines(*open, value, program);
}

}  // namespace strata
