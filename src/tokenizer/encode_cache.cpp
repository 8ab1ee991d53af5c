// Looks pieces up in a thread's cache. A line is found by its piece's key, and holds that key: for
// the short pieces that are remembered comparing keys and lengths is exact.

#include "strata/tokenizer/encode_cache.h"

#include "tokenizer/piece_key.h"

namespace strata {
namespace {

constexpr std::size_t kEntriesLog2 = 16;
static_assert(EncodeCache::Entry::kMostBytes <= kMostKeyBytes);

}  // namespace

EncodeCache::EncodeCache() : entries_(std::size_t{1} << kEntriesLog2) {}

void EncodeCache::use_for(std::uint64_t tokenizer_hash) {
  if (tokenizer_hash_ == tokenizer_hash) return;
  for (Entry& entry : entries_) entry.bytes = 0;
  tokenizer_hash_ = tokenizer_hash;
}

EncodeCache::Entry& EncodeCache::find(std::string_view piece, bool& known) {
  const PieceKey key = piece_key(piece);
  Entry& entry = entries_[hash_of(key, piece.size()) >> (64 - kEntriesLog2)];
  known = entry.bytes == piece.size() && entry.key == key;
  if (!known) {
    entry.key = key;
    entry.bytes = 0;  // until the ids are there
  }
  return entry;
}

}  // namespace strata
