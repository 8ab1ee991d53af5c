// Ids and decoded texts of files that are no tokenizer.json, against those of the libraries that
// they are from; and what is refused.

#include <filesystem>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/tokenizer/tokenizer.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/ordinary_user.h"
#include "support/places.h"
#include "support/scratch_folder.h"
#include "tokenizer/base64.h"
#include "tokenizer/byte_vocabulary.h"
#include "tokenizer/sha256.h"
#include "tokenizer/tiktoken_file.h"

namespace strata {
namespace {

using Ids = std::vector<std::int32_t>;

const std::string kFolder = test::tokenizer_goldens_folder();

std::string contents_of(const std::string& name) {
  return read_text_file(kFolder + '/' + name, std::size_t{1} << 24);
}

nlohmann::json goldens() { return parse_json<nlohmann::json>(contents_of("files.json")); }

std::string refusal_of_file(const std::string& contents,
                            const std::string& name = "tokenizer.model") {
  const ScratchFolder folder;
  try {
    (void)Tokenizer::load(folder.write(name, contents));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

/// A field of protocol buffers that holds bytes.
std::string field(int number, const std::string& bytes) {
  std::string text{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())};
  return text += bytes;
}

}  // namespace

TEST_CASE("ids and texts of models' own files are those of their libraries") {
  const nlohmann::json golden = goldens();
  EncodeCache cache;
  for (const auto& [name, expected] : golden["models"].items()) {
    const auto tokenizer = Tokenizer::load(kFolder + '/' + name);
    for (std::size_t i = 0; i < golden["texts"].size(); ++i) {
      INFO(name << ", text " << i);
      Ids ids;
      tokenizer->encode(golden["texts"][i].get<std::string>(), {}, cache, ids);
      CHECK(ids == expected["ids"][i].get<Ids>());
      CHECK(tokenizer->decode(ids) == expected["decoded"][i].get<std::string>());
    }
    for (std::size_t i = 0; i < expected["lists"].size(); ++i) {
      INFO(name << ", list " << i);
      CHECK(tokenizer->decode(expected["lists"][i].get<Ids>(), {.skip_special = true}) ==
            expected["texts_of_lists"][i].get<std::string>());
    }
  }
}

TEST_CASE("any two neighbours merge whose bytes are a token of tiktoken") {
  const nlohmann::json golden = goldens();
  const nlohmann::json& expected = golden["ranks"];
  const TokenizerParts parts = byte_vocabulary_parts(
      {.tokens = tiktoken_ranks(contents_of("ranks.tiktoken")), .pattern = SplitPattern::kLlama3});
  EncodeCache cache;
  for (std::size_t i = 0; i < golden["texts"].size(); ++i) {
    INFO("text " << i);
    const auto text = golden["texts"][i].get<std::string>();
    Ids ids;
    parts.pre_tokenizer.apply(text, PreTokenizer::Place::kBegin,
                              [&](std::string_view piece) { parts.bpe.encode(piece, cache, ids); });
    CHECK(ids == expected["ids"][i].get<Ids>());
  }
  for (std::size_t i = 0; i < expected["lists"].size(); ++i) {
    INFO("list " << i);
    std::vector<std::string> tokens;
    for (const std::int32_t id : expected["lists"][i].get<Ids>()) {
      tokens.push_back(parts.tokens.text(id));
    }
    CHECK(parts.decoder.decode(tokens) == expected["texts_of_lists"][i].get<std::string>());
  }
}

TEST_CASE("models' own files name the tokens around texts") {
  EncodeCache cache;
  for (const char* name : {"sentencepiece.model", "small_tekken.json"}) {
    INFO(name);
    const auto tokenizer = Tokenizer::load(kFolder + '/' + name);
    CHECK(tokenizer->special_tokens().bos == 1);
    CHECK(tokenizer->special_tokens().eos == 2);
    CHECK(tokenizer->special_tokens().begins_texts);
    Ids ids;
    tokenizer->encode("</s>", {.parse_special = true, .add_special = true}, cache, ids);
    CHECK(ids == Ids{1, 2});
  }
}

TEST_CASE("tokenizer_config.json counts more than the file") {
  const ScratchFolder folder;
  const std::string file = folder.write("tokenizer.model", contents_of("sentencepiece.model"));
  folder.write("tokenizer_config.json", R"({"eos_token": "<call>", "add_bos_token": false})");
  const auto tokenizer = Tokenizer::load(file);
  CHECK(tokenizer->special_tokens().bos == 1);
  CHECK(tokenizer->special_tokens().eos == 3);
  CHECK(!tokenizer->special_tokens().begins_texts);
}

TEST_CASE("a folder that cannot be searched has not no tokenizer, but is named") {
  const ScratchFolder folder;
  folder.write("model/tokenizer.json", "{}");
  std::filesystem::permissions(folder.file("model"), std::filesystem::perms::none);
  {
    const test::OrdinaryUser user;
    CHECK_THROWS_WITH(
        Tokenizer::file_in(folder.file("model")),
        ContainsSubstring(folder.file("model") + ": cannot be searched for a tokenizer"));
  }
  std::filesystem::permissions(folder.file("model"), std::filesystem::perms::all);
}

TEST_CASE("a folder's tokenizer is looked for in an order") {
  const ScratchFolder folder;
  const std::string model = folder.file("model");
  CHECK(!Tokenizer::file_in(model));
  folder.write("model/config.json", "{}");
  CHECK(!Tokenizer::file_in(model));
  for (const char* name : {"qwen.tiktoken", "tokenizer.model", "tekken.json", "tokenizer.json"}) {
    const std::string file = folder.write(std::string("model/") + name, "");
    CHECK(Tokenizer::file_in(model) == file);
  }
  std::filesystem::remove(folder.file("model/tokenizer.json"));
  folder.write("model/tekken.json", contents_of("small_tekken.json"));
  CHECK(Tokenizer::load(model)->vocabulary() == 628);
}

TEST_CASE("damaged models are refused, wherever they end") {
  const std::string whole = contents_of("sentencepiece.model");
  for (std::size_t bytes = 1; bytes < whole.size(); bytes += 97) {
    INFO(bytes);
    CHECK_THAT(refusal_of_file(whole.substr(0, bytes)), ContainsSubstring("tokenizer.model: "));
  }
}

TEST_CASE("what a model of SentencePiece has and strata has not is refused by name") {
  const std::string whole = contents_of("sentencepiece.model");
  // Fields of a message that come later count, so that one behind the model changes it.
  const auto trainer = [&](const std::string& fields) {
    return refusal_of_file(whole + field(2, fields));
  };
  const auto normalizer = [&](const std::string& fields) {
    return refusal_of_file(whole + field(3, fields));
  };
  CHECK_THAT(trainer("\x18\x01"), ContainsSubstring("the model_type unigram is not supported"));
  CHECK_THAT(trainer("\xc0\x01\x01"), ContainsSubstring("treat_whitespace_as_suffix"));
  CHECK_THAT(normalizer(field(1, "nmt_nfkc") + field(2, "map")),
             ContainsSubstring("the normalizer nmt_nfkc is not supported"));
  const auto piece = [&](const std::string& text, char type) {
    return refusal_of_file(whole + field(1, field(1, text) + "\x18" + type));
  };
  CHECK(piece("q\xe2\x96\x81", 1).empty());
  CHECK_THAT(piece("e", 1), ContainsSubstring("has twice the piece e"));
  CHECK_THAT(piece("the\xe4\xb8\x80", 1), ContainsSubstring("whose character"));
  CHECK_THAT(piece("the\xff", 1), ContainsSubstring("is not UTF-8"));
  CHECK_THAT(piece("qqq", 5), ContainsSubstring("the unused piece qqq"));
  CHECK_THAT(piece("q q", 4), ContainsSubstring("with a space"));
  CHECK_THAT(piece("qqq", 9), ContainsSubstring("unknown type, 9"));
}

TEST_CASE("files of tiktoken that are not known are refused with the remedy") {
  CHECK_THAT(refusal_of_file(contents_of("ranks.tiktoken"), "my.tiktoken"),
             ContainsSubstring("my.tiktoken: ") && ContainsSubstring("tokenizer.json"));
  CHECK_THAT(refusal_of_file("IQ== 0\nIg== 0\n"),
             ContainsSubstring("line 2: the rank is there twice"));
  CHECK_THAT(refusal_of_file("IQ== 0\nIg= 1\n"), ContainsSubstring("line 2: a token in base64"));
  CHECK_THAT(refusal_of_file("IQ== 0\nIg== 9\n"), ContainsSubstring("line 2: the rank is above"));
  CHECK_THAT(refusal_of_file("IQ== 1\n"), ContainsSubstring("has no token of rank 0"));
  CHECK_THAT(refusal_of_file(std::string("\n\0", 2)), ContainsSubstring("name the tokenizer.json"));
  CHECK_THAT(refusal_of_file("plain text"), ContainsSubstring("name the tokenizer.json"));
  CHECK_THROWS_WITH(byte_vocabulary_parts({.tokens = {"a", "b"}}),
                    ContainsSubstring("has no token for the byte 0"));
}

TEST_CASE("what a tekken.json has and strata has not is refused by its JSON path") {
  const nlohmann::json whole = parse_json<nlohmann::json>(contents_of("small_tekken.json"));
  const auto refused = [&](const char* pointer, const nlohmann::json& value) {
    nlohmann::json document = whole;
    document[nlohmann::json::json_pointer(pointer)] = value;
    return refusal_of_file(json_text(document), "tekken.json");
  };
  CHECK(refused("/config/num_vocab_tokens", 1).empty());
  CHECK_THAT(refused("/config/pattern", "[a-z]+"), ContainsSubstring("$.config.pattern: "));
  CHECK_THAT(refused("/config/version", "v11"), ContainsSubstring("special_tokens is missing"));
  CHECK_THAT(refused("/config/default_vocab_size", 99999), ContainsSubstring("$.vocab: a list of"));
  CHECK_THAT(refused("/config/default_vocab_size", 3),
             ContainsSubstring("$.config.default_vocab_size"));
  CHECK_THAT(refused("/config/default_num_special_tokens", 3),
             ContainsSubstring("$.config.default_num_special_tokens"));
  CHECK_THAT(refused("/config/default_num_special_tokens", 1 << 30),
             ContainsSubstring("at most 65536 special tokens"));
  CHECK_THAT(refused("/vocab/7/rank", 8), ContainsSubstring("$.vocab[7].rank"));
  CHECK_THAT(refused("/vocab/7/token_bytes", "?"), ContainsSubstring("$.vocab[7].token_bytes"));
  CHECK_THAT(refused("/vocab/300/token_bytes", "AA=="), ContainsSubstring("has twice the token"));
  CHECK_THAT(refused("/special_tokens", {{{"rank", 1}, {"token_str", "a"}}}),
             ContainsSubstring("$.special_tokens[0].rank"));
}

TEST_CASE("base64 and SHA-256 are those of their standards") {
  CHECK(base64_bytes("") == "");
  CHECK(base64_bytes("Zm9vYmE=") == "fooba");
  CHECK(base64_bytes("Zm9vYg==") == "foob");
  CHECK(base64_bytes("+/+/") == "\xfb\xff\xbf");
  for (const char* wrong : {"Zm9", "Zm9v=", "Zm9vYh==", "====", "Zm=v", "Zm 9"}) {
    INFO(wrong);
    CHECK(!base64_bytes(wrong));
  }
  CHECK(sha256_of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_of(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  CHECK(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

}  // namespace strata
