// The sequences that are being continued: which of them have room, where their keys and values are,
// and what of each goes through the next sweep. It knows lengths and no ids: the generator writes
// tokens by it, and predictions play a whole load with it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "strata/schedule/free_rows.h"
#include "strata/store/kv_store.h"

namespace strata {

/// A sequence that is being continued.
struct BatchedSequence {
  std::size_t number = 0;  ///< in the order of admission, from 0 on
  int group = 0;
  std::int64_t row = 0;  ///< of position 0, in its group
  std::int64_t rows = 0;
  std::int64_t window_row = 0;  ///< its first one in layers that keep a window
  std::int64_t window_rows = 0;
  std::int64_t prompt = 0;  ///< tokens
  std::int64_t tokens = 0;  ///< of the prompt, and those that were drawn
  std::int64_t done = 0;    ///< tokens whose keys and values are kept

  [[nodiscard]] std::int64_t drawn() const { return tokens - prompt; }
  [[nodiscard]] std::int64_t pending() const { return tokens - done; }
};

/// What of a sequence goes through a sweep.
struct SweepShare {
  std::size_t slot = 0;
  int group = 0;
  std::int64_t row = 0;         ///< of position 0, in its group
  std::int64_t window_row = 0;  ///< its first one in layers that keep a window
  std::int64_t begin = 0;       ///< position of the first token
  std::int64_t count = 0;
  bool single = false;  ///< the one new token of a sequence that is past its prompt
  bool draws = false;   ///< a token is drawn after the last one
};

class SweepBatch {
 public:
  /// There are at most so many sequences at once, and at most so many tokens in a sweep, of which
  /// there are no fewer.
  SweepBatch(const KvShape& kv, std::int64_t sequences, std::int64_t sweep_tokens);

  /// Takes in a sequence with a prompt of so many tokens, after which up to `most_drawn` are drawn,
  /// and returns its slot, or nothing if there is no room.
  [[nodiscard]] std::optional<std::size_t> admit(std::int64_t prompt, std::int64_t most_drawn);
  /// Returns what goes through the next sweep, and counts it as done: the new token of each
  /// sequence past its prompt, and as much of the prompts, the earliest first, as there is room
  /// for. Shares are in the order of groups, singles first in each.
  [[nodiscard]] std::vector<SweepShare> next_sweep();
  /// Says that a token was drawn for the sequence in this slot.
  void add_token(std::size_t slot) { ++slots_.at(slot)->tokens; }
  /// Gives back the room of a sequence that has ended.
  void release(std::size_t slot);
  /// Goes on as if there had been so many sweeps more, in each of which the new token of every
  /// sequence went through and another one was drawn. All sequences are past their prompts.
  void repeat(std::int64_t sweeps);

  [[nodiscard]] bool empty() const { return free_slots_.size() == slots_.size(); }
  /// Returns the sequence in a slot that is taken.
  [[nodiscard]] const BatchedSequence& at(std::size_t slot) const {
    return slots_.at(slot).value();
  }

 private:
  std::int64_t sweep_tokens_;
  KvWindow window_;
  std::vector<FreeRows> free_;                         ///< by group
  std::vector<FreeRows> window_free_;                  ///< of layers that keep a window
  std::vector<std::vector<std::size_t>> groups_;       ///< slots, in the order of admission
  std::vector<std::optional<BatchedSequence>> slots_;  ///< empty where nobody is
  std::set<std::size_t> free_slots_;
  std::size_t taken_ = 0;
};

}  // namespace strata
