// This file divides attention of segments with one query each among threads. A segment has three
// steps: dots of keys, softmax, sums of values. Where there are many segments, a task takes some kv
// heads of one through all three. A few long segments are cut otherwise, step by step: dots by
// keys, so that a task reads whole rows; sums, which are chains over the keys, by columns.

#include "kernels/cpu/attention_single.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>

#include "kernels/cpu/single_queries.h"

namespace strata::cpu {

namespace {

constexpr std::int64_t kMostBytes = 2048;  // of a row in a task: long runs in memory, and what is
                                           // fetched ahead fits a core's cache
constexpr std::int64_t kLong = 2048;       // keys of a segment that is worth cutting step by step

/// Returns how many kv heads a task takes: `most`, or as many as leave each thread some tasks.
std::int64_t heads_of_task(std::int64_t segments, std::int64_t kv_heads, std::int64_t most,
                           int threads) {
  const std::int64_t tasks = std::min(kv_heads, parts(kTasksEach * threads, segments));
  return parts(kv_heads, parts(kv_heads, std::min(most, kv_heads / tasks)));
}

template <Compute X, class Kept>
void attend(const Context& context, const SingleArguments<Kept>& op,
            std::vector<Segment> segments) {
  if (segments.empty()) return;
  for (Segment& s : segments) s = s.without_first(s.first_key(0));  // those before its window
  const auto count = static_cast<std::int64_t>(segments.size());
  std::int64_t longest = 0;
  std::int64_t keys = 0;
  for (const Segment& s : segments) {
    longest = std::max(longest, s.visible(0));
    keys += s.visible(0);
  }
  const std::int64_t most = std::max<std::int64_t>(
      1, kMostBytes / (op.q.shape[2] * static_cast<std::int64_t>(sizeof(Kept))));
  const std::int64_t heads = heads_of_task(count, op.kv_heads, most, context.pool.threads());
  const SingleQueries<X, Kept> queries(op, context.simd);
  if (heads < std::min(most, op.kv_heads) && keys >= kLong * count) {
    auto scratch = queries.scratch(op.kv_heads, longest);
    for (const Segment& s : segments) queries.run_steps(s, op.kv_heads, context.pool, scratch);
    return;
  }
  const std::int64_t tasks = parts(op.kv_heads, heads);  // of each segment
  const std::int64_t threads = context.pool.threads();
  constexpr std::int64_t kPasses = 2;  // over keys and over values
  const std::int64_t work = kPasses * keys * op.q.shape[1] * op.q.shape[2] / kProductsAtOnce;
  std::atomic<std::int64_t> next = 0;
  context.pool.parallel_for(threads, grain_for(work / threads), [&](std::int64_t, std::int64_t) {
    std::optional<TaskScratch<Accumulator<X>>> scratch;
    for (std::int64_t i = next++; i < count * tasks; i = next++) {
      if (!scratch) scratch.emplace(queries.scratch(heads, longest));
      const std::int64_t first = i % tasks * heads;
      queries.run(segments[static_cast<std::size_t>(i / tasks)],
                  {first, std::min(first + heads, op.kv_heads)}, *scratch);
    }
  });
}

}  // namespace

void attend_single_queries(const Context& context, const AttentionForward& op,
                           const std::vector<Segment>& segments) {
  with_compute_type(op.q.dtype, [&]<Compute X>(X) {
    attend<X, X>(context,
                 {.q = op.q,
                  .k = {Heads<const X>(op.k)},
                  .v = {Heads<const X>(op.v)},
                  .o = op.o,
                  .lse = op.lse,
                  .kv_heads = op.k.shape[1],
                  .scale = op.scale,
                  .score_cap = op.score_cap},
                 segments);
  });
}

void attend_single_queries(const Context& context, const AttendInt8Kv& op,
                           const std::vector<Segment>& segments) {
  const auto kept = [](const ConstTensorView& levels, const ConstTensorView& scales) {
    return KeptHeads<std::int8_t>{.heads = Heads<const std::int8_t>(levels),
                                  .scales = scales.as<float>(),
                                  .scale_stride = scales.row_stride};
  };
  with_compute_type(op.q.dtype, [&]<Compute X>(X) {
    attend<X, std::int8_t>(context,
                           {.q = op.q,
                            .k = kept(op.cache.k, op.cache.k_scale),
                            .v = kept(op.cache.v, op.cache.v_scale),
                            .o = op.o,
                            .lse = {},
                            .kv_heads = op.cache.k.shape[1],
                            .scale = op.scale,
                            .score_cap = op.score_cap},
                           segments);
  });
}

}  // namespace strata::cpu
