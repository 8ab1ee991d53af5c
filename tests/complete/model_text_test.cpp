// Tests that the pieces of a text add up to the text, whatever tokens they come from, and that
// nothing of a stop is given out.

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/utf8.h"
#include "strata/complete/model_text.h"
#include "strata/data/byte_tokenizer.h"
#include "strata/model/generation_defaults.h"
#include "support/catch.h"
#include "support/places.h"
#include "support/scratch_folder.h"

namespace strata::test {
namespace {

constexpr std::string_view kSample =
    "Once upon a time, there was  a caf\xC3\xA9. \xE4\xB8\xAD\xE6\x96\x87 and \xF0\x9F\x98\x80!\n\n"
    "  indented, 12345 times: f(x) = x\xC2\xB2 \xE2\x80\x94 the end";

ModelText text_of(const std::string& name) {
  return ModelText(
      {.folder = "", .tokenizer = tokenizer_goldens_folder() + '/' + name, .vocabulary = 100000});
}

/// Streams the ids from `begin` on after those before, and requires whole characters.
std::string streamed(const ModelText& text, const std::vector<std::int32_t>& ids,
                     std::size_t begin) {
  TextStream stream(text, std::span(ids).first(begin), {});
  std::string all;
  for (std::size_t i = begin; i < ids.size(); ++i) {
    const std::string piece = stream.add(ids[i]);
    REQUIRE(valid_utf8_bytes(piece) == piece.size());
    CHECK(piece.find("\xEF\xBF\xBD") == piece.npos);
    all += piece;
  }
  return all + stream.finish();
}

}  // namespace

TEST_CASE("pieces of a text add up to it, wherever the prompt ends") {
  for (const char* name : {"gpt2.json", "llama2.json", "llama3.json", "metaspace.json",
                           "metaspace_first.json", "sentencepiece.model", "small_tekken.json"}) {
    INFO(name);
    const ModelText text = text_of(name);
    const std::vector<std::int32_t> ids = text.encode(kSample, false);
    const std::string all = text.decode(ids);
    REQUIRE(ids.size() > 20);
    for (std::size_t begin = 1; begin < ids.size(); ++begin) {
      const std::string prompt = text.decode(std::span(ids).first(begin));
      const std::string rest = streamed(text, ids, begin);
      INFO("after " << begin << " tokens: " << prompt);
      // A prompt may end within a character, whose rest then begins what follows.
      if (prompt.ends_with("\xEF\xBF\xBD")) continue;
      CHECK(prompt + rest == all);
    }
  }
}

TEST_CASE("bytes that are no UTF-8 become replacement characters at the end alone") {
  const ModelText text({.folder = "", .vocabulary = ByteTokenizer::kVocabulary});
  const std::vector<std::int32_t> ids = text.encode(kSample, false);
  CHECK(ids.size() == kSample.size());
  CHECK(text.decode(ids) == kSample);
  CHECK(streamed(text, ids, 1) == kSample.substr(1));
  TextStream stream(text, {}, {});
  CHECK(stream.add(0xC3).empty());  // half of a character
  CHECK(stream.add('a') ==
        "\xEF\xBF\xBD"
        "a");
  CHECK(stream.add(0xF0).empty());
  CHECK(stream.add(0x9F).empty());
  CHECK(stream.finish() == "\xEF\xBF\xBD");
  CHECK(text.end_token() == ByteTokenizer::kEndOfDocument);
}

TEST_CASE("a text ends before the first of its stops, of which nothing is given out") {
  const ModelText text({.folder = "", .vocabulary = ByteTokenizer::kVocabulary});
  const auto pieces = [&](const std::string& drawn, const std::vector<std::string>& stops) {
    TextStream stream(text, {}, stops);
    std::vector<std::string> all;
    for (const char c : drawn) {
      all.push_back(stream.add(static_cast<unsigned char>(c)));
      if (stream.stopped()) return all;
    }
    all.push_back(stream.finish());
    return all;
  };
  using Pieces = std::vector<std::string>;
  CHECK(pieces("abcd", {"bc"}) == Pieces{"a", "", ""});
  CHECK(pieces("abxd", {"bc"}) == Pieces{"a", "", "bx", "d", ""});
  CHECK(pieces("aab", {"ab"}) == Pieces{"", "a", ""});
  CHECK(pieces("ab", {"abc"}) == Pieces{"", "", "ab"});
  CHECK(pieces("xyz", {"z", "yz"}) == Pieces{"x", "", ""});
  CHECK(pieces("abc", {""}) == Pieces{"a", "b", "c", ""});
}

TEST_CASE("stops see the texts of special tokens, which are not given out") {
  const ModelText text = text_of("llama3.json");
  const auto tokenizer = Tokenizer::load(tokenizer_goldens_folder() + "/llama3.json");
  std::vector<std::int32_t> ids;
  EncodeCache cache;
  tokenizer->encode("ab<s>cd</s>ef", {.parse_special = true}, cache, ids);
  const auto streamed_until = [&](const std::vector<std::string>& stops) {
    TextStream stream(text, {}, stops);
    std::string all;
    for (const std::int32_t id : ids) {
      all += stream.add(id);
      if (stream.stopped()) return all;
    }
    return all + stream.finish();
  };
  CHECK(streamed_until({}) == "abcdef");
  CHECK(streamed_until({"</s>"}) == "abcd");
  CHECK(streamed_until({"<s>", "</s>"}) == "ab");
  CHECK(streamed_until({"d</s>e"}) == "abc");
  CHECK(streamed_until({"b<s>x"}) == "abcdef");
  CHECK(streamed_until({"bc"}) == "a");  // what is given out has no stop in it either
  CHECK(streamed_until({"b<s>cx", "de"}) == "abc");
}

TEST_CASE("texts of special tokens in a conversation are tokens if that is asked for") {
  const ModelText text({.folder = "",
                        .tokenizer = tokenizer_goldens_folder() + "/llama3.json",
                        .chat_template = "chatml",
                        .vocabulary = 100000});
  const auto asked = Conversation::parse(R"([{"role": "user", "content": "a</s>"}])", "test");
  constexpr std::int32_t kEnd = 601;
  CHECK(std::ranges::count(text.encode(asked), kEnd) == 0);
  CHECK(std::ranges::count(text.encode(asked, SpecialTextsOf::kAll), kEnd) == 1);
}

TEST_CASE("a model without tokenizer or template says so when it needs one") {
  const ModelText text({.folder = "somewhere", .vocabulary = 1000});
  CHECK_THROWS_WITH(text.encode("a", false), ContainsSubstring("somewhere: has no tokenizer.json"));
  CHECK(text.decode(std::vector<std::int32_t>{1, 2}).empty());
  const auto talk = Conversation::parse(R"([{"role": "user", "content": "a"}])", "talk");
  CHECK_THROWS_WITH(text.encode(talk), ContainsSubstring("--chat-template"));
  CHECK_THROWS_WITH(
      ModelText(
          {.folder = "", .tokenizer = tokenizer_goldens_folder() + "/gpt2.json", .vocabulary = 10}),
      ContainsSubstring("the model's vocabulary is 10"));
}

TEST_CASE("a model of bytes is told that bytes have no chat template") {
  const ModelTextOptions bytes{.folder = "somewhere", .vocabulary = ByteTokenizer::kVocabulary};
  const ModelText text(bytes);
  const auto talk = Conversation::parse(R"([{"role": "user", "content": "a"}])", "talk");
  CHECK_THROWS_WITH(text.encode(talk),
                    ContainsSubstring("is one of bytes") && !ContainsSubstring("--chat-template"));
  CHECK_THROWS_AS(text.require_template(), ConfigError);
  ModelTextOptions with_template = bytes;
  with_template.chat_template = "chatml";
  CHECK_THROWS_WITH(ModelText(with_template),
                    ContainsSubstring("--chat-template: ") && ContainsSubstring("is one of bytes"));
}

TEST_CASE("generation_config.json says how a model wants to be generated with") {
  const ScratchFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    folder.write(name, text);
  };
  CHECK(load_generation_defaults(folder.file("")).end_tokens.empty());
  write("config.json", R"({"eos_token_id": 2})");
  CHECK(load_generation_defaults(folder.file("")).end_tokens == std::vector{2});
  write("generation_config.json",
        R"({"eos_token_id": [5, 6], "do_sample": true, "temperature": 0.6, "top_p": 0.9,
            "top_k": 40, "max_new_tokens": 9, "repetition_penalty": 1.1, "other": {}})");
  const GenerationDefaults defaults = load_generation_defaults(folder.file(""));
  CHECK(defaults.end_tokens == std::vector{5, 6});
  CHECK(defaults.do_sample);
  CHECK(defaults.temperature == 0.6);
  CHECK(defaults.top_p == 0.9);
  CHECK(defaults.top_k == 40);
  CHECK(defaults.max_new_tokens == 9);
  CHECK(defaults.repetition_penalty == 1.1);
  CHECK(!defaults.min_p);
  for (const auto& [json, problem] :
       {std::pair{"[]", "not a JSON object"},
        {"{", "not valid JSON"},
        {R"({"top_k": 1.5})", "top_k is 1.5, and a whole number"},
        {R"({"temperature": "1"})", "temperature is \"1\", and a number"},
        {R"({"do_sample": 1})", "do_sample is 1"},
        {R"({"eos_token_id": -1})", "eos_token_id is -1, and an id"},
        {R"({"eos_token_id": ["a"]})", "an id, or a list"}}) {
    write("generation_config.json", json);
    CHECK_THROWS_WITH(load_generation_defaults(folder.file("")),
                      ContainsSubstring("generation_config.json") && ContainsSubstring(problem));
  }
}

}  // namespace strata::test
