// Packs documents into rows by best fit of decreasing length: each document goes to the row that it
// fills most nearly. Johnson et al., "Worst-case performance bounds for simple one-dimensional
// packing algorithms", 1974: at most 11/9 of the fewest rows, and for texts far less.

#include "data/pack_rows.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace strata {

namespace {

/// Numbers rows anew, in the order of their first documents.
void number_by_first_document(std::vector<std::int64_t>& rows, std::int64_t count) {
  constexpr std::int64_t kNone = -1;
  std::vector<std::int64_t> number(static_cast<std::size_t>(count), kNone);
  std::int64_t next = 0;
  for (std::int64_t& row : rows) {
    std::int64_t& named = number[static_cast<std::size_t>(row)];
    if (named == kNone) named = next++;
    row = named;
  }
}

}  // namespace

std::vector<std::int64_t> pack_rows(std::span<const std::int32_t> lengths,
                                    std::int32_t row_tokens) {
  std::vector<std::int64_t> longest_first(lengths.size());
  std::iota(longest_first.begin(), longest_first.end(), 0);
  const auto length_of = [&](std::int64_t i) { return lengths[static_cast<std::size_t>(i)]; };
  std::sort(longest_first.begin(), longest_first.end(), [&](std::int64_t a, std::int64_t b) {
    return length_of(a) != length_of(b) ? length_of(a) > length_of(b) : a < b;
  });
  std::vector<std::int64_t> rows(lengths.size());
  std::map<std::int32_t, std::vector<std::int64_t>> with_room;  // rows by what room they have
  std::int64_t count = 0;
  for (const std::int64_t document : longest_first) {
    std::int64_t row = count;
    std::int32_t room = row_tokens;
    if (const auto best = with_room.lower_bound(length_of(document)); best != with_room.end()) {
      room = best->first;
      row = best->second.back();
      best->second.pop_back();
      if (best->second.empty()) with_room.erase(best);
    } else {
      ++count;
    }
    rows[static_cast<std::size_t>(document)] = row;
    room -= length_of(document);
    if (room > 0) with_room[room].push_back(row);
  }
  number_by_first_document(rows, count);
  return rows;
}

}  // namespace strata
