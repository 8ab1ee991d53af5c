// Tests that token sources of other tokenizers than the model's, or than each other's, are refused,
// and that sets without targets are.

#include "strata/data/compatible.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/thread_pool.h"
#include "strata/data/batch.h"
#include "strata/data/byte_tokenizer.h"
#include "strata/data/token_file.h"
#include "strata/tokenizer/tokenizer.h"
#include "support/catch.h"
#include "support/places.h"
#include "support/scratch_folder.h"

namespace strata {

namespace {

/// A token file of 40 tokens in documents of `length` tokens.
std::unique_ptr<TokenFile> token_file(const ScratchFolder& folder, const std::string& name,
                                      std::int64_t vocabulary, std::uint64_t hash, int length = 8) {
  TokenFileWriter writer(
      folder.file(name),
      {.type = token_type_for(vocabulary), .vocabulary = vocabulary, .tokenizer_hash = hash});
  for (int token = 0; token < 40; ++token) {
    writer.append(std::vector<std::int32_t>{token % 7});
    if (token % length == length - 1) writer.end_document();
  }
  writer.close();
  writer.publish();
  return TokenFile::open(folder.file(name));
}

}  // namespace

TEST_CASE("a token file with more ids than the model has rows is refused") {
  const ScratchFolder folder;
  const auto tokens = token_file(folder, "a.bin", 32'000, 5);
  CHECK_NOTHROW(require_tokenizer_of({.vocabulary = 32'000}, *tokens));
  CHECK_NOTHROW(require_tokenizer_of({.vocabulary = 32'128}, *tokens));  // padded
  REQUIRE_THROWS_WITH(
      require_tokenizer_of({.vocabulary = 31'999}, *tokens),
      ContainsSubstring("a.bin") && ContainsSubstring("32,000") && ContainsSubstring("31,999"));
  CHECK_NOTHROW(require_tokenizer_of({.vocabulary = 10}, SyntheticTokens(5, 10, 0)));
}

TEST_CASE("bytes are refused for weights that came with another tokenizer") {
  const ScratchFolder folder;
  folder.write("model/config.json", "{}");
  const auto bytes = token_file(folder, "a.bin", ByteTokenizer::kVocabulary, ByteTokenizer::hash());
  const auto others = token_file(folder, "b.bin", 257, 5);
  const ModelTokenizer model{.vocabulary = 32'000, .folder = folder.file("model")};
  CHECK_NOTHROW(require_tokenizer_of(model, *bytes));  // nothing is known of the model's
  for (const char* name : {"model/tokenizer.json", "model/tekken.json", "model/tokenizer.model",
                           "model/qwen.tiktoken"}) {
    const std::string file = folder.write(name, "{}");
    REQUIRE_THROWS_WITH(require_tokenizer_of(model, *bytes),
                        ContainsSubstring("a.bin") && ContainsSubstring(file));
    CHECK_NOTHROW(require_tokenizer_of(model, *others));
    CHECK_NOTHROW(require_tokenizer_of({.vocabulary = 32'000}, *bytes));
    std::filesystem::remove(file);
  }
}

TEST_CASE("a token file may be from the tokenizer that a model is to have in place of its own") {
  const ScratchFolder folder;
  const std::string goldens = test::tokenizer_goldens_folder();
  std::filesystem::create_directories(folder.file("model"));
  std::filesystem::copy_file(goldens + "/llama3.json", folder.file("model/tokenizer.json"));
  const std::string other = goldens + "/gpt2.json";
  const auto of = [&](const std::string& tokenizer) {
    const auto loaded = Tokenizer::load(tokenizer);
    return token_file(folder, "a.bin", loaded->vocabulary(), loaded->hash());
  };
  ModelTokenizer model{.vocabulary = 5'000, .folder = folder.file("model")};
  CHECK_NOTHROW(require_tokenizer_of(model, *of(goldens + "/llama3.json")));
  REQUIRE_THROWS_WITH(require_tokenizer_of(model, *of(other)),
                      ContainsSubstring("is from another tokenizer") &&
                          ContainsSubstring("name it as model.tokenizer"));
  model.named = other;
  CHECK_NOTHROW(require_tokenizer_of(model, *of(other)));
  CHECK_NOTHROW(require_tokenizer_of(model, *of(goldens + "/llama3.json")));
  CHECK_THROWS_AS(require_tokenizer_of(model, *of(goldens + "/digits.json")), IoError);
  model.vocabulary = 10;
  REQUIRE_THROWS_WITH(require_tokenizer_of(model, *of(other)),
                      ContainsSubstring("set model.vocab_size to "));
}

TEST_CASE("a validation set from another tokenizer than the training set is refused") {
  const ScratchFolder folder;
  const auto training = token_file(folder, "train.bin", 300, 5);
  const auto same = token_file(folder, "same.bin", 300, 5);
  const auto other_hash = token_file(folder, "hash.bin", 300, 6);
  const auto other_size = token_file(folder, "size.bin", 301, 5);
  CHECK_NOTHROW(require_same_tokenizer(*training, *same));
  CHECK_NOTHROW(require_same_tokenizer(*training, SyntheticTokens(5, 300, 0)));
  REQUIRE_THROWS_WITH(require_same_tokenizer(*training, *other_hash),
                      ContainsSubstring("train.bin") && ContainsSubstring("hash.bin"));
  REQUIRE_THROWS_AS(require_same_tokenizer(*training, *other_size), IoError);
}

TEST_CASE("a set in which no token has a target is refused, and one with few is not") {
  const ScratchFolder folder;
  ThreadPool pool(1);
  BatchOptions options;
  options.shape = {.rows = 1, .tokens = 4, .sub_batches = 1};
  options.vocabulary = 300;
  options.sample_order = SampleOrder::kOnce;
  const auto none = token_file(folder, "none.bin", 300, 5, 1);
  // Without masks documents do not count.
  CHECK_NOTHROW(BatchLoader(*none, options, pool).require_target(9));
  options.mask = DocumentMask::kOn;
  REQUIRE_THROWS_WITH(BatchLoader(*none, options, pool).require_target(9),
                      ContainsSubstring("none.bin") && ContainsSubstring("data.document_mask"));
  const auto some = token_file(folder, "some.bin", 300, 5, 2);
  CHECK_NOTHROW(BatchLoader(*some, options, pool).require_target(9));

  // The first three samples have none, the fourth has.
  TokenFileWriter writer(folder.file("late.bin"), {.vocabulary = 300});
  for (int token = 0; token < 17; ++token) {
    writer.append(std::vector<std::int32_t>{3});
    if (token < 12) writer.end_document();
  }
  writer.close();
  writer.publish();
  const auto late = TokenFile::open(folder.file("late.bin"));
  const BatchLoader loader(*late, options, pool);
  REQUIRE_THROWS_AS(loader.require_target(3), IoError);
  CHECK_NOTHROW(loader.require_target(4));
}

TEST_CASE("an id above the vocabulary of its own file is refused, though the model has a row") {
  const ScratchFolder folder;
  token_file(folder, "a.bin", 300, 5);
  std::fstream stream(folder.file("a.bin"), std::ios::binary | std::ios::in | std::ios::out);
  stream.seekp(64 + 2 * 6);
  stream << bytes_of(std::vector<std::uint16_t>{301});
  stream.close();
  const auto tokens = TokenFile::open(folder.file("a.bin"));
  ThreadPool pool(1);
  BatchOptions options;
  options.shape = {.rows = 1, .tokens = 8, .sub_batches = 1};
  options.vocabulary = 1000;
  options.sample_order = SampleOrder::kOnce;
  BatchLoader loader(*tokens, options, pool);
  std::vector<std::int32_t> eight(8), targets(8), positions(8), order(8), segments(5);
  std::vector<std::int64_t> counts(1);
  REQUIRE_THROWS_WITH(loader.fill_pass(0, 0, {eight, targets, positions, segments, order, counts}),
                      ContainsSubstring("301") && ContainsSubstring("a.bin"));
}

}  // namespace strata
