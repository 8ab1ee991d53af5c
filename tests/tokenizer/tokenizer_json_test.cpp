// The reader of tokenizer.json against the JSON library's own tree of the same file.

#include "tokenizer/tokenizer_json.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/places.h"
#include "tokenizer/token_table.h"

namespace strata {
namespace {

std::string refusal_of_json(std::string_view text) {
  try {
    (void)parse_tokenizer_json(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::string with_model(const std::string& members) { return R"({"model": {)" + members + "}}"; }

/// Returns a list of merges as the reader gives it.
std::vector<std::string> merge_texts(const nlohmann::json& merges) {
  std::vector<std::string> texts;
  for (const nlohmann::json& merge : merges) {
    if (merge.is_array()) {
      texts.insert(texts.end(), {merge.at(0).get<std::string>(), merge.at(1).get<std::string>()});
    } else {
      const auto text = merge.get<std::string>();
      texts.insert(texts.end(), {text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)});
    }
  }
  return texts;
}

}  // namespace

TEST_CASE("tokenizer.json is read as the JSON library reads it") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::tokenizer_goldens_folder())) {
    if (entry.path().extension() != ".json") continue;
    const std::string text = read_text_file(entry.path().string(), std::size_t{1} << 24);
    nlohmann::json whole = parse_json<nlohmann::json>(text);
    if (!whole.contains("model")) continue;
    INFO(entry.path());
    ++files;
    const TokenizerJson found = parse_tokenizer_json(text);
    std::map<std::string, std::int32_t> vocabulary;
    for (std::size_t i = 0; i < found.ids.size(); ++i) {
      vocabulary.emplace(found.tokens[i], found.ids[i]);
    }
    nlohmann::json& model = whole["model"];
    CHECK(found.tokens.size() == found.ids.size());
    CHECK(vocabulary == model["vocab"].get<std::map<std::string, std::int32_t>>());
    std::vector<std::string> merged;
    for (std::size_t i = 0; i < found.merged.size(); ++i) merged.emplace_back(found.merged[i]);
    CHECK(merged == merge_texts(model["merges"]));
    model["vocab"] = nlohmann::json::object();
    model["merges"] = nlohmann::json::array();
    CHECK(found.tree == whole);
  }
  CHECK(files >= 5);
}

TEST_CASE("vocabularies and merges of another form are refused by their place") {
  CHECK_THAT(
      refusal_of_json(with_model(R"("vocab": {"a": 1, "b": "2"})")),
      ContainsSubstring("$.model.vocab.b: a count below 2^31") && ContainsSubstring("\"2\""));
  for (const char* id : {"-1", "1.5", "2147483648", "null", "[1]", "{}", "true"}) {
    INFO(id);
    CHECK_THAT(refusal_of_json(with_model(std::string(R"("vocab": {"a": )") + id + "}")),
               ContainsSubstring("$.model.vocab.a"));
  }
  for (const char* merge : {R"("ab")", "3", "{}", R"(["a"])", R"(["a", "b", "c"])", R"(["a", 1])",
                            R"(["a", ["b"]])", "null"}) {
    INFO(merge);
    CHECK_THAT(refusal_of_json(with_model(std::string(R"("merges": ["a b", )") + merge + "]")),
               ContainsSubstring("$.model.merges[1]"));
  }
  CHECK_THAT(refusal_of_json("{\"model\": {\"vocab\": {\"a\": 1"),
             ContainsSubstring("is not JSON"));
  CHECK_THAT(refusal_of_json(std::string("{}") + '\0' + "x"), ContainsSubstring("NUL"));
  CHECK_THAT(refusal_of_json(std::string(100000, '[')), ContainsSubstring("nest more than"));
  CHECK(refusal_of_json(with_model(R"("vocab": [["a", 0.5]], "merges": {})"))
            .empty());  // in the tree
}

TEST_CASE("a table of tokens finds what was set last") {
  TokenTable table;
  CHECK(!table.find("a"));
  for (std::int32_t id = 0; id < 1000; ++id) table.set(id, "token " + std::to_string(id));
  table.set(7, "other");
  table.set(2000, "last");
  CHECK(table.size() == 2001);
  CHECK(table.find("token 999") == 999);
  CHECK(table.find("other") == 7);
  CHECK(!table.find("token 7"));
  CHECK(!table.find(""));
  CHECK(table.find("last") == 2000);
  CHECK(table.text(1500).empty());
}

}  // namespace strata
