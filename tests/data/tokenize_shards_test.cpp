// Tests where outputs are cut into shards, and what becomes of the shards of an earlier run. What
// the shards hold together is compared with one file of the same texts.

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/data/token_file.h"
#include "strata/data/tokenize.h"
#include "support/catch.h"
#include "support/scratch_folder.h"

namespace strata {
namespace {

std::vector<std::int32_t> ids_of(const std::string& file) {
  const auto tokens = TokenFile::open(file);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens->size()));
  tokens->read(0, ids);
  return ids;
}

std::vector<std::int64_t> sizes_of(const std::string& output) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t shard = 0; std::filesystem::exists(shard_file(output, shard)); ++shard) {
    sizes.push_back(TokenFile::open(shard_file(output, shard))->size());
  }
  return sizes;
}

/// Writes a text of so many tokens, its end counted.
void write_text(const ScratchFolder& folder, const std::string& name, std::size_t tokens) {
  folder.write("texts/" + name, std::string(tokens - 1, name[0]));
}

using Sizes = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("shards are named beside the output, and sort in their order") {
  CHECK(shard_file("a/train.bin", 0) == "a/train-00000.bin");
  CHECK(shard_file("train", 12) == "train-00012");
  CHECK(shard_file("a.b/train", 99'999) == "a.b/train-99999");
}

TEST_CASE("outputs are cut where documents end, and a longer document is alone") {
  const ScratchFolder folder;
  const std::vector<std::size_t> tokens{4, 6, 1 + 1, 9, 25, 3, 10, 11, 2};
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    write_text(folder, std::string(1, static_cast<char>('a' + i)) + ".txt", tokens[i]);
  }
  TokenizeOptions options{.inputs = {folder.file("texts")}, .output = folder.file("train.bin")};
  (void)tokenize(options);
  options.shard_tokens = 10;
  const TokenizeStatistics made = tokenize(options);
  CHECK(sizes_of(options.output) == Sizes{10, 2, 9, 25, 3, 10, 11, 2});
  CHECK(made.shards == 8);
  CHECK(made.documents == 9);
  CHECK(made.tokens == 72);
  std::vector<std::int32_t> all;
  for (std::int64_t shard = 0; shard < made.shards; ++shard) {
    const auto ids = ids_of(shard_file(options.output, shard));
    all.insert(all.end(), ids.begin(), ids.end());
  }
  CHECK(all == ids_of(options.output));
}

TEST_CASE("shards have the same bytes for any number of threads") {
  const ScratchFolder folder;
  for (int i = 0; i < 60; ++i) {
    write_text(folder, std::to_string(i) + ".txt", static_cast<std::size_t>(2 + i * i % 97));
  }
  std::vector<std::string> bytes;
  for (const std::size_t threads : {1, 2, 3}) {
    const std::string output = folder.file("train" + std::to_string(threads) + ".bin");
    const TokenizeStatistics made = tokenize({.inputs = {folder.file("texts")},
                                              .output = output,
                                              .validation_output = output + "v",
                                              .validation_fraction = 0.3,
                                              .threads = threads,
                                              .shard_tokens = 200});
    CHECK(made.shards > 3);
    CHECK(made.validation_shards > 1);
    std::string all;
    for (std::int64_t i = 0; i < made.shards; ++i) {
      all += read_text_file(shard_file(output, i), 1 << 20) + "|";
    }
    for (std::int64_t i = 0; i < made.validation_shards; ++i) {
      all += read_text_file(shard_file(output + "v", i), 1 << 20) + "|";
    }
    bytes.push_back(all);
  }
  CHECK(bytes[1] == bytes[0]);
  CHECK(bytes[2] == bytes[0]);
}

TEST_CASE("a large file that is read in pieces has a shard to itself") {
  const ScratchFolder folder;
  constexpr std::size_t kLarge = (17 << 20) + 5;
  write_text(folder, "a.txt", 5);
  write_text(folder, "b.txt", kLarge);
  write_text(folder, "c.txt", 5);
  (void)tokenize(
      {.inputs = {folder.file("texts")}, .output = folder.file("train.bin"), .shard_tokens = 100});
  CHECK(sizes_of(folder.file("train.bin")) == Sizes{5, kLarge, 5});
}

TEST_CASE("shards of an earlier run go, other files are refused, and others' names stay") {
  const ScratchFolder folder;
  for (const char* name : {"a.txt", "b.txt", "c.txt"}) write_text(folder, name, 5);
  TokenizeOptions options{
      .inputs = {folder.file("texts")}, .output = folder.file("train.bin"), .shard_tokens = 5};
  (void)tokenize(options);
  REQUIRE(sizes_of(options.output) == Sizes{5, 5, 5});
  for (const char* name : {"train-1.bin", "train-000001.bin", "train-0000x.bin", "x-00007.bin"}) {
    folder.write(name, "another's");
  }
  options.shard_tokens = 10;
  (void)tokenize(options);
  CHECK(sizes_of(options.output) == Sizes{10, 5});
  CHECK_FALSE(std::filesystem::exists(shard_file(options.output, 2)));
  for (const char* name : {"train-1.bin", "train-000001.bin", "train-0000x.bin", "x-00007.bin"}) {
    CHECK(std::filesystem::exists(folder.file(name)));
  }
  const std::string other = folder.write("train-00009.bin", "a user's text");
  CHECK_THROWS_WITH(tokenize(options),
                    ContainsSubstring("train-00009.bin") && ContainsSubstring("--overwrite"));
  CHECK(sizes_of(options.output) == Sizes{10, 5});
  options.overwrite = true;
  (void)tokenize(options);
  CHECK_FALSE(std::filesystem::exists(other));
}

TEST_CASE("what breaks off leaves whole shards of one run") {
  const ScratchFolder folder;
  for (const char* name : {"a.txt", "b.txt", "c.txt", "d.txt"}) write_text(folder, name, 5);
  TokenizeOptions options{
      .inputs = {folder.file("texts")}, .output = folder.file("out/train.bin"), .shard_tokens = 5};
  std::filesystem::create_directories(folder.file("out"));
  (void)tokenize(options);
  options.shard_tokens = 10;
  options.progress = [&](const TokenizeProgress& progress) {
    if (progress.files_done == 4) throw std::runtime_error("stop");
  };
  CHECK_THROWS_AS(tokenize(options), std::runtime_error);
  CHECK(sizes_of(options.output) == Sizes{10});
  const std::filesystem::directory_iterator left(folder.file("out"));
  CHECK(std::distance(begin(left), end(left)) == 1);
}

TEST_CASE("an input that is one of the shards is refused, and so is a negative size") {
  const ScratchFolder folder;
  const std::string input = folder.write("train-00003.bin", "text");
  CHECK_THROWS_WITH(
      tokenize({.inputs = {input}, .output = folder.file("train.bin"), .shard_tokens = 5}),
      ContainsSubstring("is both input and output"));
  CHECK_THROWS_AS(
      tokenize({.inputs = {input}, .output = folder.file("train.bin"), .shard_tokens = -1}),
      ConfigError);
}

}  // namespace strata
