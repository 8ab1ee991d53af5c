// Writes the JSON Schema of a run config from the keys themselves.

#include <string>

#include "strata/base/describe_fields.h"
#include "strata/config/config.h"

namespace strata {

std::string config_schema() {
  return schema_of_fields(
      RunConfig{}, {.title = "strata run config",
                    .description = "What `strata train` does: the model, its data, and how a step "
                                   "runs. `strata config-help` prints the same keys."});
}

}  // namespace strata
