// Walks all options of all sub-commands and gives those that take a number what no option can take:
// each has to refuse it and to say what it may be. An option that is added without a range fails
// here.

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "command_line/sub_commands.h"
#include "strata/base/error.h"
#include "support/catch.h"

namespace strata {
namespace {

using OnOption = std::function<void(const std::string& name, CLI::Option& option)>;

/// Calls `on_option` for all options with a value, and arguments, of a command and those below it.
void for_each_option(CLI::App& command, const std::string& name, const OnOption& on_option) {
  for (CLI::Option* const option : command.get_options()) {
    const bool flag = option->get_expected_max() == 0 || option->get_type_size() == 0;
    if (!flag) on_option(name + ' ' + option->get_name(), *option);
  }
  for (CLI::App* const inner : command.get_subcommands({})) {
    for_each_option(*inner, name + ' ' + inner->get_name(), on_option);
  }
}

/// Returns why the option refuses a value by its checks, or nothing if it takes it. Throws
/// CLI::ConversionError if they let one pass that is then not understood.
std::optional<std::string> refusal(CLI::Option& option, const std::string& value) {
  option.clear();
  option.add_result(value);
  try {
    option.run_callback();
  } catch (const CLI::ConversionError&) {
    throw;
  } catch (const CLI::ParseError& error) {
    return error.what();
  } catch (const Error& error) {
    return error.what();
  }
  return std::nullopt;
}

/// Returns whether the option takes a number. One that has no range does not understand what is
/// none, as its checks do not look for it.
bool takes_number(CLI::Option& option) {
  try {
    const std::optional<std::string> why = refusal(option, "what is no number");
    return why && why->find("must be a ") != std::string::npos &&
           why->find("number") != std::string::npos;
  } catch (const CLI::ConversionError&) {
    return true;
  }
}

}  // namespace

TEST_CASE("every option that takes a number says its range when it refuses one") {
  CLI::App app("strata");
  Action action;
  add_all_commands(app, action);
  std::set<std::string> tried;
  for_each_option(app, "strata", [&](const std::string& name, CLI::Option& option) {
    if (!takes_number(option)) return;
    tried.insert(name);
    for (const std::string value :
         {"nan", "-nan", "inf", "-inf", "1e999", "-1", "9223372036854775808",
          "-9223372036854775809", "99999999999999999999", "18446744073709551615", "1x", "",
          "what is no number"}) {
      INFO(name << " " << value);
      std::optional<std::string> why;
      REQUIRE_NOTHROW(why = refusal(option, value));
      REQUIRE(why);
      CHECK_THAT(*why, ContainsSubstring("must be"));
    }
    INFO(name << " takes the largest integer of 64 bits");
    const bool any_bits = name.ends_with(" --seed");
    CHECK(refusal(option, "9223372036854775807").has_value() != any_bits);
  });
  for (const char* name :
       {"strata inspect --step", "strata generate --max-tokens", "strata bench --fail-below",
        "strata tokenize --validation-fraction", "strata tokenizer train --vocab-size",
        "strata report --png-width", "strata tune --measure", "strata doctor --ranks",
        "strata evaluate --stride", "strata chat --temperature", "strata plan --prompts"}) {
    INFO(name);
    CHECK(tried.contains(name));
  }
}

TEST_CASE("a range is said in words, with the option and what was given") {
  CLI::App app("strata");
  Action action;
  add_all_commands(app, action);
  const auto refusal_of = [&](const char* command, const char* option, const char* value) {
    return refusal(*app.get_subcommand(command)->get_option(option), value).value_or("taken");
  };
  CHECK(refusal_of("generate", "--max-tokens", "0") ==
        "--max-tokens: must be a whole number from 1 to 2,147,483,647, not 0");
  CHECK(refusal_of("bench", "--fail-below", "nan") ==
        "--fail-below: must be a number from 0.001 to 1000, not nan");
  CHECK(refusal_of("generate", "--top-p", "0") == "--top-p: top_p must be above 0 and at most 1");
  CHECK_THAT(refusal_of("generate", "--device-memory", "99999999999999999999"),
             ContainsSubstring("--device-memory: ") && ContainsSubstring("is not a size in bytes"));
  CHECK(refusal_of("plan", "--host-memory", "0") == "--host-memory: must be above 0");
  CHECK(refusal_of("inspect", "--step", "5") == "taken");
  CHECK(refusal_of("evaluate", "--device-memory", "2GiB") == "taken");
}

}  // namespace strata
