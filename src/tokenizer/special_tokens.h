// Which tokens stand around texts, as the tokenizer_config.json of a folder says.
#pragma once

#include <string_view>

#include "tokenizer/tokenizer_parts.h"

namespace strata {

/// Returns what the text of a tokenizer_config.json says, and `parts.special_tokens` where it says
/// nothing. Throws ConfigError, without the file's name, for a token that is not in the vocabulary.
[[nodiscard]] SpecialTokens special_tokens_of(std::string_view config, const TokenizerParts& parts);

}  // namespace strata
