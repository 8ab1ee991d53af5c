// What other trainers call the keys of a run config. Who comes from transformers, trl, axolotl,
// torchtune, Megatron or nanoGPT types those names first, and few are near enough to be guessed.
#pragma once

#include "strata/base/fields.h"

namespace strata {

/// Adds the names to the list of a whole run config.
void add_foreign_names(FieldList& f);

}  // namespace strata
