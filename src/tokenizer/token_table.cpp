// Keeps the texts of tokens, and finds their ids in an open-addressing table.

#include "tokenizer/token_table.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

namespace strata {

TokenTable::TokenTable(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {
  reserve(tokens_.size());
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (!tokens_[i].empty()) index(static_cast<std::int32_t>(i));
  }
}

void TokenTable::reserve(std::size_t count) {
  tokens_.reserve(count);
  const std::size_t slots = std::bit_ceil(std::max<std::size_t>(2 * count, 16));
  if (slots > slots_.size()) grow(slots);
}

void TokenTable::set(std::int32_t id, std::string_view text) {
  const auto at = static_cast<std::size_t>(id);
  if (tokens_.size() <= at) tokens_.resize(at + 1);
  tokens_[at] = text;
  if (2 * (used_ + 1) > slots_.size()) grow(std::max<std::size_t>(2 * slots_.size(), 16));
  index(id);
}

std::optional<std::int32_t> TokenTable::find(std::string_view text) const {
  if (slots_.empty()) return std::nullopt;
  const Slot& slot = slots_[slot_of(text, std::hash<std::string_view>()(text))];
  return slot.id < 0 ? std::nullopt : std::optional(slot.id);
}

/// Returns the text's slot, or the free one where it belongs. An entry whose token was replaced is
/// passed over, since its text is another one.
std::size_t TokenTable::slot_of(std::string_view text, std::size_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.id < 0) return at;
    if (slot.hash == static_cast<std::uint32_t>(hash) && this->text(slot.id) == text) return at;
  }
}

void TokenTable::index(std::int32_t id) {
  const std::size_t hash = std::hash<std::string_view>()(text(id));
  Slot& slot = slots_[slot_of(text(id), hash)];
  if (slot.id >= 0) return;
  slot = {.hash = static_cast<std::uint32_t>(hash), .id = id};
  ++used_;
}

void TokenTable::grow(std::size_t slots) {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots));
  used_ = 0;
  for (const Slot& slot : old) {
    if (slot.id >= 0) index(slot.id);
  }
}

}  // namespace strata
