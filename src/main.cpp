// The program: reads its arguments, and has done what they ask for. What is thrown on the way
// becomes a line on standard error and an exit code.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/text.h"
#include "strata/base/version.h"
#include "strata/command_line/command_line.h"
#include "strata/data/tokenize.h"

namespace {

/// Prints why the program ends and returns its exit code.
int fail(const strata::Failure& failure) {
  std::cerr << "strata: " << strata::printable(failure.text) << '\n';
  return failure.exit_code;
}

/// Prints what the command line is wrong about; help, which is asked for by an exception as well,
/// goes to standard output.
int fail(const CLI::App& app, const CLI::ParseError& error,
         const std::vector<std::string>& arguments) {
  if (error.get_name() == "CallForHelp") {
    std::cout << strata::wrapped_lines(app.help(), strata::help_columns());
    return 0;
  }
  if (error.get_exit_code() == 0) return app.exit(error);  // --version
  std::string text = strata::shortened(error.what(), 2 * strata::kMostShown);
  const std::string instead = strata::meant(app, arguments);
  if (!instead.empty()) text += "; did you mean " + strata::shortened(instead) + "?";
  return fail(
      {text + "\nRun with --help for more information.", strata::ConfigError("").exit_code()});
}

/// Throws ConfigError for an argument that is no text: it would go into files that have to be.
void require_text(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (strata::valid_utf8_bytes(arguments[i]) == arguments[i].size()) continue;
    throw strata::ConfigError("argument " + std::to_string(i + 1) +
                              " is not valid UTF-8; rename the file, or write it in UTF-8");
  }
}

int run_program(int argc, char** argv) {
  CLI::App app("strata trains LLaMA models whose state is larger than GPU memory", "strata");
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  try {
    require_text(arguments);
    strata::Action action;
    app.require_subcommand(1);
    app.set_version_flag("--version", strata::describe(strata::build_info()),
                         "Print version, commit and what was built in");
    strata::add_run_commands(app, action);
    strata::add_token_commands(app, action);
    strata::add_model_commands(app, action);
    strata::add_generate_commands(app, action);
    strata::add_help_commands(app, action);
    strata::add_report_commands(app, action);
    strata::add_doctor_commands(app, action);
    app.parse(argc, argv);
    return action();
  } catch (const CLI::ParseError& e) {
    return fail(app, e, arguments);
  } catch (const std::exception&) {
    return fail(strata::current_failure());
  }
}

/// Returns whether everything that went to standard output has arrived there.
bool output_arrived() {
  return std::cout.flush().good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int code = run_program(argc, argv);
  if (code != 0 || output_arrived()) return code;
  return fail({"standard output could not be written; is the disk full?", 1});
}
