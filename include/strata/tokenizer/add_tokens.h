// Adds special tokens to a tokenizer.json and the files beside it, as transformers does it, so that
// markers of chats become tokens of their own. `strata tokenizer add` writes what comes out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace strata {

/// A token that was asked for.
struct RequestedToken {
  std::string text;
  std::int32_t id = 0;
  bool is_new = true;  ///< false: it was an added token before, and is as it was
};

/// A file of the new tokenizer.
struct TokenizerFileText {
  std::string name;
  std::string text;
};

struct ExtendedTokenizer {
  std::vector<TokenizerFileText> files;  ///< all that tokenizer_files() finds
  std::vector<RequestedToken> tokens;    ///< in the order that was given
  std::int64_t vocabulary = 0;           ///< one more than the largest id
};

/// Adds special tokens to a tokenizer, given by its file or folder, which stays as it is. A text
/// that is a token of the vocabulary keeps its id; others get the ids behind all that are there.
/// Throws as Tokenizer::load does, and ConfigError where the tokenizer is no tokenizer.json, a
/// token is empty, no UTF-8 or given twice, all are there already, or the ids have gaps that other
/// programs would fill.
[[nodiscard]] ExtendedTokenizer add_special_tokens(const std::string& tokenizer,
                                                   std::span<const std::string> tokens);

}  // namespace strata
