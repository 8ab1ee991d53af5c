// Decides what of each sequence goes through the next sweep: first the one new token of each
// sequence that is past its prompt, then as much of the prompts as there is room for. Rows of keys
// and values are consecutive for each sequence, and are given back when it ends.

#include "strata/schedule/sweep_batch.h"

#include <algorithm>

namespace strata {

SweepBatch::SweepBatch(const KvShape& kv, std::int64_t sequences, std::int64_t sweep_tokens)
    : sweep_tokens_(sweep_tokens),
      window_(kv.window),
      free_(static_cast<std::size_t>(kv.groups), FreeRows(kv.rows)),
      window_free_(static_cast<std::size_t>(kv.groups), FreeRows(kv.window_rows)),
      groups_(free_.size()),
      slots_(static_cast<std::size_t>(sequences)) {
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) free_slots_.insert(slot);
}

std::optional<std::size_t> SweepBatch::admit(std::int64_t prompt, std::int64_t most_drawn) {
  if (free_slots_.empty()) return std::nullopt;
  // The last drawn token goes through no layer.
  const std::int64_t rows = prompt + std::max<std::int64_t>(most_drawn, 1) - 1;
  const std::int64_t window_rows = window_.releases() ? std::min(rows, window_.rows()) : 0;
  // The group with the fewest sequences that has room, so that groups compute alike.
  std::size_t best = free_.size();
  std::int64_t row = 0, window_row = 0;
  for (std::size_t group = 0; group < free_.size(); ++group) {
    if (best < free_.size() && groups_[group].size() >= groups_[best].size()) continue;
    const auto found = free_[group].find(rows);
    const auto found_window = window_free_[group].find(window_rows);
    if (!found || !found_window) continue;
    best = group;
    row = *found;
    window_row = *found_window;
  }
  if (best == free_.size()) return std::nullopt;
  free_[best].take(row, rows);
  window_free_[best].take(window_row, window_rows);
  const std::size_t slot = *free_slots_.begin();
  free_slots_.erase(slot);
  slots_[slot] = BatchedSequence{.number = taken_++,
                                 .group = static_cast<int>(best),
                                 .row = row,
                                 .rows = rows,
                                 .window_row = window_row,
                                 .window_rows = window_rows,
                                 .prompt = prompt,
                                 .tokens = prompt};
  groups_[best].push_back(slot);
  return slot;
}

void SweepBatch::release(std::size_t slot) {
  const BatchedSequence sequence = at(slot);
  slots_[slot].reset();
  free_slots_.insert(slot);
  const auto group = static_cast<std::size_t>(sequence.group);
  std::erase(groups_[group], slot);
  free_[group].give_back(sequence.row, sequence.rows);
  window_free_[group].give_back(sequence.window_row, sequence.window_rows);
}

std::vector<SweepShare> SweepBatch::next_sweep() {
  // Tokens of prompts that come first have the room that those after them lack.
  std::int64_t room = sweep_tokens_;
  std::vector<std::size_t> prompts;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (!slots_[slot]) continue;
    if (slots_[slot]->pending() > 1) {
      prompts.push_back(slot);
    } else {
      --room;
    }
  }
  std::ranges::sort(prompts, {}, [&](std::size_t slot) { return slots_[slot]->number; });
  std::vector<std::int64_t> counts(slots_.size(), 1);
  for (const std::size_t slot : prompts) {
    counts[slot] = std::min(room, slots_[slot]->pending());
    room -= counts[slot];
  }
  std::vector<SweepShare> shares;
  for (const std::vector<std::size_t>& group : groups_) {
    for (const bool single : {true, false}) {
      for (const std::size_t slot : group) {
        BatchedSequence& sequence = *slots_[slot];
        if ((sequence.drawn() > 0) != single || counts[slot] == 0) continue;
        shares.push_back({.slot = slot,
                          .group = sequence.group,
                          .row = sequence.row,
                          .window_row = sequence.window_row,
                          .begin = sequence.done,
                          .count = counts[slot],
                          .single = single});
        sequence.done += counts[slot];
        shares.back().draws = sequence.pending() == 0;
      }
    }
  }
  return shares;
}

void SweepBatch::repeat(std::int64_t sweeps) {
  for (std::optional<BatchedSequence>& sequence : slots_) {
    if (!sequence) continue;
    sequence->tokens += sweeps;
    sequence->done += sweeps;
  }
}

}  // namespace strata
