// Decides what of each sequence goes through the next sweep: first the one new token of each
// sequence that is past its prompt, then as much of the prompts as there is room for. Rows of keys
// and values are consecutive for each sequence, and are given back when it ends.

#include "strata/schedule/sweep_batch.h"

#include <algorithm>
#include <iterator>

namespace strata {

SweepBatch::SweepBatch(const KvShape& kv, std::int64_t sequences, std::int64_t sweep_tokens)
    : sweep_tokens_(sweep_tokens),
      free_(static_cast<std::size_t>(kv.groups)),
      groups_(free_.size()),
      slots_(static_cast<std::size_t>(sequences)) {
  for (FreeRows& rows : free_) rows[0] = kv.rows;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) free_slots_.insert(slot);
}

std::optional<std::size_t> SweepBatch::admit(std::int64_t prompt, std::int64_t most_drawn) {
  if (free_slots_.empty()) return std::nullopt;
  // The last drawn token goes through no layer.
  const std::int64_t rows = prompt + std::max<std::int64_t>(most_drawn, 1) - 1;
  // The group with the fewest sequences that has room, so that groups compute alike.
  std::size_t best = free_.size();
  FreeRows::iterator place;
  for (std::size_t group = 0; group < free_.size(); ++group) {
    if (best < free_.size() && groups_[group].size() >= groups_[best].size()) continue;
    const auto found =
        std::ranges::find_if(free_[group], [&](const auto& run) { return run.second >= rows; });
    if (found == free_[group].end()) continue;
    best = group;
    place = found;
  }
  if (best == free_.size()) return std::nullopt;
  const auto [begin, count] = *place;
  free_[best].erase(place);
  if (count > rows) free_[best][begin + rows] = count - rows;
  const std::size_t slot = *free_slots_.begin();
  free_slots_.erase(slot);
  slots_[slot] = BatchedSequence{.number = taken_++,
                                 .group = static_cast<int>(best),
                                 .row = begin,
                                 .rows = rows,
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
  FreeRows& rows = free_[group];
  auto run = rows.emplace(sequence.row, sequence.rows).first;
  const auto next = std::next(run);
  if (next != rows.end() && run->first + run->second == next->first) {
    run->second += next->second;
    rows.erase(next);
  }
  if (run == rows.begin()) return;
  const auto before = std::prev(run);
  if (before->first + before->second != run->first) return;
  before->second += run->second;
  rows.erase(run);
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
