// Merges against those that the library `tokenizers` learned, and whether dealing texts out in
// another way, or larger counts, change what is learned.

#include "strata/tokenizer/train_tokenizer.h"

#include <fstream>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/tokenizer/tokenizer.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/places.h"
#include "support/scratch_folder.h"
#include "tokenizer/bpe_trainer.h"
#include "tokenizer/piece_counts.h"

namespace strata {
namespace {

using nlohmann::json;

json golden_cases() {
  return test::read_json(test::tokenizer_goldens_folder() + "/training.json")["cases"];
}

TokenizerTraining training_of(const json& golden) {
  return {.vocabulary = golden["vocabulary"],
          .split = golden["split"],
          .eos = "",
          .special = golden["special"].get<std::vector<std::string>>()};
}

PieceCounter count_whole(const json& golden) {
  PieceCounter counter(golden["split"].get<std::string>());
  for (const std::string text : golden["texts"]) counter.count(text, text.size());
  return counter;
}

/// Deals out the parts of the texts, as short as they can be, to three counters.
PieceCounter count_in_parts(const json& golden) {
  std::vector<PieceCounter> counters;
  for (int i = 0; i < 3; ++i) counters.emplace_back(golden["split"].get<std::string>());
  std::size_t parts = 0;
  for (std::string text : golden["texts"]) {
    while (!text.empty()) {
      std::size_t cut = 0;
      std::size_t end = 0;
      while (cut == 0 && end < text.size()) cut = PieceCounter::last_cut(text.substr(0, ++end));
      if (cut == 0) cut = text.size();
      counters[parts++ % counters.size()].count(text.substr(0, end), cut);
      text.erase(0, cut);
    }
  }
  counters[2].add(counters[0]);
  counters[2].add(counters[1]);
  return std::move(counters[2]);
}

std::string refusal_of_training(const TokenizerTraining& training) {
  try {
    check_training(training);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the merges that are learned, and their ids, are those of the reference") {
  for (const json& golden : golden_cases()) {
    INFO(shown(golden["split"]) << ", " << golden["vocabulary"] << " ids, specials "
                                << golden["special"]);
    const TrainedTokenizer made = train_tokenizer(count_whole(golden), training_of(golden), {});
    const json document = parse_json<json>(made.tokenizer_json);
    const json& model = document["model"];
    std::vector<std::string> merges;
    std::vector<int> ids;
    for (const json& pair : model["merges"]) {
      const std::string left = pair[0];
      const std::string right = pair[1];
      merges.push_back(left + ' ' + right);
      ids.push_back(model["vocab"][left + right]);
    }
    CHECK(merges == golden["merges"].get<std::vector<std::string>>());
    CHECK(ids == golden["ids"].get<std::vector<int>>());
    CHECK(made.vocabulary == golden["size"].get<std::int64_t>());
    CHECK(document["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] == golden["regex"]);
  }
}

TEST_CASE("texts that are counted in parts by several counters give the same tokenizer") {
  for (const json& golden : golden_cases()) {
    INFO(shown(golden["split"]) << ", " << golden["vocabulary"] << " ids");
    const TokenizerTraining training = training_of(golden);
    CHECK(train_tokenizer(count_in_parts(golden), training, {}).tokenizer_json ==
          train_tokenizer(count_whole(golden), training, {}).tokenizer_json);
  }
}

TEST_CASE("a tokenizer that was trained is read, names its end of text, and gives texts back") {
  const std::string text = "the layers of the training state, and the rest\n\n\u65e5\u672c \x01";
  PieceCounter counter("o200k");
  counter.count(text, text.size());
  const TrainedTokenizer made =
      train_tokenizer(counter, {.vocabulary = 270, .split = "o200k", .special = {"<pad>"}}, {});
  const ScratchFolder folder;
  folder.write("tokenizer.json", made.tokenizer_json);
  folder.write("tokenizer_config.json", made.tokenizer_config_json);
  const auto tokenizer = Tokenizer::load(folder.file(""));
  CHECK(tokenizer->vocabulary() == 270);
  CHECK(tokenizer->special_tokens().eos == 0);
  CHECK(tokenizer->id_of("<pad>") == 1);
  EncodeCache cache;
  std::vector<std::int32_t> ids;
  tokenizer->encode(text, {}, cache, ids);
  CHECK(ids.size() < text.size());
  CHECK(tokenizer->decode(ids) == text);
}

TEST_CASE("pairs are compared by counts of 64 bits") {
  std::array<std::int32_t, 256> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::int32_t>(i);
  PieceCounts pieces;
  pieces.add("ab", 7);
  pieces.add("xy", (std::uint64_t{1} << 40) + 1);  // 1 in 32 bits
  BpeTrainer trainer(pieces, bytes);
  std::string merged;
  const auto merge = [&](std::int32_t left, std::int32_t right) {
    merged += {static_cast<char>(left), static_cast<char>(right)};
    return 256;
  };
  REQUIRE(trainer.merge_next(merge));
  CHECK(merged == "xy");
}

TEST_CASE("long pieces that begin and end alike are counted apart") {
  PieceCounts pieces;
  for (const char c : std::string("abcabc")) {
    pieces.add(std::string(20, '-') + c + std::string(20, '-'));
  }
  CHECK(pieces.size() == 3);
  CHECK(pieces.text_bytes() == 3 * 41);
  pieces.for_each([](const PieceCounts::Entry& entry) { CHECK(entry.count == 2); });
}

TEST_CASE("a tokenizer that cannot be trained is refused by the option") {
  CHECK(refusal_of_training({.vocabulary = 257}).empty());
  CHECK_THAT(refusal_of_training({.vocabulary = 256}),
             ContainsSubstring("--vocab-size: 256 is not between 257"));
  CHECK_THAT(refusal_of_training({.split = "cl100k"}),
             ContainsSubstring("--split: cl100k") && ContainsSubstring("gpt2, llama3"));
  CHECK_THAT(refusal_of_training({.special = {"<a>", "<a>"}}),
             ContainsSubstring("--special: <a> is there twice"));
  CHECK_THAT(refusal_of_training({.special = {"<|endoftext|>"}}),
             ContainsSubstring("--eos is a special token"));
  CHECK_THAT(refusal_of_training({.special = {""}}),
             ContainsSubstring("--special: a token needs a text"));
}

}  // namespace strata
