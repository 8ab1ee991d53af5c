// Reads tekken.json of Mistral: special tokens, and after them bytes with ranks.
#pragma once

#include <nlohmann/json.hpp>

#include "tokenizer/tokenizer_parts.h"

namespace strata {

/// Tells whether a JSON document is a tekken.json.
[[nodiscard]] bool is_tekken(const nlohmann::json& document);

/// Throws ConfigError with the JSON path, without the file's name, for what is wrong or not
/// supported.
[[nodiscard]] TokenizerParts tekken_parts(const nlohmann::json& document);

}  // namespace strata
