// Learns merges from counts of pieces. A merge replaces every occurrence of its pair, so a text
// becomes a symbol in one way only, and all occurrences of a pair arise in the step that makes the
// younger of its two symbols. Each pair is therefore a candidate once, with the list of its places;
// afterwards its count only sinks, which is noticed when it comes to the top of the heap. A place
// costs the same wherever it is: nothing is searched within a piece.
//
// A step merges L and R to N. Whatever stands before or behind loses its pair with L or R, and has
// one with N instead: the counts of these are gathered by neighbour, and meet the table of pairs
// once at the end of the step.

#include "tokenizer/bpe_trainer.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "strata/base/error.h"
#include "tokenizer/token_pair.h"

namespace strata {
namespace {

constexpr std::int32_t kNoSymbol = -1;

std::int32_t left_of(std::uint64_t pair) { return static_cast<std::int32_t>(pair >> 32); }
std::int32_t right_of(std::uint64_t pair) {
  return static_cast<std::int32_t>(pair & std::numeric_limits<std::uint32_t>::max());
}

std::uint32_t before(std::int32_t symbol) { return static_cast<std::uint32_t>(symbol) * 2; }
std::uint32_t behind(std::int32_t symbol) { return static_cast<std::uint32_t>(symbol) * 2 + 1; }
bool is_behind(std::uint32_t neighbour) { return (neighbour & 1) != 0; }
std::int32_t symbol_of(std::uint32_t neighbour) { return static_cast<std::int32_t>(neighbour / 2); }

}  // namespace

/// Counts of all pairs that ever were candidates; open addressing.
class BpeTrainer::PairCounts {
 public:
  /// Returns the count of a pair, 0 if it is new.
  std::int64_t& operator[](Pair pair) {
    if (size_ > entries_.size() / 2) grow();
    Entry& entry = entries_[find(pair)];
    if (entry.pair == kFree) ++size_;
    entry.pair = pair;
    return entry.count;
  }

 private:
  struct Entry {
    Pair pair = kFree;
    std::int64_t count = 0;
  };
  static constexpr Pair kFree = ~Pair{0};

  [[nodiscard]] std::size_t find(Pair pair) const {
    std::size_t at = (pair * 0x9e3779b97f4a7c15U) >> shift_;
    while (entries_[at].pair != pair && entries_[at].pair != kFree) {
      at = (at + 1) & (entries_.size() - 1);
    }
    return at;
  }
  void grow() {
    std::vector<Entry> old(entries_.size() * 2);
    std::swap(old, entries_);
    --shift_;
    for (const Entry& entry : old) {
      if (entry.pair != kFree) entries_[find(entry.pair)] = entry;
    }
  }

  static constexpr std::size_t kFirstEntries = std::size_t{1} << 16;
  std::vector<Entry> entries_ = std::vector<Entry>(kFirstEntries);
  int shift_ = 64 - std::countr_zero(kFirstEntries);
  std::size_t size_ = 0;
};

/// What one step does.
struct BpeTrainer::Merged {
  std::int32_t left;
  std::int32_t right;
  std::int32_t merged;
  std::uint32_t left_bytes;
  std::uint32_t right_bytes;
};

BpeTrainer::BpeTrainer(const PieceCounts& pieces, const std::array<std::int32_t, 256>& bytes)
    : pairs_(std::make_unique<PairCounts>()) {
  place_pieces(pieces, bytes);
  find_first_pairs(bytes);
}

BpeTrainer::~BpeTrainer() = default;

std::size_t BpeTrainer::memory_bytes(std::size_t pieces, std::size_t text_bytes) {
  // Each merge at a place takes a byte's symbol away and adds two places at most; half as many
  // pairs as bytes is more than texts have shown.
  constexpr std::size_t kPairBytes = sizeof(Candidate) + 4 * sizeof(std::uint64_t);
  return pieces * (sizeof(std::int64_t) + sizeof(Slot)) +
         text_bytes * (sizeof(Slot) + 3 * sizeof(Place) + kPairBytes / 2);
}

void BpeTrainer::place_pieces(const PieceCounts& pieces,
                              const std::array<std::int32_t, 256>& bytes) {
  const std::size_t slots = pieces.text_bytes() + pieces.size() + 1;
  if (slots > std::numeric_limits<Place>::max()) {
    throw OutOfMemory(
        "training a tokenizer: the distinct pieces of the text have 4 GiB or more; "
        "give less text: a sample of it makes nearly the same tokenizer");
  }
  lengths_.assign(static_cast<std::size_t>(*std::max_element(bytes.begin(), bytes.end())) + 1, 1);
  neighbours_.resize(lengths_.size() * 2);
  constexpr Slot kBetween{.begins = kNoSymbol, .ends = kNoSymbol, .piece = 0};
  slots_.reserve(slots);
  counts_.reserve(pieces.size());
  slots_.push_back(kBetween);
  pieces.for_each([&](const PieceCounts::Entry& entry) {
    const auto piece = static_cast<std::uint32_t>(counts_.size());
    counts_.push_back(static_cast<std::int64_t>(entry.count));
    for (const char byte : entry.piece()) {
      const std::int32_t symbol = bytes[static_cast<unsigned char>(byte)];
      slots_.push_back({.begins = symbol, .ends = symbol, .piece = piece});
    }
    slots_.push_back(kBetween);
  });
}

void BpeTrainer::find_first_pairs(const std::array<std::int32_t, 256>& bytes) {
  constexpr std::size_t kBytes = 256;
  std::vector<std::size_t> byte_of(lengths_.size());
  for (std::size_t byte = 0; byte < kBytes; ++byte) {
    byte_of[static_cast<std::size_t>(bytes[byte])] = byte;
  }
  std::vector<Neighbour> found(kBytes * kBytes);
  const auto for_each_place = [&](auto&& use) {
    for (std::size_t i = 0; i + 1 < slots_.size(); ++i) {
      const std::int32_t left = slots_[i].begins;
      const std::int32_t right = slots_[i + 1].begins;
      if (left == kNoSymbol || right == kNoSymbol) continue;
      use(found[byte_of[static_cast<std::size_t>(left)] * kBytes +
                byte_of[static_cast<std::size_t>(right)]],
          static_cast<Place>(i));
    }
  };
  for_each_place([&](Neighbour& pair, Place place) {
    pair.count += counts_[slots_[place].piece];
    ++pair.n_places;
  });
  std::size_t places = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    Neighbour& first = found[i];
    if (first.n_places == 0) continue;
    const Pair pair = pair_of(bytes[i / kBytes], bytes[i % kBytes]);
    (*pairs_)[pair] = first.count;
    candidates_.push_back(
        {.count = first.count, .pair = pair, .places = places, .n_places = first.n_places});
    first.places = places;
    places += first.n_places;
  }
  places_.resize(places);
  for_each_place([&](Neighbour& pair, Place place) { places_[pair.places++] = place; });
  std::make_heap(candidates_.begin(), candidates_.end());
}

bool BpeTrainer::merge_next(Merge merge) {
  while (!candidates_.empty()) {
    std::pop_heap(candidates_.begin(), candidates_.end());
    Candidate& top = candidates_.back();
    const std::int64_t count = (*pairs_)[top.pair];
    if (count == 0) {
      candidates_.pop_back();
      continue;
    }
    if (count != top.count) {
      top.count = count;
      std::push_heap(candidates_.begin(), candidates_.end());
      continue;
    }
    const Candidate next = top;
    candidates_.pop_back();
    const std::int32_t left = left_of(next.pair);
    const std::int32_t right = right_of(next.pair);
    const Merged merged{.left = left,
                        .right = right,
                        .merged = merge(left, right),
                        .left_bytes = lengths_[static_cast<std::size_t>(left)],
                        .right_bytes = lengths_[static_cast<std::size_t>(right)]};
    const auto id = static_cast<std::size_t>(merged.merged);
    if (lengths_.size() <= id) lengths_.resize(id + 1);
    lengths_[id] = merged.left_bytes + merged.right_bytes;
    neighbours_.resize(lengths_.size() * 2);
    for (std::size_t i = 0; i < next.n_places; ++i) merge_at(places_[next.places + i], merged);
    finish_step(merged);
    return true;
  }
  return false;
}

/// Places are in order, so of the overlapping pairs in a row of one symbol the leftmost goes first.
void BpeTrainer::merge_at(Place place, const Merged& merged) {
  Slot& first = slots_[place];
  if (first.begins != merged.left) return;
  Slot& second = slots_[place + merged.left_bytes];
  if (second.begins != merged.right) return;
  const Place end = place + merged.left_bytes + merged.right_bytes;
  first.begins = merged.merged;
  second.begins = kNoSymbol;
  slots_[end - 1].ends = merged.merged;
  const std::int64_t count = counts_[first.piece];
  const std::int32_t left = slots_[place - 1].ends;
  if (left != kNoSymbol) {
    note(before(left), place - lengths_[static_cast<std::size_t>(left)], count);
  }
  const std::int32_t right = slots_[end].begins;
  if (right != kNoSymbol) note(behind(right), place, count);
}

void BpeTrainer::note(std::uint32_t neighbour, Place place, std::int64_t count) {
  Neighbour& noted = neighbours_[neighbour];
  if (noted.n_places++ == 0) touched_.push_back(neighbour);
  noted.count += count;
  events_.push_back({.neighbour = neighbour, .place = place});
}

void BpeTrainer::finish_step(const Merged& merged) {
  const auto pair_with = [](std::uint32_t neighbour, std::int32_t left, std::int32_t right) {
    const std::int32_t symbol = symbol_of(neighbour);
    return is_behind(neighbour) ? pair_of(right, symbol) : pair_of(symbol, left);
  };
  for (const std::uint32_t at : touched_) {
    (*pairs_)[pair_with(at, merged.left, merged.right)] -= neighbours_[at].count;
    (*pairs_)[pair_with(at, merged.merged, merged.merged)] += neighbours_[at].count;
  }
  for (const std::uint32_t at : touched_) {
    Neighbour& neighbour = neighbours_[at];
    const Pair pair = pair_with(at, merged.merged, merged.merged);
    neighbour.places = places_.size();
    places_.resize(places_.size() + neighbour.n_places);
    candidates_.push_back({.count = (*pairs_)[pair],
                           .pair = pair,
                           .places = neighbour.places,
                           .n_places = neighbour.n_places});
    std::push_heap(candidates_.begin(), candidates_.end());
  }
  for (const Event& event : events_) {
    places_[neighbours_[event.neighbour].places++] = event.place;
  }
  for (const std::uint32_t at : touched_) neighbours_[at] = {};
  touched_.clear();
  events_.clear();
}

}  // namespace strata
