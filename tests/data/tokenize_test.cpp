// Tests which files become which documents in which set, and UTF-8 against the table of the Unicode
// standard.

#include "strata/data/tokenize.h"

#include <map>
#include <set>
#include <string>

#include "data/scratch_folder.h"
#include "strata/base/error.h"
#include "strata/data/byte_tokenizer.h"
#include "strata/data/token_file.h"
#include "support/catch.h"

namespace strata {

namespace {

/// The documents of a token file as text, with the end of each as '$'.
std::string text_of(const std::string& file) {
  const auto tokens = TokenFile::open(file);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens->size()));
  tokens->read(0, ids);
  std::string text;
  for (const std::int32_t id : ids) text.push_back(id == 256 ? '$' : static_cast<char>(id));
  return text;
}

}  // namespace

TEST_CASE("files and folders become documents in a fixed order") {
  const ScratchFolder folder;
  folder.write("texts/b.txt", "second");
  folder.write("texts/a/z.md", "first");
  folder.write("texts/c.bin", "not text");
  folder.write("texts/d.txt", "");
  const std::string single = folder.write("named.anything", "zero");
  const TokenizeStatistics statistics =
      tokenize({.inputs = {single, folder.file("texts")}, .output = folder.file("out.bin")});
  CHECK(text_of(folder.file("out.bin")) == "zero$first$second$");
  CHECK(statistics.documents == 3);
  CHECK(statistics.tokens == 18);
  CHECK(statistics.empty_files == 1);
  CHECK(statistics.skipped_files == 0);
  const auto tokens = TokenFile::open(folder.file("out.bin"));
  CHECK(tokens->documents() == 3);
  CHECK(tokens->vocabulary() == 257);
  CHECK(tokens->tokenizer_hash() == ByteTokenizer::hash());
}

TEST_CASE("no extensions means every file of a folder") {
  const ScratchFolder folder;
  folder.write("texts/README", "x");
  folder.write("texts/a.conf", "y");
  (void)tokenize(
      {.inputs = {folder.file("texts")}, .output = folder.file("out.bin"), .extensions = {}});
  CHECK(text_of(folder.file("out.bin")) == "x$y$");
}

TEST_CASE("files that are not UTF-8 are skipped and counted") {
  const ScratchFolder folder;
  folder.write("texts/good.txt", "gr\xc3\xbc\xc3\x9f\x65");
  folder.write("texts/latin1.txt", "gr\xfc\xdf\x65");
  const TokenizeStatistics statistics =
      tokenize({.inputs = {folder.file("texts")}, .output = folder.file("out.bin")});
  CHECK(statistics.documents == 1);
  CHECK(statistics.skipped_files == 1);
  CHECK(text_of(folder.file("out.bin")) == "gr\xc3\xbc\xc3\x9f\x65$");
}

TEST_CASE("UTF-8 is what the Unicode standard says it is") {
  for (const char* good : {"", "ascii only, longer than eight", "\xc2\x80", "\xdf\xbf",
                           "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf",
                           "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "eight by\xe2\x82\xac"}) {
    INFO(good);
    CHECK(is_valid_utf8(good));
  }
  for (const char* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2x", "\xe0\x9f\xbf",
                          "\xed\xa0\x80", "\xe2\x82", "\xe2\x82x", "\xf0\x8f\xbf\xbf",
                          "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "12345678\xff"}) {
    INFO(bad);
    CHECK_FALSE(is_valid_utf8(bad));
  }
}

TEST_CASE("a share of the documents goes to the validation set, each to one side only") {
  const ScratchFolder folder;
  std::multiset<std::string> all;
  for (int i = 0; i < 400; ++i) {
    const std::string text = "document number " + std::to_string(i);
    folder.write("texts/" + std::to_string(i) + ".txt", text);
    all.insert(text);
  }
  const TokenizeOptions options{.inputs = {folder.file("texts")},
                                .output = folder.file("train.bin"),
                                .validation_output = folder.file("val.bin"),
                                .validation_fraction = 0.25};
  const TokenizeStatistics statistics = tokenize(options);
  CHECK(statistics.documents + statistics.validation_documents == 400);
  // Binomial(400, 1/4): five standard deviations are 43.
  CHECK(statistics.validation_documents > 100 - 43);
  CHECK(statistics.validation_documents < 100 + 43);

  std::multiset<std::string> seen;
  std::map<std::string, std::string> side;
  for (const char* file : {"train.bin", "val.bin"}) {
    std::string text = text_of(folder.file(file));
    for (std::size_t end = text.find('$'); end != std::string::npos; end = text.find('$')) {
      seen.insert(text.substr(0, end));
      side[text.substr(0, end)] = file;
      text.erase(0, end + 1);
    }
  }
  CHECK(seen == all);

  // More documents and other names do not move one to the other side.
  for (int i = 400; i < 500; ++i) {
    folder.write("texts/" + std::to_string(i) + ".txt", "document number " + std::to_string(i));
  }
  std::filesystem::rename(folder.file("texts"), folder.file("other"));
  TokenizeOptions renamed = options;
  renamed.inputs = {folder.file("other")};
  (void)tokenize(renamed);
  const std::string validation = "$" + text_of(folder.file("val.bin"));
  int moved = 0;
  for (const auto& [text, file] : side) {
    const bool in_validation = validation.find("$" + text + "$") != std::string::npos;
    if (in_validation != (file == "val.bin")) ++moved;
  }
  CHECK(moved == 0);
}

TEST_CASE("a document longer than a piece is kept whole, and progress reaches the end") {
  const ScratchFolder folder;
  for (const std::size_t size : {2'500'000, 2 << 20}) {  // the second is a whole number of pieces
    std::string text;
    while (text.size() < size) text += "line " + std::to_string(text.size()) + "\n";
    text.resize(size);
    const std::string file = folder.write("long.txt", text);
    const std::string skipped = folder.write("bad.txt", "\xff\xff");
    TokenizeProgress last;
    bool backwards = false;
    TokenizeOptions options{.inputs = {file, skipped}, .output = folder.file("out.bin")};
    options.progress = [&](const TokenizeProgress& p) {
      backwards = backwards || p.bytes_done < last.bytes_done || p.files_done < last.files_done;
      last = p;
    };
    const TokenizeStatistics statistics = tokenize(options);
    const bool whole = text_of(folder.file("out.bin")) == text + "$";
    CHECK(whole);
    CHECK(statistics.documents == 1);
    CHECK_FALSE(backwards);
    CHECK(last.files_done == 2);
    CHECK(last.files == 2);
    CHECK(last.bytes_done == size + 2);
    CHECK(last.bytes == size + 2);
  }
}

TEST_CASE("bad input to tokenize makes no file") {
  const ScratchFolder folder;
  const std::string good = folder.write("in/good.txt", "text");
  const std::string out = folder.file("out.bin");
  REQUIRE_THROWS_WITH(tokenize({.inputs = {good, folder.file("none.txt")}, .output = out}),
                      ContainsSubstring("none.txt"));
  REQUIRE_THROWS_AS(tokenize({.inputs = {folder.write("bad.txt", "\xff")}, .output = out}),
                    IoError);
  REQUIRE_THROWS_WITH(tokenize({.inputs = {good},
                                .output = out,
                                .validation_output = folder.file("val.bin"),
                                .validation_fraction = 1e-9}),
                      ContainsSubstring("val.bin"));
  CHECK_FALSE(std::filesystem::exists(out));
  CHECK(folder.entries() == 2);  // in and bad.txt
}

TEST_CASE("options of tokenize that do not fit together are refused") {
  const ScratchFolder folder;
  const std::string good = folder.write("good.txt", "text");
  const std::string out = folder.file("out.bin");
  REQUIRE_THROWS_AS(tokenize({.output = out}), ConfigError);
  REQUIRE_THROWS_AS(tokenize({.inputs = {good}}), ConfigError);
  REQUIRE_THROWS_AS(tokenize({.inputs = {good}, .output = out, .validation_fraction = 0.5}),
                    ConfigError);
  REQUIRE_THROWS_AS(tokenize({.inputs = {good}, .output = out, .validation_output = "v"}),
                    ConfigError);
  REQUIRE_THROWS_AS(
      tokenize(
          {.inputs = {good}, .output = out, .validation_output = "v", .validation_fraction = 1.0}),
      ConfigError);
  REQUIRE_THROWS_AS(
      tokenize(
          {.inputs = {good}, .output = out, .validation_output = out, .validation_fraction = 0.5}),
      ConfigError);
}

}  // namespace strata
