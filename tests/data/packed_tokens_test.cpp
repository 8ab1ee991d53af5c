// Tests which documents share a row and what a loader makes of it, against a plain packing that
// looks at all rows for every document, and against the documents themselves.

#include "strata/data/packed_tokens.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "data/pack_rows.h"
#include "data/pass.h"
#include "strata/base/error.h"
#include "strata/base/thread_pool.h"
#include "strata/data/batch.h"
#include "support/catch.h"
#include "support/listed_tokens.h"

namespace strata {

namespace {

using Ids = std::vector<std::int32_t>;
constexpr std::int32_t kEnd = 1;

/// Documents of these lengths: each token names its place, but the last one is kEnd.
std::unique_ptr<ListedTokens> documents_of(const std::vector<std::int32_t>& lengths,
                                           std::vector<std::uint8_t> loss = {}) {
  Ids ids;
  for (const std::int32_t length : lengths) {
    for (std::int32_t i = 0; i < length; ++i) {
      ids.push_back(i + 1 < length ? static_cast<std::int32_t>(ids.size()) + 10 : kEnd);
    }
  }
  return std::make_unique<ListedTokens>(std::move(ids), kEnd, std::move(loss));
}

std::vector<std::int32_t> random_lengths(std::size_t count, std::int32_t most) {
  std::mt19937 random(7);
  std::lognormal_distribution<double> length(2.5, 0.8);
  std::vector<std::int32_t> lengths;
  while (lengths.size() < count) {
    lengths.push_back(std::clamp(static_cast<std::int32_t>(length(random)), 1, most));
  }
  return lengths;
}

/// Returns the ids of a source from `begin` to `end`, cut at the ends of documents.
std::vector<Ids> documents_in(const TokenSource& source, std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> ends;
  source.document_ends_in(begin, end, ends);
  std::vector<Ids> documents;
  for (const std::int64_t next : ends) {
    Ids& document = documents.emplace_back(static_cast<std::size_t>(next - begin));
    source.read(std::exchange(begin, next), document);
  }
  return documents;
}

bool is_padding(const Ids& document) {
  return std::all_of(document.begin(), document.end(), [](std::int32_t id) { return id == 0; });
}

/// What rows have left, in ascending order, by best fit that looks at all rows each time.
std::vector<std::int32_t> plain_best_fit(std::vector<std::int32_t> lengths, std::int32_t room) {
  std::stable_sort(lengths.begin(), lengths.end(), std::greater<>());
  std::vector<std::int32_t> left;
  for (const std::int32_t length : lengths) {
    auto best = left.end();
    for (auto row = left.begin(); row != left.end(); ++row) {
      if (*row >= length && (best == left.end() || *row < *best)) best = row;
    }
    if (best == left.end()) best = left.insert(left.end(), room);
    *best -= length;
  }
  std::sort(left.begin(), left.end());
  return left;
}

/// The rows of steps from `first_sample` on, as the ranks together see them: ids, targets and
/// positions one after the other, by the row's place in the step.
std::vector<Ids> rows_of_step(const TokenSource& source, int ranks, std::int64_t sub_batches,
                              std::int64_t first_sample) {
  constexpr std::int64_t kTokens = 32;
  const BatchShape shape{.rows = 1, .tokens = kTokens, .sub_batches = sub_batches};
  std::vector<Ids> rows(static_cast<std::size_t>(ranks * sub_batches));
  for (int rank = 0; rank < ranks; ++rank) {
    ThreadPool pool(1);
    const BatchOptions options{.shape = shape,
                               .rank = rank,
                               .ranks = ranks,
                               .mask = DocumentMask::kOn,
                               .seed = 5,
                               .vocabulary = 471'100};
    BatchLoader loader(source, options, pool);
    const auto count = static_cast<std::size_t>(shape.pass_tokens());
    Ids ids(count), targets(count), positions(count), order(count), segments(count * 5);
    std::vector<std::int64_t> counts(static_cast<std::size_t>(sub_batches));
    loader.fill_pass(first_sample, 0, {ids, targets, positions, segments, order, counts});
    for (std::int64_t s = 0; s < sub_batches; ++s) {
      Ids& row = rows[static_cast<std::size_t>(first_sample_of(options, 0, s))];
      for (const Ids& part : {ids, targets, positions}) {
        row.insert(row.end(), part.begin() + s * kTokens, part.begin() + (s + 1) * kTokens);
      }
    }
  }
  return rows;
}

}  // namespace

TEST_CASE("packing leaves as much room in rows as best fit by decreasing length") {
  constexpr std::int32_t kRow = 64;
  const std::vector<std::int32_t> lengths = random_lengths(500, kRow);
  const std::vector<std::int64_t> rows = pack_rows(lengths, kRow);
  std::vector<std::int32_t> left;
  std::int64_t first_unseen = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    REQUIRE(rows[i] <= first_unseen);  // numbered by the first document
    if (rows[i] == first_unseen) {
      left.push_back(kRow);
      ++first_unseen;
    }
    left[static_cast<std::size_t>(rows[i])] -= lengths[i];
  }
  std::sort(left.begin(), left.end());
  CHECK(left == plain_best_fit(lengths, kRow));
}

TEST_CASE("every document stands whole in one row, once, and padding fills the rest") {
  constexpr std::int64_t kRow = 48;
  const std::vector<std::int32_t> lengths = random_lengths(300, kRow);
  auto source = documents_of(lengths);
  std::vector<Ids> expected = documents_in(*source, 0, source->size());
  const PackedTokens packed(std::move(source), {.row_tokens = kRow});
  std::vector<Ids> found;
  std::int64_t padding = 0;
  for (std::int64_t row = 0; row < packed.counts().rows; ++row) {
    std::int64_t tokens = 0;
    for (Ids& document : documents_in(packed, row * kRow, (row + 1) * kRow)) {
      tokens += std::ssize(document);
      if (is_padding(document)) {
        padding += std::ssize(document);
      } else {
        found.push_back(std::move(document));
      }
    }
    REQUIRE(tokens == kRow);  // the last one ends with the row
  }
  std::sort(found.begin(), found.end());
  std::sort(expected.begin(), expected.end());
  CHECK(found == expected);
  CHECK(packed.counts().padding == padding);
  CHECK(packed.size() == packed.counts().rows * kRow + 1);
}

TEST_CASE("documents longer than a row are cut or dropped, and counted") {
  const std::vector<std::int32_t> lengths{3, 9, 2, 4};
  const PackedTokens cut(documents_of(lengths), {.row_tokens = 4});
  CHECK(cut.counts().overlong == 1);
  CHECK(cut.counts().dropped_tokens == 0);
  CHECK(cut.counts().tokens == 18);
  // 3 with the last token of 9, 4, 4, 2, 4.
  CHECK(cut.counts().rows == 5);
  CHECK(documents_in(cut, 0, 4) == std::vector<Ids>{{10, 11, kEnd}, {kEnd}});
  const PackedTokens drop(documents_of(lengths), {.row_tokens = 4, .overlong = Overlong::kDrop});
  CHECK(drop.counts().documents == 4);
  CHECK(drop.counts().overlong == 1);
  CHECK(drop.counts().dropped_tokens == 9);
  CHECK(drop.counts().tokens == 9);
  CHECK(drop.counts().padding == 3);
}

TEST_CASE("padding has no loss, and documents keep theirs and their place") {
  const PackedTokens packed(documents_of({2, 3}, {0, 1, 1, 0, 1}), {.row_tokens = 4});
  std::vector<std::uint8_t> loss(9);
  packed.read_loss(0, loss);
  CHECK(loss == std::vector<std::uint8_t>{0, 1, 0, 0, 1, 0, 1, 0, 0});
  CHECK(packed.place_of(5).file == "listed tokens");
  CHECK(packed.place_of(5).token == 3);
  CHECK(packed.place_of(7).file == "padding");
}

TEST_CASE("a packed row predicts nothing across documents, and positions restart") {
  const PackedTokens packed(documents_of({20, 10}), {.row_tokens = 32});
  const Ids row = rows_of_step(packed, 1, 1, 0).at(0);
  for (std::size_t i = 0; i < 32; ++i) {
    const bool last = i == 19 || i >= 29;
    CHECK(row[32 + i] == (last ? kIgnoreTarget : row[i + 1]));
    const std::size_t begin = i < 20 ? 0 : i < 30 ? 20 : 30;
    CHECK(row[64 + i] == static_cast<std::int32_t>(i - begin));
  }
}

TEST_CASE("packed samples are the same for any number of ranks, and going on from any step") {
  const PackedTokens packed(documents_of(random_lengths(200, 40)), {.row_tokens = 32});
  const std::vector<Ids> one = rows_of_step(packed, 1, 8, 8);
  CHECK(rows_of_step(packed, 2, 4, 8) == one);
  CHECK(rows_of_step(packed, 4, 2, 8) == one);
  const PackedTokens again(documents_of(random_lengths(200, 40)), {.row_tokens = 32});
  CHECK(rows_of_step(again, 1, 8, 8) == one);
  CHECK(rows_of_step(packed, 1, 8, 16) != one);
}

TEST_CASE("pairs of answers stay side by side in one row, and are told to the batch") {
  const auto pairs_of = [](const std::vector<std::int32_t>& lengths) {
    std::unique_ptr<ListedTokens> listed = documents_of(lengths);
    Ids ids(static_cast<std::size_t>(listed->size()));
    listed->read(0, ids);
    return std::make_unique<ListedTokens>(std::move(ids), kEnd, std::vector<std::uint8_t>{}, true);
  };
  const PackingOptions options{.row_tokens = 12, .overlong = Overlong::kDrop};
  // Pairs of 5, 13 (dropped), 6 and 7 tokens: the first and the last fill a row.
  const PackedTokens packed(pairs_of({2, 3, 9, 4, 3, 3, 4, 3}), options);
  CHECK(packed.has_pairs());
  CHECK(packed.counts().documents == 4);
  CHECK(packed.counts().overlong == 1);
  CHECK(packed.counts().rows == 2);
  std::vector<std::int64_t> ends;
  packed.document_ends_in(0, 24, ends);
  CHECK(ends == std::vector<std::int64_t>{2, 5, 9, 12, 15, 18, 24});

  ThreadPool pool(1);
  BatchOptions batch{.shape = {.rows = 2, .tokens = 12, .sub_batches = 1},
                     .mask = DocumentMask::kOn,
                     .pairs = true,
                     .sample_order = SampleOrder::kInOrder,
                     .vocabulary = 1000};
  BatchLoader loader(packed, batch, pool);
  test::Pass pass(batch);
  CHECK(loader.fill_pass(0, 0, pass.buffers()) == 3);
  CHECK(pass.pair_counts[0] == 3);
  CHECK(pass.pairs == Ids{0, 2, 5, 5, 9, 12, 12, 15, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0});

  CHECK_THROWS_WITH(PackedTokens(pairs_of({2, 3}), {.row_tokens = 12}),
                    ContainsSubstring("data.overlong") && ContainsSubstring("drop"));
  CHECK_THROWS_WITH(PackedTokens(pairs_of({9, 4}), options),
                    ContainsSubstring("no pair of at most 12") && ContainsSubstring("Raise"));
  CHECK_THROWS_WITH(PackedTokens(pairs_of({2, 3, 4}), options),
                    ContainsSubstring("without a rejected one"));
  CHECK_THROWS_WITH(PackedTokens(pairs_of({2, 3, 4, 1}), options),
                    ContainsSubstring("begins with token 5") && ContainsSubstring("a target"));
}

TEST_CASE("a source without documents, or with none that fits, is refused with the remedy") {
  CHECK_THROWS_WITH(PackedTokens(std::make_unique<ListedTokens>(Ids{5, 6, 7}), {.row_tokens = 4}),
                    ContainsSubstring("data.packing") && ContainsSubstring("data.eos_token"));
  CHECK_THROWS_WITH(
      PackedTokens(documents_of({5, 6}), {.row_tokens = 4, .overlong = Overlong::kDrop}),
      ContainsSubstring("data.overlong") && ContainsSubstring("data.sequence_length"));
}

}  // namespace strata
