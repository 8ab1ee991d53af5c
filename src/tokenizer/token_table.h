// Tokens by id, and ids by token. A vocabulary has 100,000 of them and its merges ask for three
// each, so looking one up is one probe of a flat table as a rule.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

class TokenTable {
 public:
  TokenTable() = default;
  /// Takes tokens by id; empty ones are none. Of equal ones the first has its id found.
  explicit TokenTable(std::vector<std::string> tokens);

  /// Makes room for so many tokens.
  void reserve(std::size_t count);
  /// Sets a token's text, which no other id may have.
  void set(std::int32_t id, std::string_view text);

  [[nodiscard]] std::optional<std::int32_t> find(std::string_view text) const;
  /// Returns the token of an id below size(); empty if there is none.
  [[nodiscard]] const std::string& text(std::int32_t id) const {
    return tokens_[static_cast<std::size_t>(id)];
  }
  /// Returns one more than the highest id.
  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(tokens_.size()); }
  [[nodiscard]] const std::vector<std::string>& tokens() const { return tokens_; }

 private:
  struct Slot {
    std::uint32_t hash = 0;  ///< lower half
    std::int32_t id = -1;    ///< free if negative
  };
  [[nodiscard]] std::size_t slot_of(std::string_view text, std::size_t hash) const;
  void index(std::int32_t id);
  void grow(std::size_t slots);

  std::vector<std::string> tokens_{};
  std::vector<Slot> slots_{};  ///< a power of two, at most half full
  std::size_t used_ = 0;
};

}  // namespace strata
