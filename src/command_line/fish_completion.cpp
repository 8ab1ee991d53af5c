// Fish asks one condition for each line of `complete`: is this the command that stands on the
// command line?

#include <string>
#include <string_view>
#include <vector>

#include "command_line/shell_completion.h"

namespace strata {

namespace {

constexpr const char* kFishHelpers =
    R"sh(# fish completion of strata, written by `strata completions fish`.

# Whether the words that are no options begin with $argv.
function __strata_in
    set -l words
    for word in (commandline -opc)[2..-1]
        string match -q -- '-*' $word; or set -a words $word
    end
    set -l wanted (count $argv)
    test $wanted -eq 0; and return
    test (count $words) -ge $wanted; and test "$words[1..$wanted]" = "$argv"
end

# Whether they are $argv and nothing else.
function __strata_at
    set -l words
    for word in (commandline -opc)[2..-1]
        string match -q -- '-*' $word; or set -a words $word
    end
    test "$words" = "$argv"
end

# KEY=VALUE: first the keys, then what the key may be.
function __strata_setting
    set -l token (string replace -r -- '^--set=' '' (commandline -ct))
    if not string match -q -- '*=*' $token
        __strata_keys =
        return
    end
    set -l key (string replace -r -- '=.*' '' $token)
    switch $key
)sh";

/// Returns the text within single quotes of the shell.
std::string in_fish_quotes(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result + '\'';
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : std::string(between)) + word;
  return text;
}

/// Returns the options of `complete` for the value of an option or an argument.
std::string value_of(const OptionText& option, const CommandText& program) {
  if (option.kind == ValueKind::kSetting) return " -f -a '(__strata_setting)'";
  if (option.kind == ValueKind::kKey) return " -f -a '(__strata_keys)'";
  std::vector<std::string> words = option.words;
  if (option.kind == ValueKind::kCommand) {
    for (const CommandText& command : program.commands) words.push_back(last_word(command));
  }
  if (option.kind == ValueKind::kFolder) words.emplace_back("(__fish_complete_directories)");
  const std::string files = option.kind == ValueKind::kFile ? " -F" : " -f";
  return files + (words.empty() ? "" : " -a " + in_fish_quotes(joined(words, " ")));
}

void add_lines(const CommandText& command, const CommandText& program, std::string& text) {
  const std::size_t space = command.name.find(' ');
  const std::string words = space == std::string::npos ? "" : command.name.substr(space);
  const std::string here = "complete -c strata -n '__strata_in" + words + "'";
  const std::string only_here = "complete -c strata -n '__strata_at" + words + "'";
  for (const CommandText& inner : command.commands) {
    text += only_here + " -f -a " + last_word(inner) + " -d " + in_fish_quotes(inner.description) +
            '\n';
  }
  for (const OptionText& option : command.options) {
    text += command.commands.empty() ? here : only_here;
    for (const std::string& name : option.names) {
      text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    if (!option.placeholder.empty()) text += " -r" + value_of(option, program);
    text += " -d " + in_fish_quotes(option.description) + '\n';
  }
  if (!command.arguments.empty()) {
    text += here + value_of(command.arguments.front(), program) + '\n';
  }
  for (const CommandText& inner : command.commands) add_lines(inner, program, text);
}

}  // namespace

std::string fish_completion(const CommandText& program, const std::vector<KeyText>& keys) {
  std::string text = kFishHelpers;
  for (const KeyText& key : keys) {
    if (key.words.empty() && !key.names_file) continue;
    text += "        case " + key.path + "\n            printf '%s\\n' $key=" +
            (key.names_file ? "(__fish_complete_path (string replace -r -- '^[^=]*=' '' $token))"
                            : '{' + joined(key.words, ",") + '}') +
            '\n';
  }
  text +=
      "    end\nend\n\n# The keys of the config, each followed by $argv.\nfunction __strata_keys\n"
      "    printf \"%s$argv\\t%s\\n\" \\\n";
  for (const KeyText& key : keys) {
    text += "        " + key.path + ' ' + in_fish_quotes(key.description) +
            (&key == &keys.back() ? "\n" : " \\\n");
  }
  text += "end\n\ncomplete -c strata -f\n";
  add_lines(program, program, text);
  return text;
}

}  // namespace strata
