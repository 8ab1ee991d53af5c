// What the files beside a tokenizer say of special and added tokens, against transformers
// (scripts/golden/make_special_token_goldens.py), and what of them is refused.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/tokenizer/tokenizer.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/places.h"
#include "support/scratch_folder.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;
using Names = std::map<std::string, std::string>;
using nlohmann::json;

constexpr std::int32_t kBos = 600;  // of llama3.json, whose post-processor puts both around texts
constexpr std::int32_t kEos = 601;

/// A model's folder with a tokenizer of the goldens.
struct Model {
  explicit Model(const std::string& golden = "llama3.json",
                 const std::string& name = "tokenizer.json") {
    fs::copy_file(test::tokenizer_goldens_folder() + '/' + golden, folder.file(name));
  }
  void write(const std::string& name, const json& content) const {
    folder.write(name, content.is_string() ? content.get<std::string>() : json_text(content));
  }
  [[nodiscard]] std::unique_ptr<const Tokenizer> load() const {
    return Tokenizer::load(folder.file("."));
  }
  [[nodiscard]] std::string refusal() const {
    try {
      (void)load();
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }
  ScratchFolder folder{};
};

Ids ids_of(const Tokenizer& tokenizer, const std::string& text) {
  EncodeCache cache;
  Ids ids;
  tokenizer.encode(text, {.parse_special = true}, cache, ids);
  return ids;
}

Names names_of(const Tokenizer& tokenizer) {
  Names names;
  for (const NamedToken& token : tokenizer.special_tokens().named) names[token.name] = token.text;
  return names;
}

}  // namespace

TEST_CASE("names and ids of special tokens are those that transformers reads") {
  const json golden = test::read_json(test::tokenizer_goldens_folder() + "/special_tokens.json");
  for (const auto& [name, expected] : golden["cases"].items()) {
    INFO(name);
    const Model model;
    for (const auto& [file, content] : expected["files"].items()) model.write(file, content);
    const auto tokenizer = model.load();
    CHECK(names_of(*tokenizer) == expected["special_tokens_map"].get<Names>());
    for (std::size_t i = 0; i < golden["texts"].size(); ++i) {
      INFO("text " << i);
      CHECK(ids_of(*tokenizer, golden["texts"][i].get<std::string>()) ==
            expected["ids"][i].get<Ids>());
    }
  }
}

TEST_CASE("where no file names bos and eos they are what the post-processor puts around texts") {
  const Model model;
  CHECK(model.load()->special_tokens().bos == kBos);
  CHECK(model.load()->special_tokens().eos == kEos);
  CHECK(model.load()->special_tokens().begins_texts);
  model.write("special_tokens_map.json", {{"bos_token", "<mask>"}, {"eos_token", "<tool>"}});
  CHECK(model.load()->special_tokens().bos == 602);
  CHECK(model.load()->special_tokens().eos == 603);
  CHECK(!model.load()->special_tokens().begins_texts);
}

TEST_CASE("added_tokens.json adds tokens to a model of SentencePiece, and to its hash") {
  const Model model("sentencepiece.model", "tokenizer.model");
  const auto before = model.load();
  const auto next = static_cast<std::int32_t>(before->vocabulary());
  model.write("added_tokens.json", {{"</s>", 2}});
  CHECK(model.load()->hash() == before->hash());
  model.write("added_tokens.json", {{"</s>", 2}, {"<|im_end|>", next}, {"<|note|>", next + 1}});
  model.write("special_tokens_map.json", {{"eos_token", "<|im_end|>"}});
  const auto tokenizer = model.load();
  CHECK(tokenizer->vocabulary() == next + 2);
  CHECK(tokenizer->hash() != before->hash());
  CHECK(tokenizer->special_tokens().bos == before->special_tokens().bos);
  CHECK(tokenizer->special_tokens().eos == next);
  CHECK(tokenizer->is_special(next));
  CHECK(!tokenizer->is_special(next + 1));
  CHECK(names_of(*tokenizer) == Names{{"bos_token", "<s>"}, {"eos_token", "<|im_end|>"}});
  Ids expected = ids_of(*before, "one two");
  expected.push_back(next + 1);
  expected.push_back(next);
  CHECK(ids_of(*tokenizer, "one two<|note|><|im_end|>") == expected);
  CHECK(tokenizer->decode(expected, {.skip_special = true}) == "one two<|note|>");
}

TEST_CASE("what the files beside a tokenizer cannot mean is refused by file and place") {
  const Model model;
  const auto refusal = [&](const std::string& file, const json& content) {
    model.write(file, content);
    const std::string words = model.refusal();
    fs::remove(model.folder.file(file));
    return words;
  };
  CHECK_THAT(
      refusal("special_tokens_map.json", {{"eos_token", "<none>"}}),
      ContainsSubstring("special_tokens_map.json: $.eos_token: ") && ContainsSubstring("<none>"));
  CHECK_THAT(refusal("special_tokens_map.json", {{"pad_token", 3}}),
             ContainsSubstring("special_tokens_map.json: $.pad_token: a text is expected"));
  CHECK_THAT(refusal("special_tokens_map.json", "{"),
             ContainsSubstring("special_tokens_map.json: is not JSON"));
  CHECK_THAT(refusal("added_tokens.json", {{"<new>", 5}}),
             ContainsSubstring("added_tokens.json: $.<new>: the id 5 is that of "));
  CHECK_THAT(refusal("added_tokens.json", {{"<new>", 2000000000}}),
             ContainsSubstring("is too large for this vocabulary"));
  CHECK_THAT(refusal("added_tokens.json", {{"<new>", "x"}}),
             ContainsSubstring("added_tokens.json: $.<new>: a count"));
  CHECK_THAT(
      refusal("tokenizer_config.json", {{"added_tokens_decoder", {{"x", {{"content", "<new>"}}}}}}),
      ContainsSubstring("tokenizer_config.json: $.added_tokens_decoder.x: an id"));
  CHECK(model.refusal().empty());
}

}  // namespace strata
