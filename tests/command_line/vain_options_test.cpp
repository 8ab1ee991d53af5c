// Tests that an option which would do nothing beside the others is refused: whoever gives it takes
// something for done that is not.

#include <string>

#include "command_line/sub_commands.h"
#include "support/catch.h"

namespace strata {
namespace {

/// Returns why arguments are refused, or "taken". Nothing is done of what they ask for.
std::string said_of(const std::string& arguments) {
  CLI::App app("strata");
  Action action;
  add_all_commands(app, action);
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return "taken";
}

}  // namespace

TEST_CASE("an option that needs another one is refused alone and taken beside it") {
  struct Case {
    const char* command;
    const char* option;
    const char* needed;
  };
  for (const Case& c :
       {Case{"generate m --input a", "--resume", "--output o"},
        Case{"generate m --input a", "--overwrite", "--output o"},
        Case{"generate m", "--jsonl", "--input a"},
        Case{"generate m --prompt a", "--system b", "--chat"},
        Case{"tune m", "--overwrite", "--output o"}, Case{"tune m", "--steps 3", "--measure 1"},
        Case{"bench --suite s", "--overwrite", "--json j"},
        Case{"bench --suite s", "--resume", "--json j"},
        Case{"tokenize a --output o", "--parse-special", "--tokenizer t"},
        Case{"tokenize a --output o", "--chat-template c", "--tokenizer t"},
        Case{"tokenize a --output o", "--loss all", "--tokenizer t"},
        Case{"tokenize a --output o", "--bos yes", "--tokenizer t"},
        Case{"tokenize a --output o", "--eos no", "--tokenizer t"}}) {
    const std::string command = std::string(c.command) + ' ' + c.option;
    const std::string needed = std::string(c.needed).substr(0, std::string(c.needed).find(' '));
    INFO(command);
    CHECK_THAT(said_of(command), ContainsSubstring("requires " + needed));
    CHECK(said_of(command + ' ' + c.needed) == "taken");
  }
}

TEST_CASE("of two options of which one would do nothing both are named") {
  for (const char* arguments :
       {"train c --resume auto --overwrite", "generate m --prompt a --json --output o",
        "bench --suite s --list --json j", "bench --suite s --list --markdown t",
        "bench --suite s --json j --resume --overwrite"}) {
    INFO(arguments);
    CHECK_THAT(said_of(arguments), ContainsSubstring("excludes"));
  }
  CHECK_THAT(said_of("evaluate m --input a --chat-template chatml"),
             ContainsSubstring("--chat-template"));
}

}  // namespace strata
