// Reads files of tiktoken: a token in base64 and its rank on each line. They do not say how texts
// are cut, nor which special tokens there are: that is known of a few vocabularies only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer_parts.h"

namespace strata {

/// Tells whether a file's contents begin as a file of tiktoken does.
[[nodiscard]] bool is_tiktoken(std::string_view contents);

/// Returns the tokens' bytes by rank. Throws ConfigError that names the line, without the file, for
/// lines of another form, and for ranks that are there twice or missing.
[[nodiscard]] std::vector<std::string> tiktoken_ranks(std::string_view contents);

/// Throws ConfigError, without the file's name, for a vocabulary that is not known.
[[nodiscard]] TokenizerParts tiktoken_parts(std::string_view contents);

}  // namespace strata
