// The keys of a GGUF file that do not depend on its weights: what the file is, the model's
// architecture, its tokenizer and its chat template.
#pragma once

#include <filesystem>
#include <string>

#include "strata/base/gguf.h"
#include "strata/model/config.h"
#include "strata/model/gguf_model.h"

namespace strata {

/// What the keys are of.
struct GgufSource {
  std::filesystem::path folder;  ///< has the model's small files
  const LlamaConfig& model;
  const GgufModel& gguf;
  GgufType type = GgufType::kBF16;  ///< of matrices
  std::string name;                 ///< of the model, for people
};

/// Returns all keys, and warns where the file will not do all that the folder does. Without a
/// tokenizer, ids of strata's bytes have theirs, and others none. Throws as gguf_tokenizer() does.
[[nodiscard]] GgufKeys gguf_metadata(const GgufSource& source);

}  // namespace strata
