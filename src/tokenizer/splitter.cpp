// Splits texts as the expressions of pre-tokenizers would. They are written out here: each tries
// its alternatives in their order and matches what backtracking would. The names of rules are those
// of split_rules.h.

#include "tokenizer/splitter.h"

#include <array>

#include "tokenizer/split_rules.h"

namespace strata {
namespace {

using namespace splitting;
using unicode::kLetter;
using unicode::kLower;
using unicode::kMark;
using unicode::kNumber;
using unicode::kPunctuation;
using unicode::kSpace;
using unicode::kSymbol;
using unicode::kUpper;

/// Predicates on categories: one of `bits`, and none of them.
template <unsigned bits>
constexpr auto kAnyOf = [](std::uint8_t category) { return (category & bits) != 0; };
template <unsigned bits>
constexpr auto kNoneOf = [](std::uint8_t category) { return (category & bits) == 0; };

/// Skips a word's symbols, of which all ASCII letters are some.
template <class Is>
const char* skip_word(const char* at, const char* end, Is is) {
  return skip(skip_ascii_letters<Case::kAny>(at, end), end, is);
}

const char* gpt2(const char* begin, const char* end) {
  if (const char* after = skip_contraction<Case::kExact>(begin, end)) return after;
  const char* const word = *begin == ' ' && end - begin > 1 ? begin + 1 : begin;
  const auto [after, category] = symbol_at(word);
  if (category & kLetter) return skip_word(after, end, kAnyOf<kLetter>);
  if (category & kNumber) return skip(after, end, kAnyOf<kNumber>);
  if (!(category & kSpace)) return skip(after, end, kNoneOf<kLetter | kNumber | kSpace>);
  return before_word(space_run(begin, end), begin, end);
}

/// [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and [\p{Ll}\p{Lm}\p{Lo}\p{M}]; caseless letters are both.
bool may_be_upper(std::uint8_t c) { return (c & (kLetter | kMark)) != 0 && (c & kLower) == 0; }
bool may_be_lower(std::uint8_t c) { return (c & (kLetter | kMark)) != 0 && (c & kUpper) == 0; }

/// upper*lower+ or null. Where no lower one follows the run of upper ones, it gives back what is
/// upper only, and ends after its last caseless one.
const char* skip_lower_ending(const char* at, const char* end) {
  const char* after_caseless = nullptr;
  while (at != end) {
    const Symbol symbol = symbol_at(at);
    if (!may_be_upper(symbol.category)) break;
    at = symbol.end;
    if (may_be_lower(symbol.category)) after_caseless = at;
  }
  const char* const after = skip(skip_ascii_letters<Case::kExact>(at, end), end, may_be_lower);
  return after != at ? after : after_caseless;
}

/// A word with or without one symbol before it, as o200k has it, or null. A mark may be that
/// symbol, or a word of its own.
const char* skip_cased_word(const char* begin, const char* end) {
  const auto [after, category] = symbol_at(begin);
  const char* const word = category & kLetter ? begin : after;
  if (word == after) {
    const bool may_lead = !(category & kNumber) && !is_newline(*begin);
    if (!may_lead || !is_at(word, end, kAnyOf<kLetter | kMark>)) {
      return category & kMark ? after : nullptr;
    }
  }
  if (const char* word_end = skip_lower_ending(word, end)) return word_end;
  if (category & kMark) return after;  // upper*lower+ without the symbol before it
  return skip(word, end, may_be_upper);
}

/// How the descendants of cl100k differ.
struct Llama3 {
  static constexpr int kMostNumbers = 3;
  static constexpr unsigned kWord = kLetter;
  static constexpr bool kEndIsOnePiece = false;  ///< white space at the end of a text
};
struct Cl100k : Llama3 {
  static constexpr bool kEndIsOnePiece = true;
};
struct Qwen2 : Llama3 {
  static constexpr int kMostNumbers = 1;
};
struct Qwen35 : Qwen2 {
  static constexpr unsigned kWord = kLetter | kMark;
};

template <class Rules>
const char* llama3(const char* begin, const char* end) {
  constexpr auto kIsWord = kAnyOf<Rules::kWord>;
  constexpr auto kIsOther = kNoneOf<Rules::kWord | kNumber | kSpace>;
  if (const char* after = skip_contraction<Case::kAny>(begin, end)) return after;
  const auto [after, category] = symbol_at(begin);
  if (kIsWord(category)) return skip_word(after, end, kIsWord);
  if (category & kNumber) return skip_numbers(begin, end, Rules::kMostNumbers);
  if (!is_newline(*begin) && is_at(after, end, kIsWord)) return skip_word(after, end, kIsWord);
  if (kIsOther(category) || (*begin == ' ' && is_at(after, end, kIsOther))) {
    const char* at = skip(after, end, kIsOther);
    while (at != end && is_newline(*at)) ++at;
    return at;
  }
  if constexpr (Rules::kEndIsOnePiece) {
    if (skip(after, end, kAnyOf<kSpace>) == end) return end;
  }
  return after_newlines_or_before_word(begin, end);
}

struct O200k {
  static constexpr int kMostNumbers = 3;
  static constexpr bool kContractions = true;
};
struct Tekken {
  static constexpr int kMostNumbers = 1;
  static constexpr bool kContractions = false;
};

template <class Rules>
const char* o200k(const char* begin, const char* end) {
  constexpr auto kIsOther = kNoneOf<kLetter | kNumber | kSpace>;
  if (const char* word_end = skip_cased_word(begin, end)) {
    const char* contraction = nullptr;
    if constexpr (Rules::kContractions) contraction = skip_contraction<Case::kAny>(word_end, end);
    return contraction != nullptr ? contraction : word_end;
  }
  const auto [after, category] = symbol_at(begin);
  if (category & kNumber) return skip_numbers(begin, end, Rules::kMostNumbers);
  if (kIsOther(category) || (*begin == ' ' && is_at(after, end, kIsOther))) {
    const char* at = skip(after, end, kIsOther);
    while (at != end && (is_newline(*at) || *at == '/')) ++at;
    return at;
  }
  return after_newlines_or_before_word(begin, end);
}

/// What lies between two matches is a piece too. `match` returns the end of a match or null.
template <const char* (*match)(const char* begin, const char* end)>
const char* isolated(const char* begin, const char* end) {
  if (const char* after = match(begin, end)) return after;
  const char* at = begin;
  do {
    at = symbol_at(at).end;
  } while (at != end && match(at, end) == nullptr);
  return at;
}

template <int most>
const char* numbers(const char* begin, const char* end) {
  const char* const after = skip_numbers(begin, end, most);
  return after != begin ? after : nullptr;
}

bool is_ascii_letter(char byte) { return (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z'; }
bool is_ascii_other(char byte) { return byte > ' ' && byte < '\x7f'; }

const char* deep_seek_words(const char* begin, const char* end) {
  constexpr auto kIsWord = kAnyOf<kLetter | kMark>;
  constexpr auto kIsOther = kAnyOf<kPunctuation | kSymbol>;
  const auto [after, category] = symbol_at(begin);
  if (kIsOther(category) && is_ascii_other(*begin) && after != end && is_ascii_letter(*after)) {
    const char* at = after;
    while (at != end && is_ascii_letter(*at)) ++at;
    return at;
  }
  if (kIsWord(category)) return skip_word(after, end, kIsWord);
  if (!kIsOther(category) && !is_newline(*begin) && is_at(after, end, kIsWord)) {
    return skip_word(after, end, kIsWord);
  }
  if (kIsOther(category) || (*begin == ' ' && is_at(after, end, kIsOther))) {
    const char* at = skip(after, end, kIsOther);
    while (at != end && is_newline(*at)) ++at;
    return at;
  }
  return category & kSpace ? after_newlines_or_before_word(begin, end) : nullptr;
}

/// \s?[...]+ of DeepSeek Coder.
template <unsigned bits>
const char* with_space_before(const char* begin, const char* end) {
  const auto [after, category] = symbol_at(begin);
  const bool is_match =
      (category & bits) != 0 || ((category & kSpace) != 0 && is_at(after, end, kAnyOf<bits>));
  return is_match ? skip(after, end, kAnyOf<bits>) : nullptr;
}

const char* newline(const char* begin, const char*) {
  return is_newline(*begin) ? begin + 1 : nullptr;
}

constexpr bool is_between(char32_t value, char32_t first, char32_t last) {
  return value >= first && value <= last;
}
constexpr bool is_deep_seek_cjk(char32_t value) {
  return is_between(value, 0x4e00, 0x9fa5) || is_between(value, 0x3040, 0x30ff);
}
constexpr bool is_deep_seek_coder_cjk(char32_t value) {
  return is_between(value, 0x0800, 0x9fa5) || is_between(value, 0xac00, 0xd7ff);
}

template <bool (*is_in)(char32_t)>
const char* range(const char* begin, const char* end) {
  const char* at = begin;
  while (at != end) {
    const CodePoint symbol = decode_utf8(at);
    if (!is_in(symbol.value)) break;
    at += symbol.bytes;
  }
  return at != begin ? at : nullptr;
}

}  // namespace

Splitter splitter_of(SplitPattern pattern) {
  switch (pattern) {
    case SplitPattern::kGpt2: return gpt2;
    case SplitPattern::kCl100k: return llama3<Cl100k>;
    case SplitPattern::kLlama3: return llama3<Llama3>;
    case SplitPattern::kQwen2: return llama3<Qwen2>;
    case SplitPattern::kQwen35: return llama3<Qwen35>;
    case SplitPattern::kO200k: return o200k<O200k>;
    case SplitPattern::kTekken: return o200k<Tekken>;
    case SplitPattern::kNumber: return isolated<numbers<1>>;
    case SplitPattern::kDeepSeekNumbers: return isolated<numbers<3>>;
    case SplitPattern::kDeepSeekCjk: return isolated<range<is_deep_seek_cjk>>;
    case SplitPattern::kDeepSeekWords: return isolated<deep_seek_words>;
    case SplitPattern::kDeepSeekCoderLines: return isolated<newline>;
    case SplitPattern::kDeepSeekCoderWords: return isolated<with_space_before<kLetter>>;
    case SplitPattern::kDeepSeekCoderPunctuation: return isolated<with_space_before<kPunctuation>>;
    case SplitPattern::kDeepSeekCoderCjk: return isolated<range<is_deep_seek_coder_cjk>>;
  }
  return nullptr;  // not a pattern
}

}  // namespace strata
