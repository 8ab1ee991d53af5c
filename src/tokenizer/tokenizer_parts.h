// What a tokenizer consists of once its file has been read, whichever kind of file it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "strata/tokenizer/tokenizer.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/decoder.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/token_table.h"

namespace strata {

/// The ids of special tokens that stand around a text.
struct TextFrame {
  std::vector<std::int32_t> before{};
  std::vector<std::int32_t> after{};
};

struct TokenizerParts {
  Normalizer normalizer{};
  PreTokenizer pre_tokenizer{};
  Decoder decoder{};
  AddedTokens added{};
  TextFrame around{};
  TokenTable tokens{};          ///< as the file writes them; bytes as ByteLevel writes them
  std::vector<bool> special{};  ///< by id; as long as `tokens`
  Bpe bpe;
  std::uint64_t hash = 0;          ///< of all that ids depend on
  SpecialTokens special_tokens{};  ///< those that the file itself names
  std::string file{};              ///< where all this is from
};

/// FNV-1a of 64 bits, over texts with their lengths.
class TokenizerHash {
 public:
  void add(std::string_view text) {
    for (const char c : std::to_string(text.size()) + ':') add_byte(c);
    for (const char c : text) add_byte(c);
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  void add_byte(char c) { value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001b3U; }
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

}  // namespace strata
