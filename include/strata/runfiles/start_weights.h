// The weights that a run begins with where it begins with a model: those of model.path, with rows
// for more tokens if model.vocab_size asks for them. A session loads them, and `doctor` looks at
// them.
#pragma once

#include <optional>
#include <string>

#include "strata/checkpoint/manifest.h"
#include "strata/config/config.h"
#include "strata/model/form.h"
#include "strata/model/safetensors.h"

namespace strata {

struct StartWeights {
  SafetensorsDirectory files;  ///< with as many rows as the config's model has
  std::string resized;         ///< what is said of rows that it lacked; empty: it lacked none
};

/// Opens the weights of model.path, and reads embedding and head if they are resized. Throws
/// IoError and ConfigError for files that cannot be read, are damaged, or have other rows than
/// their config.json says.
[[nodiscard]] StartWeights open_start_weights(const ModelSection& model);

/// Returns what the checkpoints of a run say of the weights that they do not hold, those of
/// model.path: under adapters, or of which a reference is stored. Returns nothing for other runs.
/// Throws as open_start_weights() does.
[[nodiscard]] std::optional<BaseWeights> base_weights_of(const RunConfig& config);
/// Returns what they say where layers are in this form under adapters: with it who was trained in
/// another form than the run's is compared.
[[nodiscard]] BaseWeights base_weights_in(Form form, const ModelSection& model);

}  // namespace strata
