// Counts pieces in a hash table whose entries hold the keys of their pieces, so that most look-ups
// touch one entry and no text.

#include "tokenizer/piece_counts.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace strata {
namespace {

constexpr std::size_t kFirstEntries = 1024;
constexpr std::size_t kBlockBytes = std::size_t{1} << 16;

/// Long pieces often begin and end alike, so their hash takes in what the key leaves out.
std::uint64_t hash_of_piece(std::string_view piece, const PieceKey& key) {
  std::uint64_t hash = hash_of(key, piece.size());
  if (piece.size() <= kMostKeyBytes) return hash;
  for (std::size_t at = 16; at + 8 < piece.size(); at += 8) {
    hash =
        (hash ^ (hash >> 32) ^ load_word<std::uint64_t>(piece.data() + at)) * 0x9e3779b97f4a7c15U;
  }
  return hash;
}

}  // namespace

PieceCounts::PieceCounts()
    : entries_(kFirstEntries), shift_(64 - std::countr_zero(kFirstEntries)) {}

std::size_t PieceCounts::memory_bytes() const {
  return entries_.size() * sizeof(Entry) + block_bytes_;
}

std::size_t PieceCounts::find(std::string_view piece, const PieceKey& key) const {
  for (std::size_t at = hash_of_piece(piece, key) >> shift_;;
       at = (at + 1) & (entries_.size() - 1)) {
    const Entry& entry = entries_[at];
    if (entry.bytes == 0) return at;
    if (entry.bytes != piece.size() || entry.key != key) continue;
    if (piece.size() <= kMostKeyBytes || entry.piece() == piece) return at;
  }
}

void PieceCounts::add(std::string_view piece, std::uint64_t count) {
  const PieceKey key = piece_key(piece);
  Entry& entry = entries_[find(piece, key)];
  entry.count += count;
  if (entry.bytes > 0) return;
  entry.key = key;
  entry.text = keep(piece);
  entry.bytes = piece.size();
  ++size_;
  text_bytes_ += piece.size();
  if (size_ > entries_.size() / 4 * 3) grow();
}

void PieceCounts::add(const PieceCounts& other) {
  other.for_each([this](const Entry& entry) { add(entry.piece(), entry.count); });
}

void PieceCounts::grow() {
  std::vector<Entry> old(entries_.size() * 2);
  std::swap(old, entries_);
  --shift_;
  for (const Entry& entry : old) {
    if (entry.bytes > 0) entries_[find(entry.piece(), entry.key)] = entry;
  }
}

const char* PieceCounts::keep(std::string_view piece) {
  if (piece.size() > block_left_) {
    block_left_ = std::max(kBlockBytes, piece.size());
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(block_left_));
    block_end_ = blocks_.back().get() + block_left_;
    block_bytes_ += block_left_;
  }
  char* const text = block_end_ - block_left_;
  std::memcpy(text, piece.data(), piece.size());
  block_left_ -= piece.size();
  return text;
}

}  // namespace strata
