// The files that hold A and B of a model's adapters under PEFT's names, and what is trained whole
// beside them: one in a folder of PEFT, one for each block in a checkpoint. Training begins with
// them, and MergedWeights adds them to weights.
#pragma once

#include <deque>
#include <string>

#include "strata/model/layout.h"
#include "strata/model/safetensors.h"

namespace strata {

/// They cannot be moved.
using AdapterFiles = std::deque<SafetensorsFile>;

/// Returns the file that has a tensor. Throws IoError that names the tensor if none has.
[[nodiscard]] const SafetensorsFile& file_with(const AdapterFiles& files, const std::string& name);

/// Throws IoError unless the files have all tensors of the adapters of a layout, and of what is
/// trained beside them, in their shapes, and no others but a tied head and what PEFT saves twice
/// where the vocabulary grew: it names a tensor that is missing, has another shape, or is of no
/// adapter.
void require_adapters(const AdapterFiles& files, const ModelLayout& layout);

/// Throws IoError if what require_adapters() lets pass has a tied head that is not the embedding.
/// Reads both, so it is for where files are first looked at.
void require_one_embedding(const AdapterFiles& files, const ModelLayout& layout);

}  // namespace strata
