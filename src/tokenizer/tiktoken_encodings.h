// What the files of tiktoken leave out, for the vocabularies of which strata knows it.
#pragma once

#include <string_view>

#include "tokenizer/byte_vocabulary.h"

namespace strata {

/// Adds the pattern, the normal form and the special tokens of a file whose tokens have been read.
/// Returns false if the file is not known, which its SHA-256 tells.
[[nodiscard]] bool complete_tiktoken_encoding(std::string_view contents,
                                              ByteVocabulary& vocabulary);

}  // namespace strata
