// Tests that samples of mixed and joined sources are the same for any number of ranks and after a
// restart, and that joined files read as one would whose bytes stood one behind another.

#include "strata/data/sample_map.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/data/batch.h"
#include "strata/data/joined_tokens.h"
#include "strata/data/sample_order.h"
#include "strata/data/token_file.h"
#include "support/catch.h"
#include "support/scratch_folder.h"

namespace strata {

namespace {

using Ids = std::vector<std::int32_t>;

struct Document {
  Ids ids{};
  std::vector<std::uint8_t> loss{};
};

std::unique_ptr<TokenSource> file_of_documents(const ScratchFolder& folder, const std::string& name,
                                               const std::vector<Document>& documents,
                                               std::uint64_t hash = 5) {
  TokenFileWriter writer(folder.file(name),
                         {.type = TokenType::kU16, .vocabulary = 1000, .tokenizer_hash = hash});
  for (const Document& document : documents) {
    if (document.loss.empty()) {
      writer.append(document.ids);
    } else {
      writer.append(document.ids, document.loss);
    }
    writer.end_document();
  }
  writer.close();
  writer.publish();
  return TokenFile::open(folder.file(name));
}

/// Tokens begin, begin + 1, ...
std::unique_ptr<TokenSource> counting_file(const ScratchFolder& folder, const std::string& name,
                                           std::int32_t begin, std::int32_t count) {
  Document document;
  for (std::int32_t i = 0; i < count; ++i) document.ids.push_back(begin + i);
  return file_of_documents(folder, name, {document});
}

/// Rows and targets of a step by their number in the step, whoever had them.
std::map<std::int64_t, Ids> step_rows(const std::vector<SourceShare>& sources, int ranks,
                                      std::int64_t first_sample, SampleOrder order) {
  constexpr std::int64_t kRows = 8;
  BatchOptions options{.shape = {.rows = 2, .tokens = 5, .sub_batches = kRows / 2 / ranks},
                       .ranks = ranks,
                       .sample_order = order,
                       .seed = 7,
                       .vocabulary = 1000};
  std::map<std::int64_t, Ids> by_row;
  ThreadPool pool(1);
  for (options.rank = 0; options.rank < ranks; ++options.rank) {
    BatchLoader loader(sources, options, pool);
    const auto tokens = static_cast<std::size_t>(options.shape.pass_tokens());
    Ids ids(tokens), targets(tokens), positions(tokens), order_of_ids(tokens);
    Ids segments(static_cast<std::size_t>(options.shape.sub_batches * 2 * kSegmentColumns));
    std::vector<std::int64_t> counts(static_cast<std::size_t>(options.shape.sub_batches));
    loader.fill_pass(first_sample, 0, {ids, targets, positions, segments, order_of_ids, counts});
    for (std::int64_t row = 0; row < options.shape.sub_batches * 2; ++row) {
      const auto at = static_cast<std::ptrdiff_t>(row * 5);
      Ids& both = by_row[first_sample_of(options, 0, row / 2) + row % 2];
      both.assign(ids.begin() + at, ids.begin() + at + 5);
      both.insert(both.end(), targets.begin() + at, targets.begin() + at + 5);
    }
  }
  return by_row;
}

}  // namespace

TEST_CASE("a mixture gives 1, 2 and 4 ranks the same rows, also from the middle on") {
  const ScratchFolder folder;
  const auto a = counting_file(folder, "a.bin", 0, 61);
  const auto b = counting_file(folder, "b.bin", 100, 36);
  const auto c = counting_file(folder, "c.bin", 200, 500);
  const std::vector<SourceShare> sources{{a.get(), 0.5}, {b.get(), 0.2}, {c.get(), 0.3}};
  for (const SampleOrder order : {SampleOrder::kShuffled, SampleOrder::kInOrder}) {
    // A run that goes on knows nothing but the samples it has consumed: each step has new loaders.
    for (const std::int64_t first : {0, 8, 40, 8000}) {
      const auto one = step_rows(sources, 1, first, order);
      REQUIRE(one.size() == 8);
      CHECK(step_rows(sources, 2, first, order) == one);
      CHECK(step_rows(sources, 4, first, order) == one);
    }
  }
}

TEST_CASE("each source of a mixture goes through its own epochs, each sample once") {
  const ScratchFolder folder;
  const auto a = counting_file(folder, "a.bin", 0, 61);    // 12 samples
  const auto b = counting_file(folder, "b.bin", 100, 36);  // 7
  const SampleMap map({{a.get(), 3}, {b.get(), 1}}, {.tokens = 5, .seed = 3});
  std::map<std::pair<std::size_t, std::int64_t>, std::set<std::int64_t>> seen;
  for (std::int64_t i = 0; i < 4 * 7 * 12; ++i) {
    const SamplePlace place = map.at(i);
    CHECK(seen[{place.source, place.epoch}].insert(place.first_token).second);
  }
  CHECK(seen.size() == 3 * 7 + 12);  // epochs of either, all of them whole
  for (const auto& [epoch, samples] : seen) CHECK(samples.size() == (epoch.first == 0 ? 12 : 7));
  CHECK(map.epochs(0, 4 * 7 * 12) == 21);
  CHECK(map.epochs(1, 4 * 7) == 1);
  CHECK(map.samples() == 19);
}

TEST_CASE("one source in order is read from front to back, again and again") {
  const ScratchFolder folder;
  const auto a = counting_file(folder, "a.bin", 0, 16);
  const SampleMap map({{a.get(), 1}}, {.tokens = 5, .order = SampleOrder::kInOrder, .seed = 3});
  for (std::int64_t i = 0; i < 10; ++i) {
    CHECK(map.at(i).first_token == i % 3 * 5);
    CHECK(map.at(i).epoch == i / 3);
  }
}

TEST_CASE("the first source is shuffled as if it were alone, the others by other seeds") {
  const ScratchFolder folder;
  const auto a = counting_file(folder, "a.bin", 0, 501);
  const auto b = counting_file(folder, "b.bin", 0, 501);
  const SampleMap map({{a.get(), 1}, {b.get(), 1}}, {.tokens = 5, .seed = 3});
  int same = 0;
  for (std::int64_t i = 0; i < 200; i += 2) {
    const SamplePlace first = map.at(i);
    const SamplePlace second = map.at(i + 1);
    REQUIRE(first.source == 0);
    REQUIRE(second.source == 1);
    CHECK(first.first_token == sample(3, i / 2, 100).position * 5);
    same += first.first_token == second.first_token;
  }
  CHECK(same < 10);
}

TEST_CASE("joined files read as one whose documents end with the files") {
  const ScratchFolder folder;
  std::vector<std::unique_ptr<TokenSource>> parts;
  parts.push_back(file_of_documents(folder, "a.bin", {{{1, 2, 3}}, {{4, 5}}}));
  parts.push_back(file_of_documents(folder, "b.bin", {}));
  parts.push_back(file_of_documents(folder, "c.bin", {{{6, 7}, {0, 1}}}));
  folder.write("d.bin", bytes_of(std::vector<std::uint16_t>{8, 9, 10}));
  parts.push_back(TokenFile::open(folder.file("d.bin"), RawTokenFormat{}));
  const JoinedTokens joined(std::move(parts));
  REQUIRE(joined.size() == 10);
  CHECK(joined.name() == folder.file("a.bin") + " and 3 more");
  CHECK(joined.vocabulary() == 1000);
  CHECK(joined.has_loss());
  const std::vector<std::int64_t> all_ends{3, 5, 7, 10};
  const std::vector<std::uint8_t> all_loss{1, 1, 1, 1, 1, 0, 1, 1, 1, 1};
  for (std::int64_t begin = 0; begin <= 10; ++begin) {
    for (std::int64_t end = begin; end <= 10; ++end) {
      const auto count = static_cast<std::size_t>(end - begin);
      Ids ids(count), expected_ids(count);
      std::vector<std::uint8_t> loss(count);
      for (std::size_t i = 0; i < count; ++i) {
        expected_ids[i] = static_cast<std::int32_t>(begin) + 1 + static_cast<std::int32_t>(i);
      }
      joined.read(begin, ids);
      joined.read_loss(begin, loss);
      CHECK(ids == expected_ids);
      CHECK(loss == std::vector<std::uint8_t>(all_loss.begin() + begin, all_loss.begin() + end));
      std::vector<std::int64_t> ends, expected_ends;
      joined.document_ends_in(begin, end, ends);
      std::ranges::copy_if(all_ends, std::back_inserter(expected_ends),
                           [&](std::int64_t at) { return at > begin && at <= end; });
      CHECK(ends == expected_ends);
    }
  }
  CHECK(joined.place_of(4).token == 4);
  CHECK(joined.place_of(5).file == folder.file("c.bin"));
  CHECK(joined.place_of(9).file == folder.file("d.bin"));
  CHECK(joined.place_of(9).token == 2);
  Ids outside(2);
  REQUIRE_THROWS_AS(joined.read(9, outside), IoError);
}

TEST_CASE("an id that is too large is told by the file that it is in") {
  const ScratchFolder folder;
  std::vector<std::unique_ptr<TokenSource>> parts;
  parts.push_back(file_of_documents(folder, "a.bin", {{{1, 2, 3}}}));
  parts.push_back(file_of_documents(folder, "b.bin", {{{4, 999, 5}}}));
  const JoinedTokens joined(std::move(parts));
  ThreadPool pool(1);
  BatchLoader loader(joined, {.shape = {.rows = 1, .tokens = 5}, .vocabulary = 900}, pool);
  Ids ids(5), targets(5), positions(5), segments(5), order(5);
  std::vector<std::int64_t> counts(1);
  REQUIRE_THROWS_WITH(loader.fill_pass(0, 0, {ids, targets, positions, segments, order, counts}),
                      ContainsSubstring("b.bin: token 1 has id 999"));
}

TEST_CASE("files of different tokenizers are not joined") {
  const ScratchFolder folder;
  std::vector<std::unique_ptr<TokenSource>> parts;
  folder.write("bare.bin", bytes_of(std::vector<std::uint16_t>{8, 9, 10}));
  parts.push_back(TokenFile::open(folder.file("bare.bin"), RawTokenFormat{}));
  parts.push_back(file_of_documents(folder, "a.bin", {{{1, 2}}}, 5));
  parts.push_back(file_of_documents(folder, "b.bin", {{{1, 2}}}, 6));
  REQUIRE_THROWS_WITH(JoinedTokens(std::move(parts)),
                      ContainsSubstring("a.bin") && ContainsSubstring("b.bin"));
}

TEST_CASE("files of more tokens than can be counted are not joined") {
  constexpr std::int64_t kHalf = std::int64_t{1} << 62;
  std::vector<std::unique_ptr<TokenSource>> parts;
  for (int i = 0; i < 2; ++i) parts.push_back(std::make_unique<SyntheticTokens>(kHalf, 10, 0));
  REQUIRE_THROWS_WITH(JoinedTokens(std::move(parts)),
                      ContainsSubstring("more tokens than can be counted"));
}

TEST_CASE("several sources cannot be read once, and short ones not at all") {
  const ScratchFolder folder;
  const auto a = counting_file(folder, "a.bin", 0, 16);
  const auto b = counting_file(folder, "b.bin", 0, 5);
  const SampleCut once{.tokens = 4, .order = SampleOrder::kOnce};
  REQUIRE_THROWS_AS(SampleMap({{a.get(), 1}, {b.get(), 1}}, once), ConfigError);
  REQUIRE_THROWS_WITH(SampleMap({{a.get(), 1}, {b.get(), 1}}, {.tokens = 5}),
                      ContainsSubstring("b.bin: holds 5 tokens"));
}

}  // namespace strata
