// Tests which sequences are taken in, what of them goes through a sweep, and how many pairs of
// queries and keys its writer counts.

#include "strata/schedule/sweep_batch.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "strata/schedule/sweep_writer.h"
#include "support/catch.h"

namespace strata::test {
namespace {

KvShape groups_of_rows(int groups, std::int64_t rows) {
  return {.layers = 1, .groups = groups, .rows = rows};
}

/// Draws a token wherever a share does; sequences with so many drawn ones end.
void draw(SweepBatch& batch, const std::vector<SweepShare>& shares, std::int64_t most) {
  for (const SweepShare& share : shares) {
    if (!share.draws) continue;
    batch.add_token(share.slot);
    if (batch.at(share.slot).drawn() == most) batch.release(share.slot);
  }
}

}  // namespace

TEST_CASE("prompts share the room that drawn tokens leave, the earliest first") {
  SweepBatch batch(groups_of_rows(1, 100), 4, 8);
  REQUIRE(batch.admit(3, 5));
  draw(batch, batch.next_sweep(), 5);
  REQUIRE(batch.admit(10, 5));
  REQUIRE(batch.admit(2, 5));
  const std::vector<SweepShare> first = batch.next_sweep();
  REQUIRE(first.size() == 2);
  CHECK((first[0].single && first[0].count == 1 && first[0].begin == 3 && first[0].draws));
  CHECK((!first[1].single && first[1].count == 7 && first[1].begin == 0 && !first[1].draws));
  draw(batch, first, 5);
  const std::vector<SweepShare> second = batch.next_sweep();
  REQUIRE(second.size() == 3);
  CHECK((second[1].count == 3 && second[1].begin == 7 && second[1].draws));
  CHECK((second[2].count == 2 && second[2].begin == 0 && second[2].draws));
}

TEST_CASE("sequences are in the group with the fewest, and rows that end are taken again") {
  SweepBatch batch(groups_of_rows(2, 10), 5, 100);
  std::vector<std::size_t> slots;
  for (int i = 0; i < 4; ++i) slots.push_back(batch.admit(3, 3).value());  // 5 rows each
  std::vector<int> groups;
  for (const std::size_t slot : slots) groups.push_back(batch.at(slot).group);
  CHECK(groups == std::vector<int>{0, 1, 0, 1});
  CHECK_FALSE(batch.admit(1, 1));  // a slot is left, and no row
  batch.release(slots[1]);
  CHECK_FALSE(batch.admit(5, 2));  // 6 rows
  batch.release(slots[3]);
  const std::size_t wide = batch.admit(9, 2).value();  // the rows of both
  CHECK(batch.at(wide).row == 0);
  CHECK(batch.at(wide).rows == 10);
  CHECK_FALSE(batch.empty());
  for (const std::size_t slot : {slots[0], slots[2], wide}) batch.release(slot);
  CHECK(batch.empty());
}

TEST_CASE("there are no more sequences than slots, and a slot that is free is taken again") {
  SweepBatch batch(groups_of_rows(1, 100), 2, 100);
  const std::size_t first = batch.admit(1, 1).value();
  REQUIRE(batch.admit(1, 1));
  CHECK_FALSE(batch.admit(1, 1));
  batch.release(first);
  CHECK(batch.admit(1, 1) == first);
}

TEST_CASE("sweeps that are repeated are those that would have come") {
  SweepBatch one(groups_of_rows(2, 60), 4, 100), other(groups_of_rows(2, 60), 4, 100);
  for (SweepBatch* batch : {&one, &other}) {
    for (const std::int64_t prompt : {3, 5, 8}) REQUIRE(batch->admit(prompt, 20));
    for (int i = 0; i < 2; ++i) draw(*batch, batch->next_sweep(), 20);
  }
  for (int i = 0; i < 7; ++i) draw(one, one.next_sweep(), 20);
  other.repeat(7);
  const std::vector<SweepShare> expected = one.next_sweep(), shares = other.next_sweep();
  REQUIRE(shares.size() == expected.size());
  for (std::size_t i = 0; i < shares.size(); ++i) {
    CHECK(shares[i].slot == expected[i].slot);
    CHECK(shares[i].begin == expected[i].begin);
    CHECK(shares[i].count == expected[i].count);
    CHECK(one.at(shares[i].slot).tokens == other.at(shares[i].slot).tokens);
  }
}

TEST_CASE("no sweep has more tokens than there is room for, and every token goes through once") {
  constexpr std::int64_t kRoom = 16, kDrawn = 6;
  SweepBatch batch(groups_of_rows(3, 120), 9, kRoom);
  std::int64_t taken = 0, prompts = 0, through = 0, sweeps = 0;
  while (true) {
    while (taken < 40) {
      const std::int64_t prompt = 1 + 7 * taken % 23;
      if (!batch.admit(prompt, kDrawn)) break;
      prompts += prompt;
      ++taken;
    }
    if (batch.empty()) break;
    const std::vector<SweepShare> shares = batch.next_sweep();
    std::int64_t tokens = 0;
    for (const SweepShare& share : shares) tokens += share.count;
    REQUIRE(tokens > 0);
    CHECK(tokens <= kRoom);
    through += tokens;
    ++sweeps;
    REQUIRE(sweeps < 1000);
    draw(batch, shares, kDrawn);
  }
  CHECK(taken == 40);
  CHECK(through == prompts + 40 * (kDrawn - 1));  // nothing follows the last token
}

/// Plays what a layer with a window does with keys, each of which is named by sequence and
/// position.
class WindowedKeys {
 public:
  using Key = std::pair<std::size_t, std::int64_t>;

  explicit WindowedKeys(const KvShape& kv)
      : kv_(kv), home_(static_cast<std::size_t>(kv.window_rows)) {}

  /// Takes a sweep whose tokens are these keys. What is not fetched is unknown on the device.
  void sweep(const SweepPlan& plan, const std::vector<Key>& tokens,
             std::span<const std::int32_t> rows, std::span<const std::int32_t> segments) {
    const KvTraffic& traffic = plan.visits.at(0).windowed;
    device_.assign(home_.size(), {});
    copy(traffic.kept, home_, device_);
    for (const SweepCell& cell : plan.cells) {
      for (const KvPiece& piece : cell.windowed) {
        for (const KvMove& move : piece.moves) {
          for (std::int64_t i = 0; i < move.count; ++i) at(move.to + i) = at(move.from + i);
        }
        const auto first = static_cast<std::size_t>(cell.begin + piece.begin);
        const std::span of_piece(tokens.begin() + static_cast<std::ptrdiff_t>(first),
                                 static_cast<std::size_t>(piece.tokens));
        for (std::size_t i = 0; i < of_piece.size(); ++i) at(rows[first + i]) = of_piece[i];
        attend(piece, of_piece, segments);
      }
    }
    copy(traffic.added, device_, home_);
  }

  std::int64_t seen = 0;   ///< keys that were seen
  std::int64_t wrong = 0;  ///< of these others than should have been

 private:
  std::optional<Key>& at(std::int64_t row) { return device_.at(static_cast<std::size_t>(row)); }
  static void copy(const std::vector<KvRows>& rows, const std::vector<std::optional<Key>>& from,
                   std::vector<std::optional<Key>>& to) {
    for (const KvRows& run : rows) {
      std::copy_n(from.begin() + run.begin, run.count, to.begin() + run.begin);
    }
  }
  /// Looks at the keys that each query of a piece sees.
  void attend(const KvPiece& piece, std::span<const Key> tokens,
              std::span<const std::int32_t> segments) {
    for (std::int64_t s = 0; s < piece.segments; ++s) {
      const auto entry = segments.subspan(static_cast<std::size_t>(5 * (piece.first_segment + s)));
      const std::int64_t before = s < piece.singles ? 0 : piece.singles;
      for (std::int64_t i = 0; i < entry[2]; ++i) {
        const auto [sequence, position] = tokens[static_cast<std::size_t>(before + entry[0] + i)];
        const std::int64_t last = std::min<std::int64_t>(i + entry[4], entry[3] - 1);
        const std::int64_t keys = std::min(position + 1, kv_.window.window);
        for (std::int64_t back = 0; back < keys; ++back, ++seen) {
          if (at(entry[1] + last - back) != Key{sequence, position - back}) ++wrong;
        }
      }
    }
  }

  KvShape kv_;
  std::vector<std::optional<Key>> home_, device_;
};

TEST_CASE("a layer with a window finds the keys that it sees, in sweeps and cells of any kind") {
  for (const std::int64_t step : {1, 3, 8}) {
    KvShape kv{.layers = 1, .rows = 3 * 60, .window = {.window = 5, .step = step}};
    kv.window_rows = 3 * kv.window.rows();
    kv.windowed = {true};
    WindowedKeys keys(kv);
    SweepBatch batch(kv, 3, 11);
    std::vector<std::int32_t> ids(64), positions(64), rows(64), segments(5 * 64), after(64),
        targets(64), seen(1), window_rows(64), window_segments(5 * 64);
    std::vector<SamplingRow> sampling(64);
    std::int64_t taken = 0, expected = 0;
    while (true) {
      while (taken < 9 && batch.admit(1 + 11 * taken % 31, 25)) ++taken;
      if (batch.empty()) break;
      SweepWriter writer({ids, positions, rows, segments, after, targets, sampling, seen,
                          window_rows, window_segments},
                         4, kv);
      std::vector<WindowedKeys::Key> tokens;
      const std::vector<SweepShare> shares = batch.next_sweep();
      for (const SweepShare& share : shares) {
        writer.add_share(share, std::span(ids).first(static_cast<std::size_t>(share.count)));
        for (std::int64_t i = 0; i < share.count; ++i) {
          tokens.emplace_back(batch.at(share.slot).number, share.begin + i);
          expected += std::min(share.begin + i + 1, kv.window.window);
        }
      }
      keys.sweep(writer.take(), tokens, window_rows, window_segments);
      draw(batch, shares, 25);
    }
    CHECK(taken == 9);
    CHECK(keys.seen == expected);
    CHECK(keys.wrong == 0);
  }
}

TEST_CASE("the writer counts the pairs that the segments of a cell have") {
  std::vector<std::int32_t> ids(64), positions(64), rows(64), segments(5 * 64), after(64),
      targets(64), seen(1);
  std::vector<SamplingRow> sampling(64);
  SweepWriter writer({ids, positions, rows, segments, after, targets, sampling, seen}, 10);
  const std::vector<std::int32_t> some(30, 1);
  writer.add_share({.row = 0, .begin = 5, .count = 1, .single = true}, std::span(some).first(1));
  writer.add_share({.row = 9, .begin = 2, .count = 1, .single = true}, std::span(some).first(1));
  writer.add_share({.row = 20, .begin = 4, .count = 13}, std::span(some).first(13));
  writer.add_share({.row = 40, .begin = 0, .count = 6}, std::span(some).first(6));
  const SweepPlan plan = writer.take();
  REQUIRE(plan.cells.size() == 3);
  for (const SweepCell& cell : plan.cells) {
    const KvPiece& piece = cell.whole;
    std::array<std::int64_t, 2> pairs{};  // of singles, of the others
    std::int64_t seen_rows = 0;           // by the others
    for (std::int64_t i = 0; i < piece.segments; ++i) {
      const auto* segment = &segments[static_cast<std::size_t>(5 * (piece.first_segment + i))];
      if (i >= piece.singles) seen_rows += std::min(segment[3], segment[2] + segment[4]);
      for (std::int64_t query = 0; query < segment[2]; ++query) {
        pairs[i < piece.singles ? 0 : 1] +=
            std::min<std::int64_t>(query + segment[4], segment[3] - 1) + 1;
      }
    }
    CHECK(piece.single_pairs == pairs[0]);
    CHECK(piece.prompt_pairs == pairs[1]);
    CHECK(piece.prompt_rows == seen_rows);
  }
  CHECK(plan.cells[0].whole.single_pairs == 6 + 3);
}

}  // namespace strata::test
