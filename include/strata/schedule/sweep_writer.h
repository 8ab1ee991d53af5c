// Writes a sweep: which tokens go through the model, in which cells, and what is wanted after them.
// The generator, the scorer and predictions plan with it; the buffers are the token store's.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <stdexcept>
#include <utility>

#include "strata/base/narrow.h"
#include "strata/schedule/sweep.h"
#include "strata/schedule/sweep_batch.h"
#include "strata/store/token_store.h"

namespace strata {

/// Where a sequence's next token goes: its position, and rows of the sequence's keys and values.
struct WritePlace {
  std::int64_t position = 0;
  std::int64_t row = 0;         ///< of position 0
  std::int64_t window_row = 0;  ///< its first one in layers that keep a window
};

/// Puts the tokens of a sweep into its buffers, cell by cell.
class SweepWriter {
 public:
  /// For keys and values of this shape. If the host attends, tokens past their prompts are in cells
  /// of their own, which attend there in some layers.
  SweepWriter(const SweepBuffers& buffers, std::int64_t cell_tokens, const KvShape& kv = {})
      : buffers_(buffers),
        cell_tokens_(cell_tokens),
        host_attention_(kv.attended_at_home()),
        window_(kv.window) {}

  void begin_group(int group) {
    plan_.visits.push_back({.group = group, .whole = {}, .windowed = {}});
    plan_.cells.push_back(cell_at(plan_.tokens));
  }
  /// Adds a share of a sweep, with its ids. Shares come in the order of the batch.
  void add_share(const SweepShare& share, std::span<const std::int32_t> ids) {
    if (plan_.visits.empty() || plan_.visits.back().group != share.group) begin_group(share.group);
    const WritePlace place{share.begin, share.row, share.window_row};
    if (share.single) {
      add_single(ids.front(), place);
    } else {
      add(ids, place);
    }
  }
  /// Adds the one new token of a sequence that is past its prompt. In a group they come before the
  /// tokens of prompts.
  void add_single(std::int32_t id, const WritePlace& place) {
    if (plan_.cells.back().tokens == 0) plan_.cells.back().on_host = host_attention_;
    visit(1, place, host_attention_);
    single_ = true;
    put(std::span(&id, 1), place);
    single_ = false;
    if (plan_.cells.back().whole.singles != plan_.cells.back().tokens) {
      throw std::logic_error("a single token after others");
    }
    ++singles_;
  }
  /// Adds ids from a place on.
  void add(std::span<const std::int32_t> ids, const WritePlace& place) {
    visit(std::ssize(ids), place, false);
    if (plan_.cells.back().on_host) plan_.cells.push_back(cell_at(plan_.tokens));
    put(ids, place);
  }
  /// Has a token drawn after the last one that was added.
  void draw(SamplingRow row, std::span<const std::int32_t> seen) {
    row.seen_begin = narrow<std::int32_t>(plan_.seen);
    row.seen_count = narrow<std::int32_t>(std::ssize(seen));
    std::ranges::copy(seen, buffers_.seen.begin() + plan_.seen);
    plan_.seen += std::ssize(seen);
    const auto at = static_cast<std::size_t>(plan_.sampled++);
    buffers_.after[at] = narrow<std::int32_t>(plan_.tokens - 1);
    buffers_.sampling[at] = row;
  }
  /// Has a token scored that follows the `back`-th token before the end of what was added, counted
  /// from 1.
  void score(std::int64_t back, std::int32_t target) {
    const auto at = static_cast<std::size_t>(plan_.sampled++);
    buffers_.after[at] = narrow<std::int32_t>(plan_.tokens - back);
    buffers_.targets[at] = target;
    plan_.score = true;
  }
  [[nodiscard]] SweepPlan take() { return std::move(plan_); }

 private:
  [[nodiscard]] SweepCell cell_at(std::int64_t token) const {
    SweepCell cell{.visit = plan_.visits.size() - 1, .begin = token, .first_single = singles_};
    cell.whole.first_segment = segments_;
    return cell;
  }
  /// Has the group's keys and values of a sequence read on the device, and added to there unless
  /// they `attend_at_home`.
  void visit(std::int64_t count, const WritePlace& at, bool attend_at_home) {
    KvVisit& visit = plan_.visits.back();
    const auto travels = [&](KvTraffic& traffic, const KvRows& kept, const KvRows& added) {
      if (attend_at_home) {
        traffic.kept_elsewhere.push_back(kept);
      } else {
        traffic.kept.push_back(kept);
        traffic.added.push_back(added);
      }
    };
    travels(visit.whole, {at.row, at.position}, {at.row + at.position, count});
    if (!window_.releases()) return;
    // Rows are where the token before has left them, and in the end where the last one leaves them.
    const std::int64_t before = window_.first(std::max<std::int64_t>(0, at.position - 1));
    const std::int64_t seen = window_.first(at.position);
    const std::int64_t after = window_.first(at.position + count - 1);
    const std::int64_t changed = after == before ? at.position : after;
    travels(visit.windowed, {at.window_row + seen - before, at.position - seen},
            {at.window_row + changed - after, at.position + count - changed});
  }
  /// Writes ids to the last cell, and to more where it is full.
  void put(std::span<const std::int32_t> ids, WritePlace at) {
    while (!ids.empty()) {
      if (plan_.cells.back().tokens == cell_tokens_) {
        const bool on_host = plan_.cells.back().on_host;
        plan_.cells.push_back(cell_at(plan_.tokens));
        plan_.cells.back().on_host = on_host;
      }
      SweepCell& cell = plan_.cells.back();
      const std::int64_t count = std::min(std::ssize(ids), cell_tokens_ - cell.tokens);
      if (window_.releases()) put_windowed(cell, at, count);
      put_rows(buffers_.rows, plan_.tokens, at.row + at.position, count);
      put_segment(buffers_.segments, segments_, cell.whole, {at.row, 0, at.position, count});
      for (std::int64_t i = 0; i < count; ++i, ++plan_.tokens) {
        const auto to = static_cast<std::size_t>(plan_.tokens);
        buffers_.ids[to] = ids[static_cast<std::size_t>(i)];
        buffers_.positions[to] = narrow<std::int32_t>(at.position + i);
      }
      cell.tokens += count;
      ids = ids.subspan(static_cast<std::size_t>(count));
      at.position += count;
    }
  }
  /// Writes tokens of a sequence that come next in a cell, for layers that keep a window: in one
  /// piece, unless a token releases rows that one before it in the piece sees.
  void put_windowed(SweepCell& cell, const WritePlace& from, std::int64_t count) {
    const std::int64_t end = from.position + count;
    for (std::int64_t position = from.position; position < end;) {
      const std::int64_t first = window_.first(position);
      const std::int64_t many = std::min(end, window_.next_release(position)) - position;
      const std::int64_t token = cell.tokens + position - from.position;
      if (cell.windowed.empty() || position > from.position) {
        cell.windowed.push_back({.begin = token, .first_segment = window_segments_});
      }
      KvPiece& piece = cell.windowed.back();
      if (window_.releases_at(position)) {
        const std::int64_t released = first - window_.first(position - 1);
        piece.moves.push_back({from.window_row + released, from.window_row, position - first});
      }
      put_rows(buffers_.window_rows, cell.begin + token, from.window_row + position - first, many);
      put_segment(buffers_.window_segments, window_segments_, piece,
                  {from.window_row, first, position, many});
      position += many;
    }
  }
  /// Consecutive tokens of a sequence, and its keys and values.
  struct Run {
    std::int64_t row = 0;       ///< the first of the sequence
    std::int64_t first = 0;     ///< its position
    std::int64_t position = 0;  ///< of the first token
    std::int64_t count = 0;
  };
  static void put_rows(std::span<std::int32_t> rows, std::int64_t token, std::int64_t row,
                       std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      rows[static_cast<std::size_t>(token + i)] = narrow<std::int32_t>(row + i);
    }
  }
  /// Adds tokens to a piece, as a segment of its own.
  void put_segment(std::span<std::int32_t> segments, std::int64_t& written, KvPiece& piece,
                   const Run& run) const {
    const std::int64_t query = single_ ? piece.singles : piece.tokens - piece.singles;
    const std::int64_t end = run.position + run.count;
    const auto entry = {query, run.row, run.count, end - run.first, run.position - run.first};
    std::ranges::transform(entry, segments.begin() + 5 * written++,
                           [](std::int64_t value) { return narrow<std::int32_t>(value); });
    piece.tokens += run.count;
    ++piece.segments;
    const std::int64_t pairs = run.count * run.position + run.count * (run.count + 1) / 2;
    if (single_) {
      ++piece.singles;
      piece.longest = std::max(piece.longest, end);
      piece.single_pairs += pairs;
    } else {
      piece.prompt_pairs += pairs;
      piece.prompt_rows += end - run.first;
    }
  }

  SweepBuffers buffers_;
  std::int64_t cell_tokens_;
  bool host_attention_;
  KvWindow window_;
  bool single_ = false;  ///< what is written is past its prompt
  std::int64_t segments_ = 0;
  std::int64_t window_segments_ = 0;
  std::int64_t singles_ = 0;
  SweepPlan plan_;
};

}  // namespace strata
