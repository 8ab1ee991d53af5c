// What becomes of a text before it is split: normal form C, a prefix, replacements.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/json_section.h"

namespace strata {

/// Returns `text` with every `from` replaced; an empty `from` changes nothing.
[[nodiscard]] std::string replaced(std::string_view text, std::string_view from,
                                   std::string_view to);

class Normalizer {
 public:
  /// Reads the section `normalizer` of tokenizer.json: null, NFC, Prepend, Replace of a text, and
  /// Sequence of these. Throws ConfigError for another.
  static Normalizer read(const JsonSection& section);

  void add_nfc() { steps_.push_back({Kind::kNfc, {}, {}}); }
  void add_prepend(std::string text) { steps_.push_back({Kind::kPrepend, std::move(text), {}}); }
  void add_replace(std::string from, std::string to) {
    steps_.push_back({Kind::kReplace, std::move(from), std::move(to)});
  }

  /// Removes spaces where a text begins, and all but the first of several in a row.
  void add_collapse_spaces() { steps_.push_back({Kind::kCollapseSpaces, {}, {}}); }
  /// Removes every `suffix` that a text ends with.
  void add_strip_end(std::string suffix) {
    steps_.push_back({Kind::kStripEnd, std::move(suffix), {}});
  }

  /// Returns the normal form of valid UTF-8: `text` itself, or a view of `buffer`.
  [[nodiscard]] std::string_view apply(std::string_view text, std::string& buffer) const;

 private:
  enum class Kind : std::uint8_t { kNfc, kPrepend, kReplace, kCollapseSpaces, kStripEnd };
  struct Step {
    Kind kind;
    std::string text;
    std::string to;
  };
  void add(const JsonSection& section);
  std::vector<Step> steps_;
};

}  // namespace strata
