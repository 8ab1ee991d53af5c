// Finds the merges of a vocabulary that lists only tokens with ranks: all pairs of tokens whose
// joint text is a token.

#include "tokenizer/ranked_merges.h"

#include <string_view>

#include "tokenizer/token_table.h"

namespace strata {

std::vector<BpeMerge> ranked_merges(const std::vector<std::string>& tokens,
                                    std::span<const std::uint32_t> ranks) {
  const TokenTable table(tokens);
  std::vector<BpeMerge> merges;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const std::string_view token = tokens[id];
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      const auto left = table.find(token.substr(0, cut));
      const auto right = left ? table.find(token.substr(cut)) : std::nullopt;
      if (!right) continue;
      merges.push_back({.left = *left,
                        .right = *right,
                        .merged = static_cast<std::int32_t>(id),
                        .rank = ranks[id]});
    }
  }
  return merges;
}

}  // namespace strata
