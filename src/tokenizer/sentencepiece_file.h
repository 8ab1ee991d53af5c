// Reads tokenizer.model as SentencePiece writes it: a message of protocol buffers with the pieces,
// their scores, and how the model was trained. Only its BPE models are read.
#pragma once

#include <string_view>

#include "tokenizer/tokenizer_parts.h"

namespace strata {

/// Tells whether a file's contents begin as a model of SentencePiece does.
[[nodiscard]] bool is_sentencepiece(std::string_view contents);

/// Throws ConfigError, without the file's name, for what is wrong or not supported.
[[nodiscard]] TokenizerParts sentencepiece_parts(std::string_view contents);

}  // namespace strata
