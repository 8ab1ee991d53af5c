// A tokenizer as llama.cpp reads it from the keys of a GGUF file: byte-level BPE, or BPE as
// SentencePiece does it. What llama.cpp would split or merge otherwise is refused by name.
#pragma once

#include <cstdint>
#include <string>

#include "strata/base/gguf.h"

namespace strata {

/// What GGUF has of a tokenizer.
struct GgufTokenizer {
  GgufKeys keys;         ///< "tokenizer.ggml.*"
  std::int32_t eos = 0;  ///< the token that ends texts
  std::string
      warning;  ///< where llama.cpp's ids differ in rare texts; empty: nowhere that is known
};

/// Returns the keys of a tokenizer, given by its file or folder, for a model with so many ids. Ids
/// that are no token's get texts "[PAD<id>]" of type unused. Throws as Tokenizer::load does, and
/// ConfigError that names the file and what llama.cpp cannot read.
[[nodiscard]] GgufTokenizer gguf_tokenizer(const std::string& folder_or_file,
                                           std::int64_t vocabulary);

/// Returns the keys of a tokenizer whose ids 0 to 255 are the bytes of a text, and whose id 256
/// ends a document, for a model with these ids.
[[nodiscard]] GgufKeys gguf_byte_tokenizer();

}  // namespace strata
