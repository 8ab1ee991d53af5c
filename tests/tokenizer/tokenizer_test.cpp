// Ids and decoded texts against those of the library `tokenizers`, for small vocabularies that
// have each normalizer, pre-tokenizer and decoder; and what is refused.

#include "strata/tokenizer/tokenizer.h"

#include <fstream>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/places.h"
#include "support/scratch_folder.h"

namespace strata {
namespace {

const std::string kGoldens = test::tokenizer_goldens_folder();

std::string refusal_of_document(const nlohmann::json& document) {
  const ScratchFolder folder;
  try {
    (void)Tokenizer::load(folder.write("refused_tokenizer.json", json_text(document)));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("ids and texts are those of the reference") {
  const nlohmann::json golden = test::read_json(kGoldens + "/bpe.json");
  EncodeCache cache;
  for (const auto& [name, cases] : golden["tokenizers"].items()) {
    const auto tokenizer = Tokenizer::load(kGoldens + '/' + name + ".json");
    for (const auto& [kind, expected] : cases.items()) {
      const bool parse = kind == "parsed";
      for (std::size_t i = 0; i < golden["texts"].size(); ++i) {
        INFO(name << ", specials " << kind << ", text " << i);
        std::vector<std::int32_t> ids;
        tokenizer->encode(golden["texts"][i].get<std::string>(),
                          {.parse_special = parse, .add_special = parse}, cache, ids);
        CHECK(ids == expected["ids"][i].get<std::vector<std::int32_t>>());
        CHECK(tokenizer->decode(ids, {.skip_special = parse}) ==
              expected["decoded"][i].get<std::string>());
      }
    }
  }
}

TEST_CASE("what is not supported is refused by file, JSON path and name") {
  const nlohmann::json whole = test::read_json(kGoldens + "/gpt2.json");
  const auto refused = [&](const char* pointer, const nlohmann::json& value) {
    nlohmann::json document = whole;
    document[nlohmann::json::json_pointer(pointer)] = value;
    return refusal_of_document(document);
  };
  CHECK(refusal_of_document(whole).empty());
  CHECK_THAT(refused("/normalizer", {{"type", "NFKC"}}),
             ContainsSubstring("refused_tokenizer.json: $.normalizer: the normalizer NFKC is not"));
  const std::string long_name = refused("/normalizer", {{"type", std::string(70'000, 'x')}});
  CHECK_THAT(long_name, ContainsSubstring("the normalizer xxx") && ContainsSubstring("... is not"));
  CHECK(long_name.size() < 500);
  CHECK_THAT(refused("/pre_tokenizer", {{"type", "BertPreTokenizer"}}),
             ContainsSubstring("$.pre_tokenizer") && ContainsSubstring("BertPreTokenizer"));
  CHECK_THAT(refused("/model/type", "Unigram"),
             ContainsSubstring("$.model") && ContainsSubstring("Unigram"));
  CHECK_THAT(refused("/added_tokens/0/single_word", true), ContainsSubstring("$.added_tokens[0]"));
  const nlohmann::json split = {{"type", "Split"},
                                {"pattern", {{"Regex", "[a-z]+"}}},
                                {"behavior", "Isolated"},
                                {"invert", false}};
  CHECK_THAT(refused("/pre_tokenizer", split),
             ContainsSubstring("$.pre_tokenizer.pattern.Regex") && ContainsSubstring("[a-z]+"));
  const ScratchFolder folder;
  const std::string twice =
      R"({"model": {"type": "BPE", "vocab": {"a": 0, "a": 1}, "merges": []}})";
  CHECK_THROWS_WITH(Tokenizer::load(folder.write("twice.json", twice)),
                    ContainsSubstring("twice.json: $.model.vocab: has twice the token a"));
}

}  // namespace strata
