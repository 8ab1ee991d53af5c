// Tokens that are found in a text before byte pair encoding sees it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/tokenizer/tokenizer.h"
#include "tokenizer/json_section.h"
#include "tokenizer/normalizer.h"

namespace strata {

struct AddedToken {
  std::int32_t id = 0;
  std::string text{};     ///< as the file has it
  std::string pattern{};  ///< what is looked for: normalized if the token is
  bool lstrip = false;    ///< takes white space to its left
  bool rstrip = false;
  bool normalized = false;  ///< is looked for in normalized text
  bool special = false;
};

/// A part of a text: an added token, or what lies between two.
struct TextPart {
  std::string_view text;
  const AddedToken* token = nullptr;
};

/// What to do with the texts of special tokens.
enum class SpecialTexts : bool { kOrdinary, kParsed };

class AddedTokens {
 public:
  AddedTokens() = default;
  /// Takes tokens whose patterns are not empty.
  explicit AddedTokens(std::vector<AddedToken> tokens);
  /// Reads the section `added_tokens` of tokenizer.json.
  static AddedTokens read(const JsonSection& section, const Normalizer& normalizer);

  [[nodiscard]] const std::vector<AddedToken>& tokens() const { return tokens_; }

  /// Appends the parts of a text in order, looking for tokens that are, or are not, normalized. Of
  /// several that begin at one place, the longest is taken.
  void split(std::string_view text, bool normalized, SpecialTexts special,
             std::vector<TextPart>& parts) const;
  /// Splits a text as the other split() does, but parses special tokens where one of the ranges,
  /// which are in order, holds them.
  void split(std::string_view text, bool normalized, std::span<const TextRange> special,
             std::vector<TextPart>& parts) const;

 private:
  [[nodiscard]] const AddedToken* longest_at(std::string_view text, std::size_t at,
                                             bool normalized) const;
  std::vector<AddedToken> tokens_{};    ///< in the file's order
  std::array<bool, 2> any_ordinary_{};  ///< whether one is not special, by `normalized`
  std::array<std::vector<std::size_t>, 256> by_first_byte_{};  ///< the longest first
};

}  // namespace strata
