// The texts of sequences that are too long. Numbers come first and the remedy last, as in all
// errors.

#include "strata/complete/sequence_length.h"

#include "strata/base/text.h"

namespace strata {

std::string too_long(const SequenceLength& length, std::string_view remedy) {
  if (length.tokens + length.to_follow <= length.most) return {};
  std::string text = "has " + format_count(length.tokens) + " tokens";
  text += length.to_follow > 0
              ? " and up to " + format_count(length.to_follow) + " are to follow, but"
              : ", and";
  text += " a sequence may have " + format_count(length.most);
  if (!length.limit.empty()) text += " (" + std::string(length.limit) + ")";
  return text + "; " + std::string(remedy);
}

std::string too_few_positions(std::int64_t tokens, std::int64_t positions, std::string_view remedy,
                              std::string_view limit) {
  return "a sequence would have " + format_count(tokens) +
         " tokens, and the model has positions for " + format_count(positions) + " (" +
         std::string(limit) + "); " + std::string(remedy);
}

}  // namespace strata
