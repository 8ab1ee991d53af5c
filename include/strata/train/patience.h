// When a run ends because it learns no more: run.patience validations in a row had no loss below
// all before them. `train` asks after each validation, and before it goes on from a checkpoint.

#pragma once

#include <string>

#include "strata/checkpoint/validations.h"
#include "strata/config/config.h"

namespace strata {

/// Returns whether validations have found for long enough that nothing is gained any more.
[[nodiscard]] bool is_out_of_patience(const RunSection& run, const Validations& found);
/// Returns how many validations gained nothing, and the loss that they did not get below.
[[nodiscard]] std::string without_gain_text(const Validations& found);

}  // namespace strata
