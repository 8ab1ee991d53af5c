// Finds added tokens in a text. A table of first bytes tells where a token may begin. A special
// token that is not to be parsed still hides what it overlaps, as in the reference.

#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "tokenizer/text_ranges.h"
#include "tokenizer/unicode.h"

namespace strata {
namespace {

std::size_t skip_space(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const CodePoint point = decode_utf8(text.data() + at);
    if (!is_space(point.value)) break;
    at += point.bytes;
  }
  return at;
}

/// Returns where the white space before `at` begins, but not before `most`.
std::size_t skip_space_back(std::string_view text, std::size_t at, std::size_t most) {
  while (at > most) {
    std::size_t begin = at - 1;
    while (begin > most && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
    if (!is_space(decode_utf8(text.data() + begin).value)) break;
    at = begin;
  }
  return at;
}

}  // namespace

AddedTokens AddedTokens::read(const JsonSection& section, const Normalizer& normalizer) {
  if (section.is_null()) return {};
  std::vector<AddedToken> tokens;
  std::size_t bytes = 0;
  for (const JsonSection& item : section.items()) bytes += item.at("content").text().size();
  TextBudget budget(bytes);
  for (const JsonSection& item : section.items()) {
    AddedToken token{.id = item.at("id").count(),
                     .text = item.at("content").text(),
                     .lstrip = item.at("lstrip").flag_or(false),
                     .rstrip = item.at("rstrip").flag_or(false),
                     .normalized = item.at("normalized").flag_or(false),
                     .special = item.at("special").flag_or(false)};
    if (item.at("single_word").flag_or(false)) item.refuse("an added token with single_word");
    std::string buffer;
    token.pattern = token.normalized ? normalizer.apply(token.text, buffer, budget) : token.text;
    if (token.pattern.empty()) item.fail("an added token needs a text");
    tokens.push_back(std::move(token));
  }
  return AddedTokens(std::move(tokens));
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    by_first_byte_[static_cast<unsigned char>(tokens_[i].pattern[0])].push_back(i);
    if (!tokens_[i].special) any_ordinary_[tokens_[i].normalized ? 1 : 0] = true;
  }
  for (std::vector<std::size_t>& same : by_first_byte_) {
    std::stable_sort(same.begin(), same.end(), [&](std::size_t a, std::size_t b) {
      return tokens_[a].pattern.size() > tokens_[b].pattern.size();
    });
  }
}

const AddedToken* AddedTokens::longest_at(std::string_view text, std::size_t at,
                                          bool normalized) const {
  for (const std::size_t i : by_first_byte_[static_cast<unsigned char>(text[at])]) {
    const AddedToken& token = tokens_[i];
    if (token.normalized == normalized && text.substr(at).starts_with(token.pattern)) return &token;
  }
  return nullptr;
}

void AddedTokens::split(std::string_view text, bool normalized, SpecialTexts special,
                        std::vector<TextPart>& parts) const {
  const TextRange whole{.begin = 0, .end = text.size()};
  const std::size_t ranges = special == SpecialTexts::kParsed ? 1 : 0;
  split(text, normalized, std::span(&whole, ranges), parts);
}

void AddedTokens::split(std::string_view text, bool normalized, std::span<const TextRange> special,
                        std::vector<TextPart>& parts) const {
  if (special.empty() && !any_ordinary_[normalized ? 1 : 0]) {
    if (!text.empty()) parts.push_back({text});
    return;
  }
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const AddedToken* const token = longest_at(text, at, normalized);
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    at += token->pattern.size();
    if (token->special && !holds(special, begin, at)) continue;
    if (token->lstrip) begin = skip_space_back(text, begin, std::min(done, begin));
    if (done < begin) parts.push_back({text.substr(done, begin - done)});
    done = token->rstrip ? skip_space(text, at) : at;
    parts.push_back({text.substr(begin, done - begin), token});
  }
  if (done < text.size()) parts.push_back({text.substr(done)});
}

}  // namespace strata
