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

/// Puts the tokens of a sweep into its buffers, cell by cell.
class SweepWriter {
 public:
  /// With `host_attention` tokens past their prompts are in cells of their own, which attend on the
  /// host in some layers.
  SweepWriter(const SweepBuffers& buffers, std::int64_t cell_tokens, bool host_attention = false)
      : buffers_(buffers), cell_tokens_(cell_tokens), host_attention_(host_attention) {}

  void begin_group(int group) {
    plan_.visits.push_back({.group = group, .kept = {}, .added = {}, .kept_elsewhere = {}});
    plan_.cells.push_back(cell_at(plan_.tokens));
  }
  /// Adds a share of a sweep, with its ids. Shares come in the order of the batch.
  void add_share(const SweepShare& share, std::span<const std::int32_t> ids) {
    if (plan_.visits.empty() || plan_.visits.back().group != share.group) begin_group(share.group);
    if (share.single) {
      add_single(ids.front(), share.begin, share.row);
    } else {
      add(ids, share.begin, share.row);
    }
  }
  /// Adds the one new token of a sequence that is past its prompt. In a group they come before the
  /// tokens of prompts.
  void add_single(std::int32_t id, std::int64_t position, std::int64_t row) {
    if (plan_.cells.back().tokens == 0) plan_.cells.back().on_host = host_attention_;
    if (host_attention_) {
      plan_.visits.back().kept_elsewhere.push_back({row, position});
    } else {
      visit(1, position, row);
    }
    put(std::span(&id, 1), position, row);
    SweepCell& cell = plan_.cells.back();
    ++singles_;
    buffers_.segments[static_cast<std::size_t>(5 * (segments_ - 1))] =
        narrow<std::int32_t>(cell.singles);
    if (++cell.singles != cell.tokens) throw std::logic_error("a single token after others");
    cell.longest = std::max(cell.longest, position + 1);
    cell.single_pairs += position + 1;
    cell.prompt_pairs -= position + 1;
    cell.prompt_rows -= position + 1;
  }
  /// Adds ids, the first of which has this position, of a sequence whose rows begin at `row`.
  void add(std::span<const std::int32_t> ids, std::int64_t position, std::int64_t row) {
    visit(std::ssize(ids), position, row);
    if (plan_.cells.back().on_host) plan_.cells.push_back(cell_at(plan_.tokens));
    put(ids, position, row);
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
    return {.visit = plan_.visits.size() - 1,
            .begin = token,
            .first_segment = segments_,
            .first_single = singles_};
  }
  /// Has the group's keys and values of a sequence read and added to on the device.
  void visit(std::int64_t count, std::int64_t position, std::int64_t row) {
    plan_.visits.back().kept.push_back({row, position});
    plan_.visits.back().added.push_back({row + position, count});
  }
  /// Writes ids to the last cell, and to more where it is full.
  void put(std::span<const std::int32_t> ids, std::int64_t position, std::int64_t row) {
    while (!ids.empty()) {
      if (plan_.cells.back().tokens == cell_tokens_) {
        const bool on_host = plan_.cells.back().on_host;
        plan_.cells.push_back(cell_at(plan_.tokens));
        plan_.cells.back().on_host = on_host;
      }
      SweepCell& cell = plan_.cells.back();
      const std::int64_t count = std::min(std::ssize(ids), cell_tokens_ - cell.tokens);
      const auto entry = {cell.tokens - cell.singles, row, count, position + count, position};
      std::ranges::transform(entry, buffers_.segments.begin() + 5 * segments_++,
                             [](std::int64_t value) { return narrow<std::int32_t>(value); });
      for (std::int64_t i = 0; i < count; ++i, ++plan_.tokens) {
        const auto at = static_cast<std::size_t>(plan_.tokens);
        buffers_.ids[at] = ids[static_cast<std::size_t>(i)];
        buffers_.positions[at] = narrow<std::int32_t>(position + i);
        buffers_.rows[at] = narrow<std::int32_t>(row + position + i);
      }
      cell.tokens += count;
      cell.prompt_pairs += count * position + count * (count + 1) / 2;
      cell.prompt_rows += position + count;
      ++cell.segments;
      ids = ids.subspan(static_cast<std::size_t>(count));
      position += count;
    }
  }

  SweepBuffers buffers_;
  std::int64_t cell_tokens_;
  bool host_attention_;
  std::int64_t segments_ = 0;
  std::int64_t singles_ = 0;
  SweepPlan plan_;
};

}  // namespace strata
