// A vocabulary of bytes with ranks, as tiktoken and Mistral's Tekken have it, and the parts of the
// tokenizer that it makes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tokenizer/splitter.h"
#include "tokenizer/tokenizer_parts.h"

namespace strata {

struct ByteVocabulary {
  struct Special {
    std::string text;
    std::int32_t id;
  };
  enum class Normal : bool { kNone, kNfc };

  std::vector<std::string> tokens{};  ///< bytes by rank
  std::int32_t first_id = 0;          ///< of rank 0
  SplitPattern pattern = SplitPattern::kGpt2;
  Normal normal = Normal::kNone;
  std::vector<Special> special{};
  std::string bos{};  ///< special tokens; empty if there is none
  std::string eos{};
};

/// Throws ConfigError, without the file's name, if a token is there twice or a byte is missing.
[[nodiscard]] TokenizerParts byte_vocabulary_parts(const ByteVocabulary& vocabulary);

}  // namespace strata
