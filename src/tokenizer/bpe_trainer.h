// Learns the merges of byte pair encoding: again and again the pair of neighbours that occurs most
// often becomes one symbol, of equal ones that with the smaller ids, left before right. These are
// the merges of the library `tokenizers`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "strata/base/function_ref.h"
#include "tokenizer/piece_counts.h"

namespace strata {

class BpeTrainer {
 public:
  /// Takes the id of each byte. Throws OutOfMemory for pieces of 4 GiB or more in all.
  BpeTrainer(const PieceCounts& pieces, const std::array<std::int32_t, 256>& bytes);
  ~BpeTrainer();
  BpeTrainer(const BpeTrainer&) = delete;
  BpeTrainer& operator=(const BpeTrainer&) = delete;

  /// Gives the id of the symbol that two become; a new one or, of a text that is a token already,
  /// its own. Symbols of bytes never have it.
  using Merge = FunctionRef<std::int32_t(std::int32_t left, std::int32_t right)>;

  /// Merges the pair that is the next and returns true, or returns false if no pair occurs any
  /// more.
  bool merge_next(Merge merge);

  /// Returns about how many bytes of memory training takes beside the table of pieces.
  [[nodiscard]] static std::size_t memory_bytes(std::size_t pieces, std::size_t text_bytes);

 private:
  using Pair = std::uint64_t;   ///< left id in the upper half, right id in the lower one
  using Place = std::uint32_t;  ///< an index of slots_

  /// One byte of a piece. Slots of pieces stand in a row, with a free one between pieces.
  struct Slot {
    std::int32_t begins;  ///< the symbol whose first byte this is, or kNone
    std::int32_t ends;    ///< the symbol whose last byte this is; stale inside of a symbol
    std::uint32_t piece;  ///< an index of counts_
  };
  /// A pair that may be the next. The count is an upper bound: it sinks while the pair waits.
  struct Candidate {
    std::int64_t count;
    Pair pair;
    std::size_t places;                             ///< where its places begin in places_
    std::uint32_t n_places;                         ///< some of them may be stale
    bool operator<(const Candidate& other) const {  // the heap's top is the largest
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };
  /// A symbol that stands before, or behind, what one step has merged.
  struct Neighbour {
    std::int64_t count = 0;
    std::size_t places = 0;
    std::uint32_t n_places = 0;
  };
  struct Event {
    std::uint32_t neighbour;
    Place place;
  };
  class PairCounts;
  struct Merged;

  void place_pieces(const PieceCounts& pieces, const std::array<std::int32_t, 256>& bytes);
  void find_first_pairs(const std::array<std::int32_t, 256>& bytes);
  void merge_at(Place place, const Merged& merged);
  void note(std::uint32_t neighbour, Place place, std::int64_t count);
  void finish_step(const Merged& merged);

  std::vector<Slot> slots_{};
  std::vector<std::int64_t> counts_{};    ///< of pieces
  std::vector<std::uint32_t> lengths_{};  ///< of symbols, in bytes
  std::vector<Place> places_{};
  std::vector<Candidate> candidates_{};  ///< a heap
  std::unique_ptr<PairCounts> pairs_;
  // Of one step: neighbours by 2 x id, and + 1 for those behind.
  std::vector<Neighbour> neighbours_{};
  std::vector<std::uint32_t> touched_{};
  std::vector<Event> events_{};
};

}  // namespace strata
