// Tests which tokens, targets, segments and orders a batch holds, against sources in memory whose
// ids name their place; the same data must come for any number of ranks, passes and threads.

#include "strata/data/batch.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "data/pass.h"
#include "strata/base/error.h"
#include "support/catch.h"
#include "support/listed_tokens.h"

namespace strata {

namespace {

using test::Pass;
using Ids = std::vector<std::int32_t>;

/// 0, 1, 2, ...: a row of it names its sample.
ListedTokens counting_tokens(std::int32_t count) {
  Ids ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  return ListedTokens(std::move(ids));
}

/// One pass as the loader fills it.
Pass fill(const TokenSource& source, const BatchOptions& options, std::int64_t first_sample = 0,
          int pass = 0, int threads = 1) {
  ThreadPool pool(threads);
  BatchLoader loader(source, options, pool);
  Pass p(options);
  p.valid = loader.fill_pass(first_sample, pass, p.buffers());
  return p;
}

/// Samples that the rows of a pass over counting_tokens came from, in the order of the buffer.
std::vector<std::int64_t> samples_of(const Pass& pass, std::int64_t tokens) {
  std::vector<std::int64_t> samples;
  for (std::size_t i = 0; i < pass.ids.size(); i += static_cast<std::size_t>(tokens)) {
    samples.push_back(pass.ids[i] / tokens);
  }
  return samples;
}

/// One step of all ranks, by global row: sub-batch, then rank, then row.
std::vector<std::int64_t> step_samples(const TokenSource& source, BatchOptions options,
                                       std::int64_t first_sample) {
  const BatchShape& shape = options.shape;
  std::map<std::int64_t, std::int64_t> by_row;
  for (options.rank = 0; options.rank < options.ranks; ++options.rank) {
    for (int pass = 0; pass < options.passes; ++pass) {
      const auto samples = samples_of(fill(source, options, first_sample, pass), shape.tokens);
      for (std::int64_t i = 0; i < std::ssize(samples); ++i) {
        const std::int64_t sub_batch = pass * shape.sub_batches + i / shape.rows;
        const std::int64_t row = (sub_batch * options.ranks + options.rank) * shape.rows;
        by_row[row + i % shape.rows] = samples[static_cast<std::size_t>(i)];
      }
    }
  }
  std::vector<std::int64_t> samples;
  for (const auto& [row, value] : by_row) samples.push_back(value);
  return samples;
}

}  // namespace

TEST_CASE("one source has the order of samples that it always had") {
  // A resumed run must go on with the data that it would have seen.
  const std::vector<std::int64_t> expected{4, 1, 6, 3, 7, 9, 0, 2, 5, 8, 3, 7, 1,
                                           0, 2, 5, 9, 6, 4, 8, 5, 1, 0, 7, 6};
  const Pass p = fill(
      counting_tokens(31),
      {.shape = {.rows = 1, .tokens = 3, .sub_batches = 25}, .seed = 2024, .vocabulary = 471'100});
  CHECK(samples_of(p, 3) == expected);
}

TEST_CASE("targets whose loss does not count are ignored, and nothing else changes") {
  const Ids ids{5, 3, 9, 3, 0, 7, 5, 1, 2, 8, 6, 4, 4};
  const BatchOptions options{.shape = {.rows = 2, .tokens = 3, .sub_batches = 2},
                             .sample_order = SampleOrder::kOnce,
                             .vocabulary = 10};
  const Pass all = fill(ListedTokens(ids), options);
  // Token i is the target of place i - 1.
  const Pass some = fill(ListedTokens(ids, -1, {0, 1, 0, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1}), options);
  CHECK(some.targets == Ids{3, kIgnoreTarget, 3,                          //
                            kIgnoreTarget, kIgnoreTarget, kIgnoreTarget,  //
                            1, 2, 8,                                      //
                            kIgnoreTarget, kIgnoreTarget, 4});
  CHECK(some.valid == 6);
  CHECK(all.valid == 12);
  CHECK(some.ids == all.ids);
  CHECK(some.positions == all.positions);
  CHECK(some.segments == all.segments);
  CHECK(some.order == all.order);
}

TEST_CASE("a target counts only if neither its loss bit nor a document's end ignores it") {
  const ListedTokens source({1, 2, 9, 3, 4, 9, 5}, 9, {1, 1, 0, 1, 1, 1, 1});
  const BatchOptions options{.shape = {.rows = 1, .tokens = 6},
                             .mask = DocumentMask::kOn,
                             .sample_order = SampleOrder::kOnce,
                             .vocabulary = 10};
  const Pass p = fill(source, options);
  CHECK(p.targets == Ids{2, kIgnoreTarget, kIgnoreTarget, 4, 9, kIgnoreTarget});
  CHECK(p.valid == 3);
}

TEST_CASE("a source in which no loss counts is refused") {
  ThreadPool pool(1);
  const ListedTokens none({1, 2, 3, 4, 5}, -1, {1, 0, 0, 0, 0});
  const BatchOptions options{.shape = {.rows = 1, .tokens = 2}, .vocabulary = 10};
  BatchLoader loader(none, options, pool);
  REQUIRE_THROWS_WITH(loader.require_target(2), ContainsSubstring("loss bits"));
  const ListedTokens last({1, 2, 3, 4, 5}, -1, {0, 0, 0, 0, 1});
  CHECK_NOTHROW(BatchLoader(last, options, pool).require_target(2));
  REQUIRE_THROWS_AS(BatchLoader(last, options, pool).require_target(1), IoError);
}

TEST_CASE("rows without masks are runs of the file with the next tokens as targets") {
  const ListedTokens source({5, 3, 9, 3, 0, 7, 5, 1, 2, 8, 6, 4, 4});
  const Pass p = fill(source, {.shape = {.rows = 2, .tokens = 3, .sub_batches = 2},
                               .sample_order = SampleOrder::kOnce,
                               .vocabulary = 10});
  CHECK(p.ids == Ids{5, 3, 9, 3, 0, 7, 5, 1, 2, 8, 6, 4});
  CHECK(p.targets == Ids{3, 9, 3, 0, 7, 5, 1, 2, 8, 6, 4, 4});
  CHECK(p.positions == Ids{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2});
  CHECK(p.segments == Ids{0, 0, 3, 3, 0, 3, 3, 3, 3, 0, 0, 0, 3, 3, 0, 3, 3, 3, 3, 0});
  CHECK(p.segment_counts == std::vector<std::int64_t>{2, 2});
  CHECK(p.order == Ids{4, 1, 3, 0, 5, 2, 1, 2, 5, 0, 4, 3});
  CHECK(p.valid == 12);
}

TEST_CASE("packed documents do not see each other and do not predict each other") {
  // Documents: 10 11 2 | 20 21 22 23 2 | 30 2. Rows of 4.
  const ListedTokens source({10, 11, 2, 20, 21, 22, 23, 2, 30, 2}, 2);
  const Pass p = fill(source, {.shape = {.rows = 2, .tokens = 4, .sub_batches = 1},
                               .mask = DocumentMask::kOn,
                               .sample_order = SampleOrder::kOnce,
                               .vocabulary = 64});
  CHECK(p.ids == Ids{10, 11, 2, 20, 21, 22, 23, 2});
  CHECK(p.targets == Ids{11, 2, -100, 21, 22, 23, 2, -100});
  CHECK(p.positions == Ids{0, 1, 2, 0, 0, 1, 2, 3});
  Ids segments{0, 0, 3, 3, 0, 3, 3, 1, 1, 0, 4, 4, 4, 4, 0};
  segments.resize(8 * 5, 0);
  CHECK(p.segments == segments);
  CHECK(p.segment_counts == std::vector<std::int64_t>{3});
  CHECK(p.order == Ids{2, 7, 0, 1, 3, 4, 5, 6});
  CHECK(p.valid == 6);
}

TEST_CASE("the same file without masks keeps all targets") {
  const ListedTokens source({10, 11, 2, 20, 21, 22, 23, 2, 30, 2}, 2);
  const Pass p = fill(source, {.shape = {.rows = 2, .tokens = 4, .sub_batches = 1},
                               .sample_order = SampleOrder::kOnce,
                               .vocabulary = 64});
  CHECK(p.targets == Ids{11, 2, 20, 21, 22, 23, 2, 30});
  CHECK(p.valid == 8);
}

TEST_CASE("documents of one token each use the whole segment table") {
  const ListedTokens source(Ids(7, 2), 2);
  const Pass p = fill(source, {.shape = {.rows = 2, .tokens = 3, .sub_batches = 1},
                               .mask = DocumentMask::kOn,
                               .sample_order = SampleOrder::kOnce,
                               .vocabulary = 3});
  Ids segments;
  for (std::int32_t n = 0; n < 6; ++n) segments.insert(segments.end(), {n, n, 1, 1, 0});
  CHECK(p.segments == segments);
  CHECK(p.segment_counts == std::vector<std::int64_t>{6});
  CHECK(p.positions == Ids(6, 0));
  CHECK(p.targets == Ids(6, kIgnoreTarget));
  CHECK(p.valid == 0);
}

TEST_CASE("the order is sorted by id and then position, whatever the vocabulary") {
  for (const std::int64_t vocabulary : {1, 2, 257, 2048, 2049, 128'256, 5'000'000}) {
    const SyntheticTokens source(10'000, vocabulary, 3);
    const BatchShape shape{.rows = 3, .tokens = 333, .sub_batches = 2};
    const Pass p = fill(source, {.shape = shape, .vocabulary = vocabulary});
    for (std::size_t s = 0; s < 2; ++s) {
      const auto ids = std::span(p.ids).subspan(s * 999, 999);
      std::vector<std::pair<std::int32_t, std::int32_t>> expected;
      for (std::int32_t n = 0; n < 999; ++n) {
        expected.emplace_back(ids[static_cast<std::size_t>(n)], n);
      }
      std::sort(expected.begin(), expected.end());
      const auto order = std::span(p.order).subspan(s * 999, 999);
      const bool sorted = std::equal(order.begin(), order.end(), expected.begin(),
                                     [](std::int32_t n, const auto& e) { return n == e.second; });
      INFO("vocabulary " << vocabulary << ", sub-batch " << s);
      CHECK(sorted);
    }
  }
}

TEST_CASE("ids above 65535 pass, and any id outside of the model's vocabulary is named") {
  const ListedTokens source({128'000, 65'536, 7, 128'255, 70'000, 1, 2});
  BatchOptions options{.shape = {.rows = 1, .tokens = 3, .sub_batches = 2},
                       .sample_order = SampleOrder::kOnce,
                       .vocabulary = 128'256};
  CHECK(fill(source, options).ids == Ids{128'000, 65'536, 7, 128'255, 70'000, 1});
  options.vocabulary = 128'255;
  REQUIRE_THROWS_AS(fill(source, options), IoError);
  REQUIRE_THROWS_WITH(fill(source, options),
                      ContainsSubstring("listed tokens") && ContainsSubstring("token 3 ") &&
                          ContainsSubstring("id 128255") && ContainsSubstring("471100"));
  // Also if it is nothing but the target behind the last row.
  const ListedTokens last({1, 2, 3, 99});
  REQUIRE_THROWS_WITH(
      fill(last, {.shape = {.rows = 1, .tokens = 3, .sub_batches = 1}, .vocabulary = 99}),
      ContainsSubstring("token 3 "));
  // A u32 id above 2^31 comes out of the file negative.
  const ListedTokens negative({1, -2, 3, 4});
  REQUIRE_THROWS_WITH(
      fill(negative, {.shape = {.rows = 1, .tokens = 3, .sub_batches = 1}, .vocabulary = 99}),
      ContainsSubstring("id 4294967294"));
}

TEST_CASE("a step of fewer rows than there is room for leaves the last places empty") {
  const ListedTokens source = counting_tokens(97);
  BatchOptions options{.shape = {.rows = 2, .tokens = 4, .sub_batches = 2},
                       .ranks = 2,
                       .step_rows = 5,
                       .sample_order = SampleOrder::kOnce,
                       .vocabulary = 97};
  ThreadPool pool(1);
  CHECK(BatchLoader(source, options, pool).samples_per_step() == 5);
  const Pass first = fill(source, options, 10);
  options.rank = 1;
  const Pass second = fill(source, options, 10);
  // Sub-batch 0: rows 0 and 1 here, 2 and 3 there; sub-batch 1: row 4 here, and no more.
  CHECK(samples_of(first, 4) == std::vector<std::int64_t>{10, 11, 14, 0});
  CHECK(samples_of(second, 4) == std::vector<std::int64_t>{12, 13, 0, 0});
  CHECK(first.valid == 12);
  CHECK(second.valid == 8);
  const Ids ignored(4, kIgnoreTarget);
  for (const Pass* pass : {&first, &second}) {
    CHECK(Ids(pass->targets.end() - 4, pass->targets.end()) == ignored);
    CHECK(Ids(pass->ids.end() - 4, pass->ids.end()) == Ids(4, 0));
  }
  options.step_rows = 1;
  CHECK(fill(source, options, 10).valid == 0);
}

TEST_CASE("an epoch of training sees every sample once, in an order of its own") {
  const ListedTokens source = counting_tokens(4 * 24 + 1);
  BatchOptions options{.shape = {.rows = 2, .tokens = 4, .sub_batches = 3},
                       .passes = 2,
                       .seed = 8,
                       .vocabulary = 97};
  std::vector<std::vector<std::int64_t>> epochs;
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<std::int64_t> seen;
    for (int step = 0; step < 2; ++step) {
      const auto samples = step_samples(source, options, (2 * epoch + step) * 12);
      seen.insert(seen.end(), samples.begin(), samples.end());
    }
    CHECK(std::set<std::int64_t>(seen.begin(), seen.end()).size() == 24);
    CHECK_FALSE(std::is_sorted(seen.begin(), seen.end()));
    epochs.push_back(seen);
  }
  CHECK(epochs[0] != epochs[1]);
  options.seed = 9;
  CHECK(
      step_samples(source, options, 0) !=
      step_samples(source, {.shape = options.shape, .passes = 2, .seed = 8, .vocabulary = 97}, 0));
}

TEST_CASE("a step is the same data on any number of ranks, passes and sub-batches") {
  const ListedTokens source = counting_tokens(5 * 100 + 1);
  const auto step = [&](int ranks, std::int64_t sub_batches, int passes, std::int64_t rows) {
    const BatchOptions options{.shape = {.rows = rows, .tokens = 5, .sub_batches = sub_batches},
                               .passes = passes,
                               .ranks = ranks,
                               .seed = 1,
                               .vocabulary = 501};
    return step_samples(source, options, 3 * 12);
  };
  const auto one_rank = step(1, 6, 1, 2);
  CHECK(std::set<std::int64_t>(one_rank.begin(), one_rank.end()).size() == 12);
  CHECK(step(2, 3, 1, 2) == one_rank);
  CHECK(step(3, 2, 1, 2) == one_rank);
  CHECK(step(1, 3, 2, 2) == one_rank);
  CHECK(step(3, 1, 2, 2) == one_rank);
  CHECK(step(1, 1, 1, 12) == one_rank);
  CHECK(step(2, 2, 3, 1) == one_rank);
}

TEST_CASE("a changed batch size neither repeats nor skips data") {
  const ListedTokens source = counting_tokens(3 * 40 + 1);
  const auto run = [&](const std::vector<std::int64_t>& rows_of_steps) {
    std::vector<std::int64_t> seen;
    std::int64_t next = 0;
    for (const std::int64_t rows : rows_of_steps) {
      const BatchOptions options{
          .shape = {.rows = rows, .tokens = 3, .sub_batches = 2}, .seed = 6, .vocabulary = 121};
      const auto samples = step_samples(source, options, next);
      seen.insert(seen.end(), samples.begin(), samples.end());
      next += std::ssize(samples);
    }
    return seen;
  };
  const auto constant = run({5, 5, 5, 5});
  CHECK(constant == run({1, 9, 2, 8}));
  CHECK(std::set<std::int64_t>(constant.begin(), constant.end()).size() == 40);
}

TEST_CASE("evaluation sees each sample once and counts nothing behind the last") {
  const ListedTokens source = counting_tokens(4 * 5 + 3);
  std::int64_t valid = 0;
  std::vector<std::int64_t> seen;
  for (int rank = 0; rank < 2; ++rank) {
    const BatchOptions options{.shape = {.rows = 2, .tokens = 4, .sub_batches = 2},
                               .rank = rank,
                               .ranks = 2,
                               .mask = DocumentMask::kOn,
                               .sample_order = SampleOrder::kOnce,
                               .vocabulary = 30};
    const Pass p = fill(source, options);
    valid += p.valid;
    CHECK(p.segment_counts == std::vector<std::int64_t>{2, 2});
    for (std::size_t row = 0; row < 4; ++row) {
      const auto targets = std::span(p.targets).subspan(row * 4, 4);
      const auto ids = std::span(p.ids).subspan(row * 4, 4);
      if (targets[0] == kIgnoreTarget) {
        CHECK(std::ranges::count(targets, kIgnoreTarget) == 4);
        CHECK(std::ranges::count(ids, 0) == 4);
      } else {
        seen.push_back(ids[0] / 4);
      }
      // Rows without tokens are whole segments like the others.
      const std::size_t entry = (row / 2) * 8 * 5 + (row % 2) * 5;
      const auto begin = static_cast<std::int32_t>(row % 2 * 4);
      CHECK(Ids(p.segments.begin() + static_cast<std::ptrdiff_t>(entry),
                p.segments.begin() + static_cast<std::ptrdiff_t>(entry) + 5) ==
            Ids{begin, begin, 4, 4, 0});
    }
  }
  std::sort(seen.begin(), seen.end());
  CHECK(seen == std::vector<std::int64_t>{0, 1, 2, 3, 4});
  CHECK(valid == 20);
}

TEST_CASE("the number of threads does not change a batch") {
  const SyntheticTokens source(100'000, 1000, 4);
  const BatchOptions options{
      .shape = {.rows = 2, .tokens = 64, .sub_batches = 7}, .seed = 5, .vocabulary = 1000};
  const Pass alone = fill(source, options, 21, 0, 1);
  const Pass many = fill(source, options, 21, 0, 4);
  CHECK(alone.ids == many.ids);
  CHECK(alone.targets == many.targets);
  CHECK(alone.segments == many.segments);
  CHECK(alone.segment_counts == many.segment_counts);
  CHECK(alone.order == many.order);
  CHECK(alone.valid == many.valid);
}

TEST_CASE("sizes that do not fit together are refused") {
  const ListedTokens source = counting_tokens(9);
  ThreadPool pool(1);
  const BatchOptions good{.shape = {.rows = 1, .tokens = 8, .sub_batches = 1}, .vocabulary = 9};
  BatchLoader loader(source, good, pool);
  CHECK(loader.samples() == 1);
  Ids eight(8);
  Ids five(5);
  std::vector<std::int64_t> one(1);
  std::vector<std::int64_t> two(2);
  REQUIRE_THROWS_AS(loader.fill_pass(0, 0, {five, eight, eight, five, eight, one}), ShapeError);
  REQUIRE_THROWS_AS(loader.fill_pass(0, 0, {eight, eight, eight, eight, eight, one}), ShapeError);
  REQUIRE_THROWS_AS(loader.fill_pass(0, 0, {eight, eight, eight, five, eight, two}), ShapeError);
  REQUIRE_THROWS_AS(loader.fill_pass(0, 1, {eight, eight, eight, five, eight, one}), ConfigError);
  REQUIRE_THROWS_AS(loader.fill_pass(-1, 0, {eight, eight, eight, five, eight, one}), ConfigError);
  CHECK(loader.fill_pass(0, 0, {eight, eight, eight, five, eight, one}) == 8);

  BatchOptions bad = good;
  bad.shape.tokens = 9;
  REQUIRE_THROWS_WITH(BatchLoader(source, bad, pool),
                      ContainsSubstring("9 tokens") && ContainsSubstring("takes 10"));
  bad = good;
  bad.shape.rows = 0;
  REQUIRE_THROWS_AS(BatchLoader(source, bad, pool), ConfigError);
  bad = good;
  bad.rank = 1;
  REQUIRE_THROWS_AS(BatchLoader(source, bad, pool), ConfigError);
}

TEST_CASE("synthetic tokens are uniform and the same in every reading") {
  const SyntheticTokens source(1'000'000, 10, 42);
  Ids all(100'000);
  source.read(5000, all);
  std::vector<int> counts(10);
  for (const std::int32_t id : all) ++counts.at(static_cast<std::size_t>(id));
  // Binomial around 10000, deviation 95.
  for (const int count : counts) {
    CHECK(count > 10'000 - 5 * 95);
    CHECK(count < 10'000 + 5 * 95);
  }
  Ids part(100);
  source.read(5300, part);
  CHECK(std::equal(part.begin(), part.end(), all.begin() + 300));
  Ids other(100);
  SyntheticTokens(1'000'000, 10, 43).read(5300, other);
  CHECK(other != part);
  REQUIRE_THROWS_AS(source.read(999'999, part), IoError);
}

}  // namespace strata
