// Cuts a normalized text into the pieces that byte pair encoding looks at one by one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/function_ref.h"
#include "strata/base/text_search.h"
#include "tokenizer/json_section.h"
#include "tokenizer/splitter.h"

namespace strata {

class PreTokenizer {
 public:
  /// Whether a piece stands where the text begins, which some schemes ask for.
  enum class Place : bool { kBegin, kLater };
  using OnPiece = FunctionRef<void(std::string_view)>;

  /// Reads the section `pre_tokenizer` of tokenizer.json: null, Split by one of the known regular
  /// expressions or by a text, ByteLevel, Metaspace, Digits, and Sequence of these. Throws
  /// ConfigError for another.
  static PreTokenizer read(const JsonSection& section);

  void add_pattern(SplitPattern pattern);
  void set_byte_level() { is_byte_level_ = true; }

  /// Tells whether pieces are written in ByteLevel's code points, that is whether the vocabulary
  /// consists of bytes.
  [[nodiscard]] bool is_byte_level() const { return is_byte_level_; }
  /// Tells whether texts remain whole, so that they are best cut elsewhere.
  [[nodiscard]] bool keeps_texts_whole() const;
  /// Returns the patterns by which it splits, in order; nothing if it does anything else, but for
  /// ByteLevel.
  [[nodiscard]] std::optional<std::vector<SplitPattern>> patterns() const;
  /// How Metaspace writes spaces.
  struct SpaceRule {
    bool prefix_first = false;  ///< puts one in front of a text,
    bool prefix_later = false;  ///< and behind added tokens in it
    bool splits = false;        ///< and splits the text before each
  };
  /// Returns the rule if it does nothing but write spaces as U+2581.
  [[nodiscard]] std::optional<SpaceRule> space_rule() const;

  /// Calls `on_piece` for each piece of valid UTF-8, in order.
  template <class Piece>
  void apply(std::string_view text, Place place, Piece&& on_piece) const {
    if (is_one_pattern_) {
      for (const char *at = text.data(), *end = at + text.size(); at != end;) {
        const char* const next = steps_[0].splitter(at, end);
        on_piece(std::string_view(at, static_cast<std::size_t>(next - at)));
        at = next;
      }
    } else {
      run(0, text, place, on_piece);
    }
  }

 private:
  enum class Kind : std::uint8_t { kSplit, kSplitBehind, kMetaspace, kPrefixSpace };
  enum class Prepend : std::uint8_t { kAlways, kFirst, kNever };
  struct Step {
    Kind kind = Kind::kSplit;
    Splitter splitter = nullptr;            ///< kSplit
    std::optional<SplitPattern> pattern{};  ///< kSplit: what the splitter is of, if it is of one
    TextSearch search{std::string_view()};  ///< kSplitBehind
    std::string text{};                     ///< kMetaspace: the replacement, a character
    Prepend prepend = Prepend::kAlways;     ///< kMetaspace
    bool splits = true;                     ///< kMetaspace
  };

  static Step split_step(SplitPattern pattern) {
    return {.kind = Kind::kSplit, .splitter = splitter_of(pattern), .pattern = pattern};
  }
  void add(const JsonSection& section);
  void add_split(const JsonSection& section);
  void add_metaspace(const JsonSection& section);
  void add_byte_level(const JsonSection& section);
  void run(std::size_t step, std::string_view text, Place place, OnPiece on_piece) const;
  void run_metaspace(std::size_t step, std::string_view text, Place place, OnPiece on_piece) const;

  std::vector<Step> steps_;
  bool is_byte_level_ = false;
  bool is_one_pattern_ = false;
};

}  // namespace strata
