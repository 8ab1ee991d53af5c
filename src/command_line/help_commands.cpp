// The commands that describe the program to shells and to `man`.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "command_line/command_tree.h"
#include "command_line/man_pages.h"
#include "command_line/shell_completion.h"
#include "command_line/sub_commands.h"
#include "strata/base/error.h"
#include "strata/base/output_file.h"
#include "strata/base/version.h"

namespace strata {

namespace {

std::vector<ManPage> pages_of(const CLI::App& app) {
  return man_pages(command_tree(app, app.get_name()), std::string(build_info().version));
}

/// Prints the page of a command, of the config, or of the program where `name` is empty.
void print_page(const CLI::App& app, const std::string& name) {
  const std::string page = name.empty() ? "strata" : "strata-" + name;
  const std::vector<ManPage> pages = pages_of(app);
  const auto found = std::ranges::find_if(
      pages, [&](const ManPage& p) { return p.file.substr(0, p.file.rfind('.')) == page; });
  if (found == pages.end()) {
    throw ConfigError("there is no page of \"" + name +
                      "\"; name a command as strata --help lists them, or config");
  }
  std::cout << found->text;
}

void write_pages(const CLI::App& app, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  for (const ManPage& page : pages_of(app)) {
    write_file((folder / page.file).string(), page.text);
  }
}

void add_completions(CLI::App& app, Action& action) {
  CLI::App& command = *app.add_subcommand(
      "completions", "Print what a shell completes the command line of strata by");
  const auto shell = std::make_shared<std::string>();
  command.add_option("shell", *shell, "the shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->type_name("bash|zsh|fish");
  command.callback([shell, &action] {
    action = [shell] {
      std::cout << completion_script(*shell);
      return 0;
    };
  });
}

void add_man(CLI::App& app, Action& action) {
  struct Options {
    std::string page;
    std::string output;
  };
  CLI::App& command =
      *app.add_subcommand("man", "Print a page of the manual, as in strata man train | man -l -");
  const auto options = std::make_shared<Options>();
  CLI::Option* page = command
                          .add_option("page", options->page,
                                      "a command, or config for the keys of a run config; without "
                                      "it the page of the program")
                          ->type_name("config|COMMAND");
  command
      .add_option("--output", options->output, "write all pages as files into this folder instead")
      ->type_name("DIR")
      ->excludes(page);
  command.callback([&app, options, &action] {
    action = [&app, options] {
      if (options->output.empty()) {
        print_page(app, options->page);
      } else {
        write_pages(app, options->output);
      }
      return 0;
    };
  });
}

}  // namespace

void add_help_commands(CLI::App& app, Action& action) {
  add_completions(app, action);
  add_man(app, action);
}

}  // namespace strata
