// What filters and methods of strings share: stripping, replacing, splitting, changing case. All
// keep the origins of the characters that they keep.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "chat/heap.h"
#include "chat/value.h"
#include "strata/base/text_search.h"

namespace strata::chat {

/// Returns what finds a text, and charges for it.
[[nodiscard]] TextSearch search_for(Heap& heap, std::string_view wanted,
                                    TextSearch::Which which = TextSearch::Which::kFirst);

/// Which ends of a string to strip.
struct Sides {
  bool left = true;
  bool right = true;
};

/// Strips white space, or the characters of `characters` if that is given.
[[nodiscard]] Value strip(Heap& heap, const TracedText& text, const TracedText* characters,
                          Sides sides);
/// Replaces the first `most` occurrences of `old`, which is not empty; all if it is below 0.
[[nodiscard]] Value replace(Heap& heap, const TracedText& text, const TracedText& old,
                            const TracedText& fresh, std::int64_t most);
/// Splits at a separator, at most `most` times if that is not below 0. Throws if it is empty.
[[nodiscard]] Value split(Heap& heap, const TracedText& text, const TracedText& separator,
                          std::int64_t most);
[[nodiscard]] Value split_from_right(Heap& heap, const TracedText& text,
                                     const TracedText& separator, std::int64_t most);
/// Splits at runs of white space.
[[nodiscard]] Value split_words(Heap& heap, const TracedText& text, std::int64_t most);
/// Whether the lines of a text have their ends.
enum class LineEnds : bool { kLeftOut, kKept };
/// Splits at line ends.
[[nodiscard]] Value split_lines(Heap& heap, const TracedText& text, LineEnds ends);
/// Joins the elements' texts.
[[nodiscard]] Value join(Heap& heap, const std::vector<Value>& items, const TracedText& separator);

/// How letters are changed.
enum class LetterCase {
  kUpper,
  kLower,
  kCapitalized,  ///< the first character is a capital, the others are small
  kTitle,        ///< capitals behind all that is no letter: the method title
  kWords,        ///< capitals behind white space, hyphens and brackets: the filter title
};
/// Throws for letters beyond ASCII.
[[nodiscard]] Value change_case(Heap& heap, const TracedText& text, LetterCase wanted);

}  // namespace strata::chat
