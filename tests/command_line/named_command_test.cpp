// Tests that a program told its command by name declares that command as one that has all of them.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "command_line/command_tree.h"
#include "command_line/sub_commands.h"
#include "support/catch.h"

namespace strata {
namespace {

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

}  // namespace

TEST_CASE("a command that is named is declared as beside all others, with few of them") {
  CLI::App all("strata");
  Action action;
  add_all_commands(all, action);
  std::size_t alone = 0;
  for (const std::string& name : names_of(all)) {
    INFO(name);
    CLI::App app("strata");
    add_commands(app, action, name);
    const std::vector<std::string> names = names_of(app);
    REQUIRE(std::ranges::count(names, name) == 1);
    CHECK((command_tree(*app.get_subcommand(name), name) ==
           command_tree(*all.get_subcommand(name), name)));
    alone += names.size() < names_of(all).size() ? 1 : 0;
  }
  CHECK(alone == names_of(all).size() - 2);  // all but those that describe the others
  for (const char* name : {"", "--help", "trian"}) {
    INFO(name);
    CLI::App app("strata");
    add_commands(app, action, name);
    CHECK(names_of(app) == names_of(all));
  }
}

}  // namespace strata
