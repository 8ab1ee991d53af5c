// How much text the rules of a tokenizer's file may make of a text. Rules that only rewrite it stay
// far below; forty that double it would take all memory there is, so they end in an error.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace strata {

/// The most rules that a normalizer, a pre-tokenizer or a decoder may have: each goes over the
/// text.
inline constexpr std::size_t kMostRules = 256;
/// The most bytes that a rule may look for.
inline constexpr std::size_t kMostPatternBytes = 4096;

class TextBudget {
 public:
  /// `bytes`: of the text, or of all texts that the rules will see.
  explicit TextBudget(std::size_t bytes) : bytes_(bytes) {}

  /// A rule begins to write what it makes of a text. `place` is where it stands in the file, and
  /// outlives the budget.
  void begin_rule(std::string_view place) {
    place_ = place;
    written_ = 0;
  }
  /// The rule is about to write so many bytes more. Throws ConfigError, without the file's name, if
  /// the text grows too long, or if all rules together have written too much.
  void write(std::size_t bytes) {
    written_ += bytes;
    all_ += bytes;
    if (kept_ + written_ > most() || all_ > kRewrites * most()) fail();
  }
  /// So many bytes have gone through all rules.
  void keep(std::size_t bytes) { kept_ += bytes; }

 private:
  static constexpr std::size_t kGrowth = 16;
  static constexpr std::size_t kFree = std::size_t{64} << 10;  ///< for what is put around texts
  static constexpr std::size_t kRewrites = 32;

  [[nodiscard]] std::size_t most() const { return kGrowth * bytes_ + kFree; }
  [[noreturn]] void fail() const;

  std::size_t bytes_;
  std::string_view place_{};
  std::size_t written_ = 0;  ///< by this rule
  std::size_t kept_ = 0;
  std::size_t all_ = 0;  ///< ever written
};

}  // namespace strata
