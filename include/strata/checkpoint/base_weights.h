// Tells apart the weights that adapters are trained for. A checkpoint of adapters does not hold
// them; its manifest has a hash by which a run that goes on finds that it was given others.
#pragma once

#include <cstdint>

#include "strata/checkpoint/manifest.h"
#include "strata/model/config.h"
#include "strata/model/form.h"
#include "strata/model/layout.h"
#include "strata/model/safetensors.h"

namespace strata {

/// Returns a hash of the names and shapes of the tensors that a model has of these files, and of
/// the first values of each: two trainings of one model differ in every tensor. It does not depend
/// on dtypes that hold the same values. `form` is that in which a run keeps layers under adapters:
/// in kNf4 the hash also says which matrices keep the codes of the files, because the others are
/// rounded and become other numbers. Blocks the calling thread; throws as reading does.
[[nodiscard]] std::uint64_t hash_of_base(const SafetensorsDirectory& files,
                                         const ModelLayout& layout, Form form = Form::kPlain);

/// Returns a hash of all that a model computes with: its weights, of which this is
/// hash_of_base(), and the config that says how (rotations, norms, windows, caps, factors).
[[nodiscard]] std::uint64_t hash_of_model(std::uint64_t weights, const LlamaConfig& config);

/// Throws ConfigError that names both folders if a checkpoint of adapters is of other weights than
/// `now`.
void require_same_base(const BaseWeights& saved, const BaseWeights& now);

}  // namespace strata
