// Pre-tokenizers cut a text into pieces that byte pair encoding then looks at one by one. Their
// regular expressions are few and the same in all files, so each of them is written out by hand: a
// splitter finds the end of the piece at a position, as the expression's backtracking would.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace strata {

/// The regular expressions that are known. regex_of() has their texts.
enum class SplitPattern : std::uint8_t {
  kGpt2,                ///< GPT-2, and ByteLevel with use_regex
  kCl100k,              ///< gpt-4: as Llama 3, but white space at the end of a text is one piece
  kLlama3,              ///< Llama 3
  kQwen2,               ///< Qwen 2, 2.5 and 3: as Llama 3, but each number alone
  kQwen35,              ///< Qwen 3.5: as Qwen 2, but marks belong to words
  kO200k,               ///< gpt-4o, gpt-oss, Llama 4
  kTekken,              ///< Mistral: as o200k, without contractions, and each number alone
  kNumber,              ///< each number alone
  kDeepSeekNumbers,     ///< DeepSeek V3 and R1, first of three: up to three numbers
  kDeepSeekCjk,         ///< second of three: Han, Hiragana, Katakana
  kDeepSeekWords,       ///< third of three
  kDeepSeekCoderLines,  ///< DeepSeek Coder, first of four: each CR and LF alone
  kDeepSeekCoderWords,  ///< second of four: letters
  kDeepSeekCoderPunctuation,  ///< third of four
  kDeepSeekCoderCjk,          ///< fourth of four: Han, Hangul and others
};
inline constexpr int kSplitPatterns = 15;

/// Who reads an expression. They disagree, as on what \p{N}{1,3}+ and $ mean.
enum class RegexDialect : std::uint8_t {
  kHuggingFace,  ///< tokenizer.json
  kTiktoken,     ///< tiktoken's own encodings, tekken.json
};

/// Returns the pattern that `regex` is the text of; none if it is not literally one of those known.
/// CR and LF may stand in it themselves or as \r and \n.
[[nodiscard]] std::optional<SplitPattern> split_pattern_of(
    std::string_view regex, RegexDialect dialect = RegexDialect::kHuggingFace);

/// Returns the text of a pattern, in tiktoken's spelling if only tiktoken has it (cl100k).
[[nodiscard]] std::string_view regex_of(SplitPattern pattern);

/// Returns the end of the piece that begins at `begin`, which lies before `end`, and is the begin
/// of the text or the end of a piece. A piece is a match, or what lies between two ("isolated").
/// Needs valid UTF-8; never looks before `begin`.
using Splitter = const char* (*)(const char* begin, const char* end);
[[nodiscard]] Splitter splitter_of(SplitPattern pattern);

/// The same by offsets in bytes. Loops should use split(), which looks the splitter up once.
[[nodiscard]] inline std::size_t end_of_piece(SplitPattern pattern, std::string_view text,
                                              std::size_t begin) {
  const char* const end = splitter_of(pattern)(text.data() + begin, text.data() + text.size());
  return static_cast<std::size_t>(end - text.data());
}

/// Calls `piece(std::string_view)` for each piece of `text`, in order; together they are `text`.
template <class Piece>
void split(SplitPattern pattern, std::string_view text, Piece&& piece) {
  const Splitter splitter = splitter_of(pattern);
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    const char* const next = splitter(at, end);
    piece(std::string_view(at, static_cast<std::size_t>(next - at)));
    at = next;
  }
}

}  // namespace strata
