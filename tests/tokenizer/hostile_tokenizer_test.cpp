// Files of a few kilobytes that were made to take gigabytes or hours of a short text. Each is
// refused by its file, by the rule and by the limit that it met.

#include <cstdint>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/tokenizer/tokenizer.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/scratch_folder.h"

namespace strata {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<std::int32_t>;

Json byte_tokens() {
  Json vocabulary;
  const char* const letters = "abcdefghijklmnopqrstuvwxyz";
  for (int i = 0; i < 26; ++i) vocabulary[std::string(1, letters[i])] = i;
  return vocabulary;
}

/// Returns a tokenizer.json of the letters, with other sections as they are given.
std::string file_with(const Json& sections) {
  Json file{{"model", {{"type", "BPE"}, {"vocab", byte_tokens()}, {"merges", Json::array()}}}};
  file.update(sections);
  return json_text(file);
}

/// Returns what loading a file, encoding "aaaa" and decoding the ids of it is refused with.
std::string refusal_of_sections(const Json& sections) {
  const ScratchFolder folder;
  try {
    const auto tokenizer = Tokenizer::load(folder.write("tokenizer.json", file_with(sections)));
    EncodeCache cache;
    Ids ids;
    tokenizer->encode("aaaa", {}, cache, ids);
    (void)tokenizer->decode(Ids{0, 0, 0, 0});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

Json replace(const std::string& from, const std::string& to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

Json times(int count, const Json& rule) {
  Json all = Json::array();
  for (int i = 0; i < count; ++i) all.push_back(rule);
  return all;
}

Json sequence(const char* key, const Json& rules) { return {{"type", "Sequence"}, {key, rules}}; }

}  // namespace

TEST_CASE("a normalizer that doubles texts is refused by its rule") {
  const Json doubling = sequence("normalizers", times(40, replace("a", "aa")));
  const std::string refusal = refusal_of_sections({{"normalizer", doubling}});
  // 4 bytes may become 16 times as many and 64 KiB: 65,600; 4 * 2^15 is more.
  CHECK_THAT(refusal, ContainsSubstring("/tokenizer.json: $.normalizer.normalizers[14]: ") &&
                          ContainsSubstring("a text of 4 bytes grow to more than 65,600 bytes"));
  CHECK_THAT(refusal_of_sections({{"normalizer", replace("a", std::string(100000, 'b'))}}),
             ContainsSubstring("$.normalizer: "));
  CHECK_THAT(refusal_of_sections(
                 {{"normalizer", {{"type", "Prepend"}, {"prepend", std::string(100000, 'b')}}}}),
             ContainsSubstring("$.normalizer: "));
  const Json there_and_back = {replace("a", std::string(16000, 'b') + 'c'),
                               replace(std::string(4000, 'b'), ""), replace("c", "a")};
  Json again = Json::array();
  for (int i = 0; i < 80; ++i)
    again.insert(again.end(), there_and_back.begin(), there_and_back.end());
  CHECK_THAT(refusal_of_sections({{"normalizer", sequence("normalizers", again)}}),
             ContainsSubstring("rewritten until more than 2,099,200 bytes were written"));
}

TEST_CASE("parts of a text between added tokens share what may be made of it") {
  const Json token{{"id", 26}, {"content", "|"}, {"normalized", false}, {"special", false}};
  const ScratchFolder folder;
  const auto tokenizer = Tokenizer::load(folder.write(
      "tokenizer.json", file_with({{"normalizer", replace("a", std::string(40000, 'b'))},
                                   {"added_tokens", {token}}})));
  EncodeCache cache;
  Ids ids;
  tokenizer->encode("a|", {}, cache, ids);
  CHECK(ids.size() == 40001);
  CHECK_THROWS_WITH(tokenizer->encode("a|a|", {}, cache, ids), ContainsSubstring("$.normalizer: "));
  ids.clear();
  std::vector<std::uint8_t> marks;
  CHECK_THROWS_WITH(
      tokenizer->encode_marked({.text = "a|a|", .trusted = {}, .marked = {}}, cache, ids, marks),
      ContainsSubstring("$.normalizer: "));
}

TEST_CASE("added tokens that a normalizer doubles are refused when the file is read") {
  const Json doubling = sequence("normalizers", times(40, replace("a", "aa")));
  const Json token{{"id", 26}, {"content", "aa"}, {"normalized", true}, {"special", false}};
  CHECK_THAT(refusal_of_sections({{"normalizer", doubling}, {"added_tokens", {token}}}),
             ContainsSubstring("/tokenizer.json: $.normalizer.normalizers["));
}

TEST_CASE("a decoder that doubles texts is refused by its rule") {
  const Json doubling = sequence("decoders", times(40, replace("a", "aa")));
  CHECK_THAT(refusal_of_sections({{"decoder", doubling}}),
             ContainsSubstring("/tokenizer.json: $.decoder.decoders[14]: ") &&
                 ContainsSubstring("a text of 4 bytes grow to more than 65,600 bytes"));
}

TEST_CASE("a pre-tokenizer cannot double texts") {
  const auto metaspace = [](const char* replacement) {
    return Json{{"type", "Metaspace"}, {"replacement", replacement}, {"split", false}};
  };
  CHECK_THAT(refusal_of_sections({{"pre_tokenizer", metaspace("  ")}}),
             ContainsSubstring("$.pre_tokenizer.replacement: a character is expected"));
  CHECK_THAT(refusal_of_sections({{"pre_tokenizer", metaspace("")}}),
             ContainsSubstring("a character is expected"));
  CHECK(refusal_of_sections({{"pre_tokenizer", metaspace("\xe2\x96\x81")}}).empty());
  CHECK_THAT(
      refusal_of_sections(
          {{"pre_tokenizer", sequence("pretokenizers", times(2, metaspace("\xe2\x96\x81")))}}),
      ContainsSubstring("a second Metaspace is not supported"));
}

TEST_CASE("a tokenizer has a bounded number of rules, and what they look for is short") {
  const Json digits{{"type", "Digits"}, {"individual_digits", true}};
  const Json fuse{{"type", "Fuse"}};
  CHECK_THAT(
      refusal_of_sections({{"normalizer", sequence("normalizers", times(257, replace("x", "x")))}}),
      ContainsSubstring("$.normalizer.normalizers[256]: more than 256 rules"));
  CHECK_THAT(
      refusal_of_sections({{"pre_tokenizer", sequence("pretokenizers", times(257, digits))}}),
      ContainsSubstring("$.pre_tokenizer.pretokenizers[256]: more than 256 rules"));
  CHECK_THAT(refusal_of_sections({{"decoder", sequence("decoders", times(257, fuse))}}),
             ContainsSubstring("$.decoder.decoders[256]: more than 256 rules"));
  CHECK_THAT(refusal_of_sections({{"normalizer", replace(std::string(4097, 'a'), "")}}),
             ContainsSubstring("$.normalizer.pattern.String: a pattern of more than 4096 bytes"));
}

TEST_CASE("a token's id is in keeping with the number of tokens") {
  Json vocabulary = byte_tokens();
  vocabulary["|"] = 10'000'000;
  const Json model{{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}};
  CHECK_THAT(refusal_of_sections({{"model", model}}),
             ContainsSubstring("$.model.vocab: the id 10000000 is too large for a vocabulary"));
  const Json token{{"id", 10'000'000}, {"content", "|"}, {"special", true}};
  CHECK_THAT(refusal_of_sections({{"added_tokens", {token}}}),
             ContainsSubstring("$.added_tokens: the id 10000000 is too large for a vocabulary"));
}

// std::string's own search would compare 10^10 bytes.
TEST_CASE("a pattern that all but stands everywhere is searched in one pass") {
  const std::string pattern = std::string(4000, 'a') + 'b';
  const Json behind{{"type", "Split"},
                    {"pattern", {{"String", pattern}}},
                    {"behavior", "MergedWithPrevious"},
                    {"invert", false}};
  const ScratchFolder folder;
  const auto tokenizer = Tokenizer::load(
      folder.write("tokenizer.json", file_with({{"normalizer", replace(pattern, "c")},
                                                {"pre_tokenizer", behind},
                                                {"decoder", replace(pattern, "c")}})));
  EncodeCache cache;
  Ids ids;
  tokenizer->encode(std::string(3'000'000, 'a'), {}, cache, ids);
  CHECK(ids == Ids(3'000'000, 0));
  CHECK(tokenizer->decode(Ids(1000, 0)) == std::string(1000, 'a'));
}

}  // namespace strata
