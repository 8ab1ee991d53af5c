// Parquet tables against the JSON lines that pyarrow reads from them, both tokenized
// (tests/golden/data/parquet): every packing, rows that are refused, files that are damaged, and
// how much of a table is in memory. Skipped where this build reads none.

#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/parquet_stream.h"
#include "data/record_reader.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/data/parquet_support.h"
#include "strata/data/tokenize.h"
#include "strata/data/train_tokenizer.h"
#include "support/catch.h"
#include "support/log_text.h"
#include "support/places.h"
#include "support/scratch_folder.h"

namespace strata {
namespace {

/// Says whether tables can be read here; if not, that the test is skipped.
bool can_read() {
  if (reads_parquet()) return true;
  WARN("skipped: this strata was built without Apache Arrow (docs/installing.md)");
  return false;
}

std::string golden(const std::string& name) { return test::goldens_folder() + "/parquet/" + name; }

std::string contents_of(const std::string& file) {
  return read_text_file(file, std::size_t{1} << 30);
}

/// Returns the token file that is made of an input.
std::string tokens_of(const ScratchFolder& folder, TokenizeOptions options) {
  options.output = folder.file("out.bin");
  (void)tokenize(options);
  return contents_of(options.output);
}

std::string refusal_of_table(const ScratchFolder& folder, TokenizeOptions options) {
  options.output = folder.file("out.bin");
  try {
    (void)tokenize(options);
  } catch (const IoError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a Parquet table makes the tokens that its rows make as JSON lines") {
  if (!can_read()) return;
  const ScratchFolder folder;
  for (const char* name : {"snappy", "zstd", "gzip", "dictionary", "checked"}) {
    for (const std::size_t threads : {1U, 3U}) {
      INFO(name << ", " << threads << " threads");
      const auto tokens = [&](const std::string& ending) {
        return tokens_of(folder, {.inputs = {golden(name + ending)}, .threads = threads});
      };
      CHECK(tokens(".parquet") == tokens(".jsonl"));
    }
  }
}

TEST_CASE("conversations in columns of a table are those of its rows as JSON lines") {
  if (!can_read()) return;
  const ScratchFolder folder;
  for (const char* name : {"chats", "share_gpt", "alpaca", "completions"}) {
    INFO(name);
    const auto tokens = [&](const std::string& ending) {
      return tokens_of(folder, {.inputs = {golden(name + ending)},
                                .tokenizer = test::tokenizer_goldens_folder() + "/llama3.json",
                                .chat_template = "chatml"});
    };
    CHECK(tokens(".parquet") == tokens(".jsonl"));
  }
}

TEST_CASE("--text-field names a column, and a table that lacks it is refused by its name") {
  if (!can_read()) return;
  const ScratchFolder folder;
  CHECK(tokens_of(folder, {.inputs = {golden("completions.parquet")}, .text_field = "source"}) ==
        tokens_of(folder, {.inputs = {golden("completions.jsonl")}, .text_field = "source"}));
  const std::string table = golden("snappy.parquet");
  const auto refusal = [&](const std::string& field) {
    return refusal_of_table(folder, {.inputs = {table}, .text_field = field});
  };
  CHECK_THAT(refusal("body"),
             ContainsSubstring(table + ": has no field body; it has id, text, image. Name the"));
  CHECK_THAT(refusal("id"), ContainsSubstring(table + ": row 1: the field id is a number"));
  CHECK_THAT(refusal("image"), ContainsSubstring(table + ": row 1: has bytes that are not UTF-8"));
  CHECK_THAT(refusal_of_table(folder, {.inputs = {table}, .format = InputFormat::kShareGpt}),
             ContainsSubstring(table + ": row 1: has no list conversations"));
  CHECK(folder.entries() == 1);
}

TEST_CASE("bad rows of a table are named by their number, and left out up to a number") {
  if (!can_read()) return;
  const ScratchFolder folder;
  const std::string table = golden("sparse.parquet");
  CHECK_THAT(refusal_of_table(folder, {.inputs = {table}}),
             ContainsSubstring(table + ": row 2: the field text is null"));
  CHECK_THAT(refusal_of_table(folder, {.inputs = {table}, .skip_bad = 1}),
             ContainsSubstring(table + ": row 5: the field text has a zero byte"));
  CHECK_THAT(refusal_of_table(folder, {.inputs = {golden("not_utf8.parquet")}}),
             ContainsSubstring("not_utf8.parquet: row 2: has bytes that are not UTF-8"));
  const test::LogText log;
  const std::string tokens = tokens_of(folder, {.inputs = {table}, .skip_bad = 2});
  CHECK_THAT(log.text(), ContainsSubstring("left out " + table + ": row 2: ") &&
                             ContainsSubstring("left out " + table + ": row 5: ") &&
                             ContainsSubstring("2 bad records were left out"));
  CHECK(tokens == tokens_of(folder, {.inputs = {golden("sparse.jsonl")}, .skip_bad = 2}));
}

TEST_CASE("what a row holds besides texts is what JSON has for it") {
  if (!can_read()) return;
  const std::string file = golden("values.parquet");
  const auto lines = lines_of_parquet(file, {.field = "documents"});
  CHECK(read_stream(*lines, file, kMiB) ==
        R"({"documents":[{"whole":9223372036854775807,"part":0.1,"small":255,"yes":true,)"
        R"("names":{"a \"b\"":1,"c":null},"pairs":[[1,-1],[2,0]],"day":"1970-01-01"}]})"
        "\n{\"documents\":[null]}\n"
        R"({"documents":[{"whole":-9223372036854775808,"part":3.0,"small":0,"yes":false,)"
        R"("names":{},"pairs":[],"day":"2022-01-08"}]})"
        "\n{\"documents\":[{\"part\":null}]}\n{\"documents\":[{\"part\":1e+300}]}\n");
  CHECK(lines->consumed() == std::filesystem::file_size(file));
}

TEST_CASE("a table is told by its first bytes if it is named, and by its ending in a folder") {
  if (!can_read()) return;
  const ScratchFolder folder;
  const std::string table = contents_of(golden("snappy.parquet"));
  const std::string expected = tokens_of(folder, {.inputs = {golden("snappy.jsonl")}});
  CHECK(tokens_of(folder, {.inputs = {folder.write("part-0", table)}}) == expected);
  folder.write("tables/a.parquet", contents_of(golden("empty.parquet")));
  folder.write("tables/b.parquet", table);
  folder.write("tables/c.txt", table);
  const TokenizeOptions options{.inputs = {folder.file("tables")},
                                .extensions = {".parquet", ".txt"}};
  const test::LogText log;
  CHECK(tokens_of(folder, options) == expected);
  CHECK_THAT(log.text(), ContainsSubstring("c.txt: is a Parquet table"));
  TokenizeOptions as_text = options;
  as_text.inputs = {folder.file("part-0")};
  as_text.format = InputFormat::kText;
  CHECK_THAT(refusal_of_table(folder, as_text), ContainsSubstring("part-0: is not text in UTF-8"));
}

TEST_CASE("a damaged table is refused by its name, and no file is made") {
  if (!can_read()) return;
  const ScratchFolder folder;
  std::string table = contents_of(golden("checked.parquet"));
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{4}, std::size_t{11}, table.size() / 2, table.size() - 1}) {
    INFO(bytes);
    const std::string file = folder.write("cut.parquet", table.substr(0, bytes));
    CHECK_THAT(refusal_of_table(folder, {.inputs = {file}}),
               ContainsSubstring(file + ": cannot be read as a Parquet table: ") &&
                   ContainsSubstring(". Copy or make it again"));
  }
  table[table.size() / 2] ^= 1;  // in the only page, which has a checksum
  const std::string file = folder.write("changed.parquet", table);
  CHECK_THAT(refusal_of_table(folder, {.inputs = {file}}),
             ContainsSubstring(file + ": cannot be read as a Parquet table: "));
  // Of a column without checksum an index beyond the dictionary, which Arrow does not look at.
  table = contents_of(golden("dictionary.parquet"));
  table[3682] = '\xff';
  CHECK_THAT(refusal_of_table(folder, {.inputs = {folder.write("index.parquet", table)}}),
             ContainsSubstring("a row is none of its dictionary's values"));
  CHECK(folder.entries() == 3);
}

TEST_CASE("a tokenizer is trained on a table as on its rows as JSON lines") {
  if (!can_read()) return;
  const auto trained_on = [](const std::string& file) {
    TrainTokenizerOptions options{.inputs = {file}};
    options.training.vocabulary = 300;
    return train_tokenizer(options);
  };
  const TrainedOnFiles of_table = trained_on(golden("zstd.parquet"));
  const TrainedOnFiles of_lines = trained_on(golden("zstd.jsonl"));
  CHECK(of_table.bytes == of_lines.bytes);
  CHECK(of_table.tokenizer.merges > 0);
  CHECK(of_table.tokenizer.tokenizer_json == of_lines.tokenizer.tokenizer_json);
  CHECK_THROWS_WITH(trained_on(golden("sparse.parquet")),
                    ContainsSubstring("sparse.parquet: row 2: the field text is null"));
}

TEST_CASE("of a row group of any size some MiB are in memory") {
  if (!can_read()) return;
  const auto in_use = [] {
    const struct mallinfo2 now = mallinfo2();
    return now.uordblks + now.hblkhd;
  };
  const std::size_t before = in_use();
  if (before == 0) {
    WARN("skipped: sanitizers do not say how much memory is in use");
    return;
  }
  const auto lines = lines_of_parquet(golden("tall.parquet"), {});
  std::array<char, 64 * kKiB> part{};
  std::size_t bytes = 0;
  std::size_t most = 0;
  for (std::size_t got = 1; got > 0; bytes += got) {
    got = lines->read(part);
    most = std::max(most, in_use() - before);
  }
  CHECK(bytes > 80 * 1000 * 1000);
  CHECK(most < 24 * kMiB);
}

TEST_CASE("what reads Parquet is known by its version, or that there is nothing") {
  if (!can_read()) {
    CHECK(parquet_support() == "none");
    return;
  }
  CHECK_THAT(parquet_support(), ContainsSubstring("Arrow "));
}

}  // namespace strata
