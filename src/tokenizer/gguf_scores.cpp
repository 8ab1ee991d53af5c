// Makes scores of the ranks of merges, and finds what keeps them from being the same: a merge that
// only one of the two ways has, or an order of merges that scores of their results cannot have.

#include "tokenizer/gguf_scores.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <utility>

#include "strata/base/text.h"
#include "tokenizer/piece_text.h"
#include "tokenizer/unicode.h"

namespace strata {
namespace {

constexpr std::uint32_t kNoMerge = std::numeric_limits<std::uint32_t>::max();

/// The ranks of the merges that make a token.
struct Ranks {
  std::uint32_t first = kNoMerge;
  std::uint32_t last = 0;
};

std::string shown(const std::string& token) { return printable_name(shortened(token)); }

/// Returns whether merging can make a token or begin with it.
bool is_reached(const std::vector<Ranks>& ranks, const TokenTable& tokens, std::int32_t id) {
  const std::string& text = tokens.text(id);
  return ranks[static_cast<std::size_t>(id)].first != kNoMerge ||
         decode_utf8(text.data()).bytes == text.size();
}

/// Returns two tokens whose joint text is a token that no merge makes of them; empty if there are
/// none.
std::string missing_merge(const TokenTable& tokens, const std::vector<Ranks>& ranks,
                          const std::set<std::pair<std::int32_t, std::int32_t>>& merges) {
  for (std::int32_t id = 0; id < tokens.size(); ++id) {
    if (ranks[static_cast<std::size_t>(id)].first == kNoMerge) continue;
    const std::string_view text = tokens.text(id);
    for (std::size_t at = decode_utf8(text.data()).bytes; at < text.size();
         at += decode_utf8(text.data() + at).bytes) {
      const auto left = tokens.find(text.substr(0, at));
      const auto right = tokens.find(text.substr(at));
      if (!left || !right || merges.contains({*left, *right})) continue;
      if (!is_reached(ranks, tokens, *left) || !is_reached(ranks, tokens, *right)) continue;
      return shown(tokens.text(*left)) + " and " + shown(tokens.text(*right));
    }
  }
  return {};
}

/// Returns a token some of whose merges come before those of another, and some after them.
std::string mixed_merges(const TokenTable& tokens, const std::vector<Ranks>& ranks) {
  std::vector<std::int32_t> order;
  for (std::int32_t id = 0; id < tokens.size(); ++id) {
    if (ranks[static_cast<std::size_t>(id)].first != kNoMerge) order.push_back(id);
  }
  const auto of = [&](std::int32_t id) { return ranks[static_cast<std::size_t>(id)]; };
  std::ranges::sort(order, {}, [&](std::int32_t id) { return of(id).first; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (of(order[i]).first < of(order[i - 1]).last) return shown(tokens.text(order[i - 1]));
  }
  return {};
}

}  // namespace

bool is_byte_token(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with('>') &&
         kDigits.find(text[3]) != kDigits.npos && kDigits.find(text[4]) != kDigits.npos;
}

ScoredTokens scores_of_merges(const TokenizerParts& parts, bool splits) {
  std::vector<Ranks> ranks(static_cast<std::size_t>(parts.tokens.size()));
  std::set<std::pair<std::int32_t, std::int32_t>> pairs;
  ScoredTokens result;
  for (const BpeMerge& merge : parts.bpe.merges()) {
    Ranks& made = ranks[static_cast<std::size_t>(merge.merged)];
    made.first = std::min(made.first, merge.rank);
    made.last = std::max(made.last, merge.rank);
    pairs.emplace(merge.left, merge.right);
    if (splits && parts.tokens.text(merge.right).starts_with(kSpaceMark)) {
      result.problem = "it splits texts before each U+2581, and llama.cpp would merge " +
                       shown(parts.tokens.text(merge.merged));
      return result;
    }
  }
  if (const std::string two = missing_merge(parts.tokens, ranks, pairs); !two.empty()) {
    result.problem =
        "it does not merge " + two + ", whose joint text is a token, and llama.cpp does";
  } else if (const std::string one = mixed_merges(parts.tokens, ranks); !one.empty()) {
    result.problem = "its merges to " + one + " have ranks that no score of one token stands for";
  }
  for (const Ranks& made : ranks) {
    result.scores.push_back(made.first == kNoMerge ? kScoreOfOthers
                                                   : -static_cast<float>(made.first));
  }
  return result;
}

}  // namespace strata
