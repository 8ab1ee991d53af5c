// Merges the symbols of a piece. Merges are an open-addressing table from pairs of ids to rank and
// result. Short rows of symbols are scanned for the lowest rank again after each merge, which is
// faster than a heap; long ones, which are rare, use a heap, so that no text takes quadratic time.

#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <queue>
#include <tuple>

#include "tokenizer/token_pair.h"
#include "tokenizer/unicode.h"

namespace strata {
namespace {

constexpr std::int32_t kNone = -1;
constexpr std::size_t kMostScanned = 64;  ///< symbols up to which scanning beats a heap
constexpr char32_t kWordBegin = U'\u2581';

std::uint64_t points_of(char32_t left, char32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | right;
}
std::size_t slot_of(std::uint64_t pair, int shift) {
  return static_cast<std::size_t>((pair * 0x9e3779b97f4a7c15U) >> shift);
}

std::string byte_token(unsigned byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + '>';
}

}  // namespace

Bpe::Bpe(const std::vector<std::string>& tokens, const std::vector<BpeMerge>& merges,
         const BpeOptions& options)
    : options_(options), whole_(options.ignore_merges ? tokens : std::vector<std::string>()) {
  bytes_.fill(kNone);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string& token = tokens[i];
    if (token.empty()) continue;
    const auto id = static_cast<std::int32_t>(i);
    if (options.symbols == BpeSymbols::kBytes) {
      if (token.size() == 1) bytes_[static_cast<unsigned char>(token[0])] = id;
      continue;
    }
    const CodePoint first = decode_utf8(token.data());
    if (first.bytes == token.size()) code_points_.emplace(first.value, id);
    if (options.byte_fallback && token.size() == 6 && token.starts_with("<0x")) {
      for (unsigned byte = 0; byte < 256; ++byte) {
        if (token == byte_token(byte)) bytes_[byte] = id;
      }
    }
  }
  const std::size_t slots = std::bit_ceil(std::max<std::size_t>(merges.size() * 2, 16));
  shift_ = 64 - std::countr_zero(slots);
  merges_.resize(slots);
  for (const BpeMerge& merge : merges) {
    add_merge(merge);
    if (options.cuts == SafeCuts::kAllowed) {
      note_pairs(tokens[static_cast<std::size_t>(merge.merged)]);
    }
  }
}

/// If a pair is listed twice the later one counts, as in the reference.
void Bpe::add_merge(const BpeMerge& merge) {
  const std::uint64_t pair = pair_of(merge.left, merge.right);
  std::size_t at = slot_of(pair, shift_);
  while (merges_[at].pair != kFree && merges_[at].pair != pair) at = (at + 1) % merges_.size();
  merges_[at] = {.pair = pair, .rank = merge.rank, .merged = merge.merged};
}

std::vector<BpeMerge> Bpe::merges() const {
  std::vector<BpeMerge> all;
  for (const Slot& slot : merges_) {
    if (slot.pair == kFree) continue;
    all.push_back({.left = static_cast<std::int32_t>(slot.pair >> 32),
                   .right = static_cast<std::int32_t>(slot.pair & 0xffffffffU),
                   .merged = slot.merged,
                   .rank = slot.rank});
  }
  std::ranges::sort(all, {}, [](const BpeMerge& merge) {
    return std::tuple(merge.rank, merge.left, merge.right);
  });
  return all;
}

void Bpe::note_pairs(std::string_view token) {
  char32_t before = 0;
  for (std::size_t at = 0; at < token.size();) {
    const CodePoint point = decode_utf8(token.data() + at);
    if (at > 0) pairs_.insert(points_of(before, point.value));
    before = point.value;
    at += point.bytes;
  }
}

Bpe::Found Bpe::find_merge(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair = pair_of(left, right);
  for (std::size_t at = slot_of(pair, shift_);; at = (at + 1) & (merges_.size() - 1)) {
    const Slot& slot = merges_[at];
    if (slot.pair == pair) return {slot.rank, slot.merged};
    if (slot.pair == kFree) return {kNoRank, kNone};
  }
}

/// Where both code points are known, or become bytes, nothing but a merge reaches across.
bool Bpe::is_safe_cut(char32_t left, char32_t right) const {
  if (pairs_.contains(points_of(left, right))) return false;
  if (!options_.unk) return true;
  return code_points_.contains(left) || code_points_.contains(right);
}

/// Only words and what is not ASCII are tried: other runs without a cut are short.
std::size_t Bpe::end_of_cut(std::string_view text, std::size_t begin) const {
  CodePoint before = decode_utf8(text.data() + begin);
  std::size_t at = begin + before.bytes;
  while (at < text.size()) {
    const CodePoint point = decode_utf8(text.data() + at);
    if (point.value >= 0x80 && (point.value == kWordBegin || before.value >= 0x80) &&
        is_safe_cut(before.value, point.value)) {
      break;
    }
    before = point;
    at += point.bytes;
  }
  return at;
}

void Bpe::encode(std::string_view piece, EncodeCache& cache, std::vector<std::int32_t>& ids) const {
  if (options_.cuts == SafeCuts::kNever) {
    if (!piece.empty()) encode_cut(piece, cache, ids);
    return;
  }
  for (std::size_t begin = 0; begin < piece.size();) {
    const std::size_t end = end_of_cut(piece, begin);
    encode_cut(piece.substr(begin, end - begin), cache, ids);
    begin = end;
  }
}

void Bpe::encode_cut(std::string_view piece, EncodeCache& cache,
                     std::vector<std::int32_t>& ids) const {
  if (piece.size() > EncodeCache::Entry::kMostBytes) {
    merge_piece(piece, ids);
    return;
  }
  bool known = false;
  EncodeCache::Entry& entry = cache.find(piece, known);
  if (known) {
    ids.insert(ids.end(), entry.ids.begin(), entry.ids.begin() + entry.count);
    return;
  }
  const std::size_t begin = ids.size();
  merge_piece(piece, ids);
  const std::size_t count = ids.size() - begin;
  if (count > EncodeCache::Entry::kMostIds) return;
  std::copy_n(ids.begin() + static_cast<std::ptrdiff_t>(begin), count, entry.ids.begin());
  entry.count = static_cast<std::uint8_t>(count);
  entry.bytes = static_cast<std::uint8_t>(piece.size());
}

void Bpe::merge_piece(std::string_view piece, std::vector<std::int32_t>& ids) const {
  if (options_.ignore_merges) {
    if (const std::optional<std::int32_t> token = whole_.find(piece)) {
      ids.push_back(*token);
      return;
    }
  }
  const std::size_t begin = ids.size();
  append_symbols(piece, ids);
  if (ids.size() - begin <= kMostScanned) {
    merge_few(ids, begin);
  } else {
    merge_many(ids, begin);
  }
}

bool Bpe::append_byte_tokens(std::string_view symbol, std::vector<std::int32_t>& symbols) const {
  const auto id = [&](char byte) { return bytes_[static_cast<unsigned char>(byte)]; };
  if (!std::all_of(symbol.begin(), symbol.end(), [&](char byte) { return id(byte) != kNone; })) {
    return false;
  }
  for (const char byte : symbol) symbols.push_back(id(byte));
  return true;
}

void Bpe::append_symbols(std::string_view piece, std::vector<std::int32_t>& symbols) const {
  const bool is_bytes = options_.symbols == BpeSymbols::kBytes;
  bool unknown = false;  // an unknown token is written when the next known one is
  for (std::size_t at = 0; at < piece.size();) {
    std::size_t length = 1;
    std::int32_t id = kNone;
    if (is_bytes) {
      id = bytes_[static_cast<unsigned char>(piece[at])];
    } else {
      const CodePoint point = decode_utf8(piece.data() + at);
      length = point.bytes;
      const auto found = code_points_.find(point.value);
      if (found != code_points_.end()) id = found->second;
    }
    const std::string_view symbol = piece.substr(at, length);
    at += length;
    if (id != kNone) {
      if (unknown) symbols.push_back(*options_.unk);
      unknown = false;
      symbols.push_back(id);
    } else if (!(options_.byte_fallback && append_byte_tokens(symbol, symbols)) && options_.unk) {
      if (unknown && !options_.fuse_unk) symbols.push_back(*options_.unk);
      unknown = true;
    }
  }
  if (unknown) symbols.push_back(*options_.unk);
}

void Bpe::merge_few(std::vector<std::int32_t>& ids, std::size_t begin) const {
  std::array<Found, kMostScanned> merges;
  std::size_t count = ids.size() - begin;
  std::int32_t* const id = ids.data() + begin;
  for (std::size_t i = 0; i + 1 < count; ++i) merges[i] = find_merge(id[i], id[i + 1]);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == kNoRank) break;
    id[best] = merges[best].merged;
    --count;
    for (std::size_t i = best + 1; i < count; ++i) {
      id[i] = id[i + 1];
      merges[i - 1] = merges[i];
    }
    // merges[i] is the one of id[i] and id[i + 1]; those beside `best` have changed.
    if (best + 1 < count) merges[best] = find_merge(id[best], id[best + 1]);
    if (best > 0) merges[best - 1] = find_merge(id[best - 1], id[best]);
  }
  ids.resize(begin + count);
}

/// A merge that was possible when it was found. It is stale if its left symbol has changed since,
/// or is followed by another one.
struct Bpe::Candidate {
  std::uint32_t rank;
  std::uint32_t at;
  std::int32_t left;
  std::int32_t right;
  std::int32_t merged;
  bool operator<(const Candidate& other) const {  // the queue's top is the largest
    return rank != other.rank ? rank > other.rank : at > other.at;
  }
};

void Bpe::merge_many(std::vector<std::int32_t>& ids, std::size_t begin) const {
  constexpr std::uint32_t kEnd = ~std::uint32_t{0};
  const auto count = static_cast<std::uint32_t>(ids.size() - begin);
  std::int32_t* const id = ids.data() + begin;  // kNone where a symbol was merged away
  std::vector<std::uint32_t> next(count);
  std::vector<std::uint32_t> before(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    next[i] = i + 1 < count ? i + 1 : kEnd;
    before[i] = i > 0 ? i - 1 : kEnd;
  }
  std::priority_queue<Candidate> queue;
  const auto consider = [&](std::uint32_t at) {
    if (at == kEnd || next[at] == kEnd) return;
    const std::int32_t right = id[next[at]];
    const Found found = find_merge(id[at], right);
    if (found.rank != kNoRank) queue.push({found.rank, at, id[at], right, found.merged});
  };
  for (std::uint32_t i = 0; i < count; ++i) consider(i);
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    const std::uint32_t right = next[top.at];
    if (id[top.at] != top.left || right == kEnd || id[right] != top.right) continue;
    id[top.at] = top.merged;
    id[right] = kNone;
    next[top.at] = next[right];
    if (next[right] != kEnd) before[next[right]] = top.at;
    consider(before[top.at]);
    consider(top.at);
  }
  ids.erase(std::remove(ids.begin() + static_cast<std::ptrdiff_t>(begin), ids.end(), kNone),
            ids.end());
}

}  // namespace strata
