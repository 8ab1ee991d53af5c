// Says whether llama.cpp computes a model as strata does.

#pragma once

#include "gguf_architectures.h"
#include "strata/model/config.h"
#include "strata/model/spec.h"

namespace strata {

/// Returns the layers that have a window, which is the same in all of them, or null.
[[nodiscard]] const LayerSpec* windowed_kind(const ModelSpec& spec);

/// Returns how llama.cpp has the family. Throws ConfigError if strata does not know.
[[nodiscard]] const GgufArchitecture& require_gguf_architecture(ModelType type);

/// Throws ConfigError, which names the key and the remedy, if the architecture cannot express the
/// model of a valid config, of which `spec` is made.
void require_expressible(const LlamaConfig& config, const ModelSpec& spec,
                         const GgufArchitecture& as);

}  // namespace strata
