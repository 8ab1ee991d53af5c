// Reads the arguments of the program and has done what they ask for. What is thrown on the way
// becomes a line on standard error and an exit code.

#include "strata/command_line/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "command_line/command_tree.h"
#include "command_line/shell_completion.h"
#include "command_line/sub_commands.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/base/utf8.h"
#include "strata/base/version.h"
#include "strata/data/parquet_support.h"

namespace strata {
namespace {

/// Sub-commands that are declared together.
struct CommandGroup {
  std::array<std::string_view, 5> names;  ///< of those that need no others
  void (*add)(CLI::App& app, Action& action);
};
constexpr CommandGroup kCommandGroups[] = {
    {{"train"}, add_train_command},
    {{"plan"}, add_plan_command},
    {{"tune"}, add_tune_command},
    {{"bench"}, add_bench_command},
    {{"config-help", "config-schema"}, add_config_commands},
    {{"tokenize", "tokenizer"}, add_token_commands},
    {{"models", "inspect", "export", "import", "chat-template"}, add_model_commands},
    {{"generate"}, add_generate_command},
    {{"chat"}, add_chat_command},
    {{"evaluate"}, add_evaluate_command},
    {{}, add_help_commands},  // describe all others
    {{"report"}, add_report_commands},
    {{"doctor"}, add_doctor_commands}};

/// Prints why the program ends and returns its exit code.
int fail(const Failure& failure) {
  std::cerr << "strata: " << printable_message(failure.text) << '\n';
  return failure.exit_code;
}

std::string names_of_commands(const CLI::App& app) {
  std::string names;
  for (const CLI::App* command : app.get_subcommands({})) {
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  return names;
}

/// Prints what the command line is wrong about; help, which is asked for by an exception as well,
/// goes to standard output.
int fail(const CLI::App& app, const CLI::ParseError& error,
         const std::vector<std::string>& arguments) {
  if (error.get_name() == "CallForHelp") {
    std::cout << wrapped_lines(app.help(), help_columns());
    return 0;
  }
  if (error.get_exit_code() == 0) return app.exit(error);  // --version
  std::string text = printable_name(shortened(error.what(), 2 * kMostShown));
  const std::string instead = meant(app, arguments);
  const auto is_named = [&](const CLI::App* command) {
    return command->get_name() == arguments[0];
  };
  if (!arguments.empty() && !arguments[0].starts_with('-') &&
      std::ranges::none_of(app.get_subcommands({}), is_named)) {
    text = "there is no command " + printable_name(shortened(arguments[0]));
    if (instead.empty()) text += "; these are: " + names_of_commands(app);
  }
  if (!instead.empty()) text += "; did you mean " + printable_name(shortened(instead)) + "?";
  return fail({text + "\nRun with --help for more information.", ConfigError("").exit_code()});
}

/// Throws ConfigError for an argument that is no text: it would go into files that have to be.
void require_text(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (valid_utf8_bytes(arguments[i]) == arguments[i].size()) continue;
    throw ConfigError("argument " + std::to_string(i + 1) +
                      " is not valid UTF-8; rename the file, or write it in UTF-8");
  }
}

/// Answers a shell. What was typed is not parsed, since it is not complete and may be anything.
std::string completion_for(const CLI::App& app, std::span<const std::string> arguments) {
  const bool divided = !arguments.empty() && arguments[0] == "--";
  return completion_answer(command_tree(app, app.get_name()), arguments.subspan(divided ? 1 : 0));
}

int run_program(int argc, char** argv) {
  CLI::App app("strata trains LLaMA models whose state is larger than GPU memory", "strata");
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  try {
    log::configure(0, 1, "");  // standard output is for results, before a command begins as well
    Action action;
    app.require_subcommand(1);
    app.set_version_flag(
        "--version", [] { return describe(build_info(), parquet_support()); },
        "Print version, commit and what was built in");
    add_commands(app, action, arguments.empty() ? "" : arguments[0]);
    if (!arguments.empty() && arguments[0] == "complete") {
      std::cout << completion_for(app, std::span(arguments).subspan(1));
      return 0;
    }
    require_text(arguments);
    app.parse(argc, argv);
    return action();
  } catch (const CLI::ParseError& e) {
    return fail(app, e, arguments);
  } catch (const std::exception&) {
    return fail(current_failure());
  }
}

/// Returns whether everything that went to standard output has arrived there.
bool output_arrived() {
  return std::cout.flush().good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
}

}  // namespace

void add_all_commands(CLI::App& app, Action& action) {
  for (const CommandGroup& group : kCommandGroups) group.add(app, action);
}

void add_commands(CLI::App& app, Action& action, std::string_view name) {
  for (const CommandGroup& group : kCommandGroups) {
    const bool has = std::ranges::find(group.names, name) != group.names.end();
    if (has && !name.empty()) return group.add(app, action);
  }
  add_all_commands(app, action);
}

int run_command_line(int argc, char** argv) {
  try {
    const int code = run_program(argc, argv);
    if (code != 0 || output_arrived()) return code;
    return fail({"standard output could not be written; is the disk full?", 1});
  } catch (const std::bad_alloc&) {  // while a message was made, or before there was any work
    std::fputs("strata: the system refused memory for a message; raise its limit (ulimit -v)\n",
               stderr);
    return OutOfMemory("").exit_code();
  }
}

}  // namespace strata
