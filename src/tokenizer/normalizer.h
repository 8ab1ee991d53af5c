// What becomes of a text before it is split: normal form C, a prefix, replacements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strata/base/text_search.h"
#include "tokenizer/json_section.h"
#include "tokenizer/text_budget.h"

namespace strata {

/// Returns `text` with every `from` replaced; an empty `from` changes nothing.
[[nodiscard]] std::string replaced(std::string_view text, std::string_view from,
                                   std::string_view to);
/// The same, for what a file wants replaced: each byte is taken from the budget.
[[nodiscard]] std::string replaced(std::string_view text, const TextSearch& from,
                                   std::string_view to, TextBudget& budget);

class Normalizer {
 public:
  /// Reads the section `normalizer` of tokenizer.json: null, NFC, Prepend, Replace of a text, and
  /// Sequence of these. Throws ConfigError for another.
  static Normalizer read(const JsonSection& section);

  void add_nfc() { steps_.push_back({.kind = Kind::kNfc}); }
  void add_prepend(std::string text) {
    steps_.push_back({.kind = Kind::kPrepend, .text = std::move(text)});
  }
  void add_replace(const std::string& from, std::string to) {
    steps_.push_back({.kind = Kind::kReplace,
                      .text = std::move(to),
                      .search = TextSearch(from),
                      .replaces_space = from == " "});
  }

  /// Removes spaces where a text begins, and all but the first of several in a row.
  void add_collapse_spaces() { steps_.push_back({.kind = Kind::kCollapseSpaces}); }
  /// Removes every `suffix` that a text ends with.
  void add_strip_end(std::string suffix) {
    steps_.push_back({.kind = Kind::kStripEnd, .text = std::move(suffix)});
  }

  [[nodiscard]] bool is_empty() const { return steps_.empty(); }
  /// Tells whether it does nothing but normal form C.
  [[nodiscard]] bool is_nfc() const;
  /// What writes spaces as U+2581.
  struct SpaceRule {
    bool prefix = false;  ///< puts one in front of a text first
  };
  /// Returns the rule if it does nothing else.
  [[nodiscard]] std::optional<SpaceRule> space_rule() const;

  /// Returns the normal form of valid UTF-8: `text` itself, or a view of `buffer`. Throws as
  /// TextBudget.
  [[nodiscard]] std::string_view apply(std::string_view text, std::string& buffer,
                                       TextBudget& budget) const;

 private:
  enum class Kind : std::uint8_t { kNfc, kPrepend, kReplace, kCollapseSpaces, kStripEnd };
  struct Step {
    Kind kind = Kind::kNfc;
    std::string text{};                     ///< kPrepend, kStripEnd; kReplace: what is put in
    TextSearch search{std::string_view()};  ///< kReplace
    bool replaces_space = false;            ///< kReplace: the text looked for is one space
    std::string place = "the normalizer";   ///< in the file
  };
  void add(const JsonSection& section);
  std::vector<Step> steps_;
};

}  // namespace strata
