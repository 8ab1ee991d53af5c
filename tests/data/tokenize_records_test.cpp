// Records, packed files, and threads: what tokenize and the training of tokenizers make of them
// against the same texts in plain files. Packed bytes come from the library's own encoders.

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "data/parquet_stream.h"
#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/data/byte_tokenizer.h"
#include "strata/data/token_file.h"
#include "strata/data/tokenize.h"
#include "strata/data/train_tokenizer.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/log_text.h"
#include "support/places.h"
#include "support/scratch_folder.h"

namespace strata {
namespace {

std::string bytes_of_file(const std::string& file) {
  return read_text_file(file, std::size_t{1} << 30);
}

std::string gzip(const std::string& text) {
  z_stream state{};
  REQUIRE(deflateInit2(&state, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&state, text.size()) + 64, '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(packed.data());
  state.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&state, Z_FINISH) == Z_STREAM_END);
  packed.resize(state.total_out);
  deflateEnd(&state);
  return packed;
}

std::string zstd(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  const std::size_t bytes =
      ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 1);
  REQUIRE(ZSTD_isError(bytes) == 0);
  packed.resize(bytes);
  return packed;
}

/// Documents of all sizes, with characters that JSON escapes, and one of several MiB.
std::vector<std::string> documents() {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < 100; ++i) {
    texts.push_back(std::to_string(i) + " \"quoted\"\n\tä€😀\\ ");
    texts.back().append(i * i % 6007, static_cast<char>('a' + i % 26));
  }
  texts.emplace_back(9 << 18, 'x');
  return texts;
}

std::string records_of(const std::vector<std::string>& texts) {
  std::string lines;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const nlohmann::json record{{"id", i}, {"text", texts[i]}, {"of", {{"text", "not this"}}}};
    lines += record.dump(-1, ' ', /*ensure_ascii=*/i % 2 == 0) + (i % 7 == 0 ? "\r\n\n" : "\n");
  }
  return lines;
}

std::string refusal_of_records(const TokenizeOptions& options) {
  try {
    (void)tokenize(options);
  } catch (const IoError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a long name of a field is shortened where a record does not have it") {
  const ScratchFolder folder;
  const std::string file = folder.write("a.jsonl", R"({"text": "a", "number": 1})");
  const std::string refusal = refusal_of_records(
      {.inputs = {file}, .output = folder.file("out.bin"), .text_field = std::string(70'000, 'x')});
  CHECK_THAT(refusal, ContainsSubstring("a.jsonl:1: has no field xxx") && ContainsSubstring("..."));
  CHECK(refusal.size() < 500);
}

TEST_CASE("records make the tokens that plain files of their texts make, on any number of threads",
          "[long]") {
  const ScratchFolder folder;
  const std::vector<std::string> texts = documents();
  TokenizeOptions plain{.output = folder.file("plain.bin")};
  plain.validation_fraction = 0.3;
  plain.validation_output = folder.file("plain_held.bin");
  for (std::size_t i = 0; i < texts.size(); ++i) {
    plain.inputs.push_back(folder.write(std::to_string(i) + ".txt", texts[i]));
  }
  const TokenizeStatistics expected = tokenize(plain);
  const std::string lines = records_of(texts);
  TokenizeOptions options = plain;
  options.output = folder.file("records.bin");
  options.validation_output = folder.file("records_held.bin");
  const std::size_t cut = lines.find('\n', lines.size() / 3) + 1;
  for (const std::string& input :
       {folder.write("a.jsonl", lines), folder.write("a.txt", lines),
        folder.write("a.jsonl.gz", gzip(lines)), folder.write("a.zst", zstd(lines)),
        folder.write("two.gz", gzip(lines.substr(0, cut)) + gzip(lines.substr(cut))),
        folder.write("two.zst", zstd(lines.substr(0, cut)) + zstd(lines.substr(cut)))}) {
    for (const std::size_t threads : {1U, 3U}) {
      INFO(input << ", " << threads << " threads");
      options.inputs = {input};
      options.threads = threads;
      const TokenizeStatistics made = tokenize(options);
      CHECK(made.documents == expected.documents);
      CHECK(made.validation_documents == expected.validation_documents);
      CHECK(bytes_of_file(options.output) == bytes_of_file(plain.output));
      CHECK(bytes_of_file(options.validation_output) == bytes_of_file(plain.validation_output));
    }
  }
}

TEST_CASE("a packed text is one document") {
  const ScratchFolder folder;
  const std::string text = std::string(300000, 'a') + "ä\n";
  (void)tokenize({.inputs = {folder.write("a.txt", text)}, .output = folder.file("plain.bin")});
  folder.write("texts/a.txt.gz", gzip(text));
  folder.write("texts/b.gz", gzip("left out by its ending"));
  (void)tokenize({.inputs = {folder.file("texts")}, .output = folder.file("packed.bin")});
  CHECK(bytes_of_file(folder.file("packed.bin")) == bytes_of_file(folder.file("plain.bin")));
}

TEST_CASE("a line that is no record is refused by file and line, and no file is made") {
  const ScratchFolder folder;
  const std::vector<std::pair<std::string, std::string>> cases{
      {"{\"text\": \"a\"", "is not JSON"},
      {"text", "is not JSON"},
      {"{\"text\": \"\xff\"}", "has bytes that are not UTF-8"},
      {std::string("{\"text\": \"a\"}") + '\0' + "{", "NUL"},
      {"{\"text\": 3}", "the field text is a number"},
      {"{\"text\": null}", "the field text is null"},
      {"{\"messages\": null}", "no field text; it has messages"},
      {"{\"text\": [\"a\"]}", "the field text is a list"},
      {"{\"text\": {}}", "the field text is an object"},
      {"{\"body\": \"a\", \"id\": {\"text\": \"b\"}}", "no field text; it has body, id"},
      {"{}", "it has none"},
      {"[{\"text\": \"a\"}]", "is a list"},
      {"3", "is a number"},
      {"{\"text\": \"a\"} {\"text\": \"b\"}", "is not JSON"},
      {"{\"a\": " + std::string(100000, '['), "nest more than"}};
  int before = 30000;  // some blocks; the other cases need no more than a line
  for (const auto& [line, problem] : cases) {
    INFO(line.substr(0, 80));
    std::string lines;
    for (int i = 0; i < before; ++i) lines += "{\"text\": \"some words that fill some blocks\"}\n";
    const std::string file = folder.write("a.jsonl", lines + line + "\n" + lines);
    CHECK_THAT(
        refusal_of_records({.inputs = {file}, .output = folder.file("out.bin"), .threads = 2}),
        ContainsSubstring("a.jsonl:" + std::to_string(before + 1) + ": ") &&
            ContainsSubstring(problem));
    CHECK(folder.entries() == 1);
    before = 1;
  }
}

TEST_CASE("a list of JSON is read as its entries on lines are") {
  const ScratchFolder folder;
  const std::vector<std::string> texts = documents();
  nlohmann::json list = nlohmann::json::array();
  for (const std::string& text : texts) list.push_back({{"of", {{"text", "no"}}}, {"text", text}});
  const std::string lines = folder.write("a.jsonl", records_of(texts));
  (void)tokenize({.inputs = {lines}, .output = folder.file("plain.bin")});
  const std::string expected = bytes_of_file(folder.file("plain.bin"));
  const std::string short_list = "\xef\xbb\xbf \n" + json_text(list) + "\r\n";
  const std::string lined_list = json_text(list, 2);
  for (const std::string& file :
       {folder.write("a.json", lined_list), folder.write("list", short_list),
        folder.write("list.jsonl", short_list), folder.write("a.json.gz", gzip(lined_list))}) {
    INFO(file);
    (void)tokenize({.inputs = {file}, .output = folder.file("list.bin")});
    CHECK(bytes_of_file(folder.file("list.bin")) == expected);
  }
}

TEST_CASE(
    "a packed Parquet table is refused with what to do, since tables are read from their end") {
  const ScratchFolder folder;
  const std::string table = bytes_of_file(test::goldens_folder() + "/parquet/snappy.parquet");
  const std::string file = folder.write("a.parquet.gz", gzip(table));
  CHECK_THAT(refusal_of_records({.inputs = {file}, .output = folder.file("out.bin")}),
             ContainsSubstring(file + ": is a Parquet table") &&
                 ContainsSubstring(reads_parquet() ? "Name the file itself" : "pyarrow.parquet"));
}

TEST_CASE("a list of JSON that is none is refused, and a bad entry by its number") {
  const ScratchFolder folder;
  const std::vector<std::pair<std::string, std::string>> cases{
      {R"([{"text": "a"})", "cut off"},
      {R"([{"text": "a"}] [])", "is no list of JSON: [ stands behind record 1"},
      {R"([{"text": "a"},])", "is no list of JSON: ] stands behind record 1"},
      {R"([,{"text": "a"}])", "is JSON"},
      {R"([{"text": "a"} {"text": "b"}])", ": record 1: is not JSON"},
      {R"([{"text": "a"}, {"text": 3}])", ": record 2: the field text is a number"},
      {R"([{"text": "a"}, ["b"]])", ": record 2: is a list"},
      {R"([{"text": "a]"}, "}"])", ": record 2: is a text"},
      {"[{\"text\": \"a\nb\"}]", ": record 1: is not JSON"}};
  for (const auto& [text, problem] : cases) {
    INFO(text);
    const std::string file = folder.write("a.json", text);
    CHECK_THAT(refusal_of_records({.inputs = {file}, .output = folder.file("out.bin")}),
               ContainsSubstring(file + ":") && ContainsSubstring(problem));
  }
}

TEST_CASE("bad records are left out up to a number, and each is named") {
  const ScratchFolder folder;
  std::string lines;
  for (int i = 0; i < 40'000; ++i) {
    lines += i % 10'000 == 7 ? "{\"text\": " + std::to_string(i) + "}\n"
                             : "{\"text\": \"some words that fill blocks\"}\n";
  }
  TokenizeOptions options{.inputs = {folder.write("a.jsonl", lines)},
                          .output = folder.file("out.bin")};
  options.threads = 2;
  options.skip_bad = 4;
  const test::LogText log;
  const TokenizeStatistics made = tokenize(options);
  CHECK(made.bad_records == 4);
  CHECK(made.documents == 39'996);
  for (const char* line : {"8", "10008", "20008", "30008"}) {
    CHECK_THAT(log.text(), ContainsSubstring("left out " + options.inputs[0] + ":" + line +
                                             ": the field text is a number"));
  }
  CHECK_THAT(log.text(), ContainsSubstring("4 bad records were left out"));
  options.output = folder.file("none.bin");
  options.skip_bad = 3;
  CHECK_THAT(refusal_of_records(options),
             ContainsSubstring(":30008: the field text is a number") &&
                 ContainsSubstring("3 bad records were left out before (--skip-bad)"));
  CHECK_FALSE(std::filesystem::exists(options.output));
}

TEST_CASE("packed files that are cut off or damaged are refused") {
  const ScratchFolder folder;
  const std::string lines = records_of(documents());
  for (const std::string& whole : {gzip(lines), zstd(lines)}) {
    for (const std::size_t bytes : {whole.size() - 1, whole.size() / 2, std::size_t{5}}) {
      const std::string file = folder.write("a.packed", whole.substr(0, bytes));
      INFO(bytes << " of " << whole.size());
      CHECK_THAT(refusal_of_records({.inputs = {file}, .output = folder.file("out.bin")}),
                 ContainsSubstring("a.packed: ") && ContainsSubstring("cut off"));
    }
    std::string damaged = whole;
    std::fill_n(damaged.begin() + static_cast<std::ptrdiff_t>(whole.size() / 2), 64, '\x5a');
    CHECK_THAT(refusal_of_records({.inputs = {folder.write("a.packed", damaged)},
                                   .output = folder.file("out.bin")}),
               ContainsSubstring("a.packed"));
    CHECK(folder.entries() == 1);
  }
}

TEST_CASE("tokenizers trained on records and packed files are those of the texts in plain files",
          "[long]") {
  const ScratchFolder folder;
  std::vector<std::string> texts = documents();
  texts.pop_back();  // which has no line ends, so it is one piece
  for (std::size_t i = 0; i < texts.size(); ++i) {
    texts[i] += "\nwords and other words, number " + std::to_string(i % 10) + "\n";
  }
  const auto trained_on = [&](std::vector<std::string> inputs, int threads) {
    TrainTokenizerOptions options{.inputs = std::move(inputs), .threads = threads};
    options.training.vocabulary = 320;
    return train_tokenizer(options);
  };
  std::vector<std::string> plain;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    plain.push_back(folder.write(std::to_string(i) + ".txt", texts[i]));
  }
  const TrainedOnFiles expected = trained_on(plain, 1);
  REQUIRE(expected.tokenizer.vocabulary == 320);
  const std::string lines = records_of(texts);
  std::vector<std::string> packed;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    packed.push_back(folder.write(std::to_string(i) + ".gz", gzip(texts[i])));
  }
  const std::vector<std::vector<std::string>> inputs{
      {folder.write("a.jsonl", lines)}, {folder.write("a.jsonl.zst", zstd(lines))}, packed};
  for (const auto& input : inputs) {
    for (const int threads : {1, 3}) {
      INFO(input[0] << ", " << threads << " threads");
      const TrainedOnFiles made = trained_on(input, threads);
      CHECK(made.tokenizer.tokenizer_json == expected.tokenizer.tokenizer_json);
      CHECK(made.bytes == expected.bytes);
      CHECK(made.pieces == expected.pieces);
    }
  }
  const auto refused = [&](const std::string& file, const std::string& text,
                           const std::string& why) {
    INFO(file);
    const std::string input = folder.write(file, text);
    CHECK_THROWS_AS(trained_on({input}, 2), IoError);
    CHECK_THROWS_WITH(trained_on({input}, 2), ContainsSubstring(why));
  };
  const auto before = std::count(lines.begin(), lines.end(), '\n');
  refused("b.jsonl", lines + "{\"text\": 1}\n",
          "b.jsonl:" + std::to_string(before + 1) + ": the field text is a number");
  refused("c.jsonl", "{\"messages\": []}", "c.jsonl:1: is a conversation");
  refused("d.gz", gzip("words \xff"), "d.gz: is not valid UTF-8");
  refused("e.txt.gz", gzip("\x89PNG\r\n\x1a\n and so on"), "e.txt.gz: ");
}

}  // namespace strata
