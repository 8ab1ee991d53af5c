// Finds the file of a tokenizer and reads it, whichever of the known kinds it is: tokenizer.json of
// Hugging Face, tekken.json of Mistral, a model of SentencePiece, or ranks of tiktoken.
#pragma once

#include <optional>
#include <string>

#include "tokenizer/tokenizer_parts.h"

namespace strata {

/// Returns the file of a folder that holds its tokenizer; none if there is none.
[[nodiscard]] std::optional<std::string> tokenizer_file_in(const std::string& folder);

/// Reads a file, or that of a folder, and the tokenizer_config.json beside it. Throws IoError for
/// what cannot be read, and ConfigError that names the file for what is wrong or not supported.
[[nodiscard]] TokenizerParts read_tokenizer_file(const std::string& path);

}  // namespace strata
