// Shows a user what a document became: its text, and its tokens with those whose loss counts.
#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <string>

#include "strata/tokenizer/tokenizer.h"

namespace strata {

/// Tells whether standard output is a terminal that should have colours (no-color.org).
[[nodiscard]] bool shows_colours();

/// A document as it is shown.
struct ShownTokens {
  std::string name;        ///< where it stands
  std::int64_t first = 0;  ///< position of its first token
  std::span<const std::int32_t> ids;
  std::span<const std::uint8_t>
      loss;  ///< for each id, 0 if its loss does not count; empty: it does
  const Tokenizer* tokenizer = nullptr;  ///< null for ids of the ByteTokenizer
};

/// Prints the name and counts, the text, and a line for each token: position, id, "loss" if it
/// counts, and the token as its tokenizer's file writes it. With `colours`, what has loss is green.
void print_tokens(std::ostream& out, const ShownTokens& shown, bool colours);

}  // namespace strata
