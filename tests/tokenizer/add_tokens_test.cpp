// Tokens that are added to the golden tokenizers: their ids, what the files are beside them, and
// what is refused. That transformers reads the same is tested by tests/e2e/chat_model_test.py.

#include "strata/tokenizer/add_tokens.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/tokenizer/tokenizer.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/places.h"
#include "support/scratch_folder.h"

namespace strata {
namespace {

using Ids = std::vector<std::int32_t>;
using Tokens = std::vector<std::string>;

const Tokens kMarkers{"<|im_start|>", "<|im_end|>"};

std::string golden(const std::string& name) {
  return read_text_file(test::tokenizer_goldens_folder() + '/' + name, std::size_t{1} << 24);
}

/// The golden tokenizer of 600 texts, whose added tokens have the ids 600 to 603.
std::string write_golden(const ScratchFolder& folder) {
  folder.write("base/tokenizer.json", golden("llama3.json"));
  return folder.file("base");
}

std::map<std::string, std::string> texts_of(const ExtendedTokenizer& extended) {
  std::map<std::string, std::string> texts;
  for (const TokenizerFileText& file : extended.files) texts[file.name] = file.text;
  return texts;
}

std::string refusal_of_added(const std::string& tokenizer, const Tokens& tokens) {
  try {
    static_cast<void>(add_special_tokens(tokenizer, tokens));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("tokens that are added get the next ids and are found as a whole") {
  const ScratchFolder folder;
  const std::string base = write_golden(folder);
  const ExtendedTokenizer extended = add_special_tokens(base, kMarkers);
  CHECK(extended.vocabulary == 606);
  REQUIRE(extended.tokens.size() == 2);
  CHECK(extended.tokens[0].id == 604);
  CHECK(extended.tokens[1].id == 605);

  folder.write("new/tokenizer.json", texts_of(extended).at("tokenizer.json"));
  const auto made = Tokenizer::load(folder.file("new"));
  const auto before = Tokenizer::load(base);
  CHECK(made->vocabulary() == 606);
  CHECK(made->is_special(604));
  CHECK(made->hash() != before->hash());
  EncodeCache cache;
  const auto ids = [&](const Tokenizer& tokenizer, const std::string& text) {
    Ids all;
    tokenizer.encode(text, {.parse_special = true}, cache, all);
    return all;
  };
  Ids expected{604};
  for (const std::int32_t id : ids(*before, "some words")) expected.push_back(id);
  expected.push_back(605);
  CHECK(ids(*made, "<|im_start|>some words<|im_end|>") == expected);
}

TEST_CASE("a tokenizer.json keeps every byte but for what is added") {
  const ScratchFolder folder;
  const std::string base = write_golden(folder);
  const std::string before = golden("llama3.json");
  const std::string after = texts_of(add_special_tokens(base, kMarkers)).at("tokenizer.json");
  std::size_t same = 0;
  while (before[same] == after[same]) ++same;
  const std::size_t added = after.size() - before.size();
  CHECK(before.substr(same) == after.substr(same + added));

  auto tree = parse_json<nlohmann::json>(before);
  for (const int id : {604, 605}) {
    tree["added_tokens"].push_back({{"id", id},
                                    {"content", kMarkers[static_cast<std::size_t>(id - 604)]},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", true}});
  }
  CHECK(parse_json<nlohmann::json>(after) == tree);
}

TEST_CASE("a text of the vocabulary keeps its id, and an added token stays as it is") {
  const ScratchFolder folder;
  const std::string base = write_golden(folder);
  const std::int32_t word = Tokenizer::load(base)->id_of("\xC4\xA0the").value();
  const ExtendedTokenizer extended =
      add_special_tokens(base, Tokens{"<tool>", "\xC4\xA0the", "<|im_end|>"});
  CHECK_FALSE(extended.tokens[0].is_new);
  CHECK(extended.tokens[0].id == 603);
  CHECK(extended.tokens[1].is_new);
  CHECK(extended.tokens[1].id == word);
  CHECK(extended.tokens[2].id == 604);
  CHECK(extended.vocabulary == 605);
  folder.write("new/tokenizer.json", texts_of(extended).at("tokenizer.json"));
  const auto made = Tokenizer::load(folder.file("new"));
  CHECK(made->is_special(word));
  CHECK_FALSE(made->is_special(603));
  CHECK_THAT(refusal_of_added(base, {"<tool>", "<s>"}),
             ContainsSubstring("tokenizer.json: has all of these tokens"));
}

TEST_CASE("the files beside a tokenizer.json name the new tokens as they name others") {
  const ScratchFolder folder;
  const std::string base = write_golden(folder);
  const std::string numbers = R"("model_max_length": 1000000000000000019884624838656)";
  const auto extended_by = [&](const std::string& config) {
    folder.write("base/tokenizer_config.json", config);
    return texts_of(add_special_tokens(base, kMarkers)).at("tokenizer_config.json");
  };
  CHECK(extended_by("{}") == R"({"additional_special_tokens": ["<|im_start|>","<|im_end|>"]})");
  CHECK(extended_by("{\n  " + numbers +
                    ",\n  \"additional_special_tokens\": [\n    \"<s>\"\n  ]\n}\n") ==
        "{\n  " + numbers +
            ",\n  \"additional_special_tokens\": [\n    \"<s>\",\n    \"<|im_start|>\",\n    "
            "\"<|im_end|>\"\n  ]\n}\n");
  // Of transformers 5; an object of this name means something else.
  CHECK(extended_by(R"({"extra_special_tokens": []})") ==
        R"({"extra_special_tokens": ["<|im_start|>","<|im_end|>"]})");
  CHECK(extended_by(R"({"extra_special_tokens": {"image": "<s>"}})") ==
        R"({"extra_special_tokens": {"image": "<s>"},"additional_special_tokens": )"
        R"(["<|im_start|>","<|im_end|>"]})");
  const auto decoder = parse_json<nlohmann::json>(
      extended_by(R"({"added_tokens_decoder": {"600": {"content": "<s>"}}})"));
  CHECK(decoder["added_tokens_decoder"]["600"] == nlohmann::json{{"content", "<s>"}});
  CHECK(decoder["added_tokens_decoder"]["605"] == nlohmann::json{{"content", "<|im_end|>"},
                                                                 {"lstrip", false},
                                                                 {"normalized", false},
                                                                 {"rstrip", false},
                                                                 {"single_word", false},
                                                                 {"special", true}});

  folder.write("base/special_tokens_map.json", R"({"bos_token": "<s>"})");
  folder.write("base/added_tokens.json", R"({ })");
  folder.write("base/chat_template.jinja", "{{ messages }}");
  const auto texts = texts_of(add_special_tokens(base, kMarkers));
  CHECK(texts.at("special_tokens_map.json") ==
        R"({"bos_token": "<s>","additional_special_tokens": ["<|im_start|>","<|im_end|>"]})");
  CHECK(parse_json<nlohmann::json>(texts.at("added_tokens.json")) ==
        nlohmann::json{{"<|im_start|>", 604}, {"<|im_end|>", 605}});
  CHECK(texts.at("chat_template.jinja") == "{{ messages }}");
}

TEST_CASE("tokens are found in the file by their meaning, not by how it is written") {
  const ScratchFolder folder;
  auto tree = parse_json<nlohmann::json>(golden("llama3.json"));
  tree["added_tokens"][0]["content"] = "}]\"\\{[";  // no bracket of the file
  const std::string text = json_text(tree);
  const std::string key = "\"added_tokens\"";
  const std::size_t at = text.find(key);
  REQUIRE(at != text.npos);
  folder.write("base/tokenizer.json",
               std::string(text).replace(at, key.size(), "\"\\u0061dded_tokens\""));
  const ExtendedTokenizer extended = add_special_tokens(folder.file("base"), kMarkers);
  folder.write("new/tokenizer.json", texts_of(extended).at("tokenizer.json"));
  CHECK(Tokenizer::load(folder.file("new"))->id_of("<|im_end|>") == 605);

  tree.erase("added_tokens");
  folder.write("bare/tokenizer.json", json_text(tree));
  const ExtendedTokenizer first = add_special_tokens(folder.file("bare"), kMarkers);
  CHECK(first.tokens[0].id == 600);
  folder.write("first/tokenizer.json", texts_of(first).at("tokenizer.json"));
  CHECK(Tokenizer::load(folder.file("first"))->id_of("<|im_end|>") == 601);
}

TEST_CASE("tokens that cannot be added are refused with the reason") {
  const ScratchFolder folder;
  const std::string base = write_golden(folder);
  CHECK_THAT(refusal_of_added(base, {""}), ContainsSubstring("a token needs a text"));
  CHECK_THAT(refusal_of_added(base, {"<a>", "<b>", "<a>"}),
             ContainsSubstring("<a> is given twice"));
  CHECK_THAT(refusal_of_added(base, {"<\xFF>"}), ContainsSubstring("not valid UTF-8"));
  for (const std::string name : {"sentencepiece.model", "small_tekken.json"}) {
    CAPTURE(name);
    CHECK_THAT(
        refusal_of_added(test::tokenizer_goldens_folder() + '/' + name, kMarkers),
        ContainsSubstring(name + ": is no tokenizer.json") && ContainsSubstring("save_pretrained"));
  }
  folder.write("base/special_tokens_map.json", "[]");
  CHECK_THAT(refusal_of_added(base, kMarkers),
             ContainsSubstring("special_tokens_map.json: $: an object is"));
  CHECK_THROWS_AS(add_special_tokens(folder.file("nowhere"), kMarkers), IoError);
}

TEST_CASE("ids with gaps, which other programs would fill, take no tokens") {
  const ScratchFolder folder;
  auto tree = parse_json<nlohmann::json>(golden("llama3.json"));
  // A vocabulary of 599 texts up to the id 599, and no added token: the library would begin at 599.
  tree["added_tokens"] = nlohmann::json::array();
  auto& vocabulary = tree["model"]["vocab"];
  std::string unused;
  for (const auto& [text, id] : vocabulary.items()) {
    if (id == 0) unused = text;
  }
  tree["model"]["merges"] = nlohmann::json::array();
  vocabulary.erase(unused);
  folder.write("base/tokenizer.json", json_text(tree));
  CHECK_THAT(refusal_of_added(folder.file("base"), kMarkers),
             ContainsSubstring("the id 599") && ContainsSubstring("ids have gaps"));
}

}  // namespace strata
