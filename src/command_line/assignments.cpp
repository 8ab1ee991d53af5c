// --set, as every command about a run has it: run_commands.cpp and doctor_commands.cpp declare it
// and have replaced assignments said before they read the config.

#include "command_line/assignments.h"

#include <cstddef>

#include "strata/base/log.h"
#include "strata/base/text.h"

namespace strata {

CLI::Option* add_assignments(CLI::App& command, std::vector<std::string>& sets) {
  return command
      .add_option("--set", sets, "change a key of the config, as in --set run.steps=1000")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

void warn_of_replaced(const std::vector<std::string>& sets) {
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const std::string key = sets[i].substr(0, sets[i].find('=') + 1);
    for (std::size_t j = sets.size() - 1; j > i; --j) {
      if (!sets[j].starts_with(key) || sets[j] == sets[i]) continue;
      const auto shown = [](const std::string& text) {  // in one line
        return printable_name(shortened(text));
      };
      log::warn("--set {} is replaced by the later --set {}", shown(sets[i]), shown(sets[j]));
      break;
    }
  }
}

}  // namespace strata
