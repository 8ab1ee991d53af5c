// Writes docs/config.md from the keys themselves, so that the page cannot be wrong about a name, a
// type or a default. `strata config-help --markdown` prints it, and a test compares it with the
// file.

#include <string>

#include "strata/base/describe_fields.h"
#include "strata/config/config.h"

namespace strata {

std::string config_reference() {
  return std::string("# Config\n\n<!-- `") + std::string(kConfigReferenceCommand) +
         R"(` makes this page.
     Its texts are in src/config/*_fields.cpp and src/model/config_fields.cpp. -->

A run config is a JSON file with the sections below. Keys that it leaves out have their defaults, unknown ones are an
error, and `--set section.key=value` on the command line changes one. A *size* is a number of bytes or a text such as
"24GiB". `null` stands for "not given": what the run chooses then, its help says. `strata config-help` prints the same
for a terminal. [Schedule](schedule.md) has the words that are used here: units, sub-batches, cells, boundaries.

)" + markdown_fields(RunConfig{});
}

}  // namespace strata
