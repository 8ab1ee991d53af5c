// Finds a text in others in time that grows with their sizes and never with the product of both, as
// that of std::string's find() does: what is searched, and for what, may be a stranger's choice.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

class TextSearch {
 public:
  /// Which of several occurrences is meant.
  enum class Which : bool { kFirst, kLast };

  explicit TextSearch(std::string_view wanted, Which which = Which::kFirst);
  /// Returns the bytes of memory that a search for so many bytes takes.
  [[nodiscard]] static std::size_t memory_bytes(std::size_t wanted) {
    return wanted * (1 + sizeof(std::size_t));
  }

  [[nodiscard]] std::size_t size() const { return wanted_.size(); }
  /// Returns where the wanted text begins in `text`, npos if it does not stand there. An empty one
  /// is first at 0 and last behind the end.
  [[nodiscard]] std::size_t in(std::string_view text) const;

 private:
  std::string wanted_;  ///< in the order of the search: back to front for the last occurrence
  std::vector<std::size_t> fallback_;  ///< by matched bytes - 1: how many of them may still match
  Which which_;
};

}  // namespace strata
