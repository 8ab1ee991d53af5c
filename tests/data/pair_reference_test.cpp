// Tests that batches get what a file of a reference has of their pairs, however these are packed,
// joined and shuffled, and that a file that does not fit is refused with the remedy.

#include "strata/data/pair_reference.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "data/pass.h"
#include "strata/base/error.h"
#include "strata/base/output_file.h"
#include "strata/data/batch.h"
#include "strata/data/joined_tokens.h"
#include "strata/data/open_source.h"
#include "strata/data/packed_tokens.h"
#include "strata/data/token_file.h"
#include "support/catch.h"
#include "support/scratch_folder.h"

namespace strata::test {
namespace {

constexpr std::uint64_t kModel = 0x5eed;
constexpr std::int64_t kRow = 16;

/// Writes pairs of 2 + 3 to 5 + 6 tokens, of which each has its first id for itself; `name` is in
/// the folder.
std::string write_pairs(const ScratchFolder& folder, const std::string& name, std::int32_t first_id,
                        int pairs) {
  const std::string file = folder.path() / name;
  TokenFileWriter writer(file, {.type = TokenType::kU16, .vocabulary = 500});
  writer.mark_pairs();
  for (int p = 0; p < pairs; ++p) {
    for (const int length : {2 + p % 4, 3 + p % 4}) {
      std::vector<std::int32_t> ids(static_cast<std::size_t>(length), 1);
      ids[0] = first_id + p;
      writer.append(ids, std::vector<std::uint8_t>(ids.size(), 1));
      writer.end_document();
    }
  }
  writer.close();
  writer.publish();
  return file;
}

/// Writes 1,800 pairs of answers of 100 tokens, more than a digest samples. Tokens 4,200 to 4,400
/// lie between two samples: those of pair 21, whose answers change places.
constexpr std::int64_t kExchanged = 21;
constexpr std::int64_t kManyAnswer = 100;
std::string write_many(const ScratchFolder& folder, bool exchanged) {
  const std::string file = folder.path() / "many.bin";
  TokenFileWriter writer(file, {.type = TokenType::kU16, .vocabulary = 500});
  writer.mark_pairs();
  for (std::int64_t p = 0; p < 1800; ++p) {
    for (std::int32_t answer = 0; answer < 2; ++answer) {
      const bool other = exchanged && p == kExchanged;
      std::vector<std::int32_t> ids(static_cast<std::size_t>(kManyAnswer),
                                    other ? 2 - answer : 1 + answer);
      ids[0] = static_cast<std::int32_t>(p % 500);
      writer.append(ids, std::vector<std::uint8_t>(ids.size(), 1));
      writer.end_document();
    }
  }
  writer.close();
  writer.publish();
  return file;
}

/// What the reference of these tests makes of a pair, by its first id.
PairLogs logs_of(std::int32_t first_id) {
  return {.chosen = -first_id / 8.0, .rejected = -first_id / 4.0};
}

/// Stores them for all pairs of a file but the last ones.
void store(const std::string& file, const ReferenceOrigin& origin = {kModel, kRow},
           std::size_t without = 0) {
  const auto tokens = open_token_source(file);
  std::vector<std::int64_t> ends;
  tokens->document_ends_in(0, tokens->size(), ends);
  std::vector<StoredPair> pairs;
  for (std::size_t i = 1; i < ends.size(); i += 2) {
    const std::int64_t begin = i == 1 ? 0 : ends[i - 2];
    std::vector<std::int32_t> id(1);
    tokens->read(begin, id);
    pairs.push_back(
        {.place = {.begin = begin, .middle = ends[i - 1], .end = ends[i]}, .logs = logs_of(id[0])});
  }
  pairs.resize(pairs.size() - without);
  OutputFile output(reference_file_of(file));
  write_reference(output, *tokens, origin, pairs);
}

std::unique_ptr<TokenSource> referenced(const std::string& file, std::uint64_t model = kModel,
                                        std::int64_t longest = kRow) {
  return std::make_unique<ReferencedTokens>(
      open_token_source(file),
      ReferenceWish{.model_folder = "a model", .model = model, .longest_answer = longest});
}

}  // namespace

TEST_CASE("batches get what the reference makes of their pairs, in any order") {
  const ScratchFolder folder;
  std::vector<std::unique_ptr<TokenSource>> parts;
  for (const auto& [name, first] : {std::pair{"a.bin", 10}, std::pair{"b.bin", 200}}) {
    const std::string file = write_pairs(folder, name, first, 9);
    store(file);
    parts.push_back(referenced(file));
  }
  const PackedTokens packed(std::make_unique<JoinedTokens>(std::move(parts)),
                            {.row_tokens = kRow, .overlong = Overlong::kDrop});
  ThreadPool pool(2);
  const BatchOptions options{.shape = {.rows = 2, .tokens = kRow, .sub_batches = 3},
                             .mask = DocumentMask::kOn,
                             .pairs = true,
                             .seed = 3,
                             .vocabulary = 500};
  BatchLoader loader(packed, options, pool);
  const auto tokens = static_cast<std::size_t>(options.shape.sub_batch_tokens());
  const auto entries = static_cast<std::size_t>(pair_entries(options.shape));
  Pass pass(options, /*wants_reference=*/true);
  std::int64_t seen = 0;
  std::int64_t wrong = 0;
  for (std::int64_t step = 0; step < 3; ++step) {
    seen += loader.fill_pass(step * loader.samples_per_step(), 0, pass.buffers());
    for (std::size_t s = 0; s < 3; ++s) {
      for (std::size_t p = 0; p < entries; ++p) {
        const bool used = static_cast<std::int64_t>(p) < pass.pair_counts[s];
        const auto begin = static_cast<std::size_t>(pass.pairs[(s * entries + p) * kPairColumns]);
        const PairLogs expected = used ? logs_of(pass.ids[s * tokens + begin]) : PairLogs();
        const double* got = &pass.reference_logs[(s * entries + p) * 2];
        wrong += got[0] == expected.chosen && got[1] == expected.rejected ? 0 : 1;
      }
    }
  }
  CHECK(seen >= 18);
  CHECK(wrong == 0);
}

TEST_CASE("a reference that is missing, or of something else, is refused with the remedy") {
  const ScratchFolder folder;
  const std::string file = write_pairs(folder, "pairs.bin", 10, 9);
  const auto check = [&](const std::string& what, std::uint64_t model = kModel,
                         std::int64_t longest = kRow) {
    std::string text;
    try {
      static_cast<void>(referenced(file, model, longest));
    } catch (const IoError& error) {
      text = error.what();
    }
    CHECK_THAT(text, ContainsSubstring(file + ".reference: ") && ContainsSubstring(what) &&
                         ContainsSubstring("by `strata evaluate 'a model' --input " + file +
                                           " --reference`"));
  };
  check("is not there");
  store(file);
  CHECK(referenced(file)->reference_logs({5, 8, 12}).chosen == logs_of(11).chosen);
  CHECK_THROWS_WITH(referenced(file)->reference_logs({6, 8, 12}),
                    ContainsSubstring("no pair that begins with token 6"));
  check("was computed by other weights", kModel + 1);
  store(file, {kModel, 5}, 2);
  check("leaves out 2 pairs with an answer of more than 5 tokens", kModel, 6);
  CHECK(referenced(file, kModel, 5)->has_pairs());

  const std::string reference = reference_file_of(file);
  std::filesystem::resize_file(reference, std::filesystem::file_size(reference) - 1);
  check("is torn");
  std::filesystem::resize_file(reference, 40);
  check("or torn");
  std::ofstream(reference) << std::string(88, 'x');
  check("is no reference of strata");
  store(file);
  static_cast<void>(write_pairs(folder, "pairs.bin", 11, 9));
  check("is of other tokens");
}

TEST_CASE("pairs of a large file that changed after they were scored are refused by name") {
  const ScratchFolder folder;
  const std::string file = write_many(folder, false);
  store(file);
  const auto place = [](std::int64_t pair) {
    const std::int64_t begin = pair * 2 * kManyAnswer;
    return PairPlace{begin, begin + kManyAnswer, begin + 2 * kManyAnswer};
  };
  CHECK(referenced(file)->reference_logs(place(kExchanged)).chosen == logs_of(21).chosen);
  const auto check_refused = [&](const PairPlace& pair) {
    CHECK_THROWS_WITH(
        referenced(file)->reference_logs(pair),
        ContainsSubstring(file + ".reference: ") &&
            ContainsSubstring("the pair that begins with token 4200 is not the one") &&
            ContainsSubstring("compute it again by `strata evaluate"));
  };
  PairPlace other_cut = place(kExchanged);
  ++other_cut.middle;
  check_refused(other_cut);
  static_cast<void>(write_many(folder, true));
  CHECK(referenced(file)->reference_logs(place(20)).chosen == logs_of(20).chosen);
  check_refused(place(kExchanged));
}

TEST_CASE("a number of a reference that was damaged is refused") {
  const ScratchFolder folder;
  const std::string file = write_pairs(folder, "pairs.bin", 10, 9);
  store(file);
  std::fstream reference(reference_file_of(file), std::ios::in | std::ios::out | std::ios::binary);
  reference.seekp(64 + 16);  // the header, and the first entry's token and hash
  reference.put('\1');
  reference.close();
  CHECK_THROWS_WITH(referenced(file)->reference_logs({0, 2, 5}), ContainsSubstring("is damaged"));
  CHECK(referenced(file)->reference_logs({5, 8, 12}).chosen == logs_of(11).chosen);
}

}  // namespace strata::test
