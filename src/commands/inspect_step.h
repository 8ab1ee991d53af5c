// `inspect --step` lists which samples a step trained on, and where they are in the training set.
#pragma once

#include <cstdint>
#include <string>

#include "strata/checkpoint/checkpoint_folder.h"
#include "strata/commands/commands.h"

namespace strata {

/// Returns what is printed: a table, or JSON if the options ask for it. Throws as samples_of_step()
/// does.
[[nodiscard]] std::string step_text(const FoundCheckpoint& checkpoint,
                                    const InspectOptions& options);

}  // namespace strata
