// Makes the parts of a tokenizer of what the tokenizer.json of a Hugging Face model says.
#pragma once

#include "tokenizer/tokenizer_json.h"
#include "tokenizer/tokenizer_parts.h"

namespace strata {

/// Throws ConfigError, without the file's name, for what is wrong or not supported.
[[nodiscard]] TokenizerParts hugging_face_parts(const TokenizerJson& json);

}  // namespace strata
