// Compares the hand-written splitters with the expressions as Hugging Face tokenizers and tiktoken
// read them: tricky texts piece by piece, every code point in contexts, and 200,000 random texts.

#include "tokenizer/splitter.h"

#include <set>

#include "support/catch.h"
#include "tokenizer/reference.h"

namespace strata {
namespace {

using nlohmann::json;
using reference::Texts;

SplitPattern pattern_of(const json& expected) {
  const bool is_tiktoken = expected["dialect"] == "tiktoken";
  return split_pattern_of(expected["regex"].get<std::string>(),
                          is_tiktoken ? RegexDialect::kTiktoken : RegexDialect::kHuggingFace)
      .value();
}

Texts pieces_of(SplitPattern pattern, std::string_view text) {
  Texts pieces;
  split(pattern, text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

std::string checksum_of(SplitPattern pattern, const Texts& texts) {
  reference::Checksum checksum;
  for (const std::string& text : texts) {
    split(pattern, text, [&](std::string_view piece) { checksum.add(piece); });
  }
  return checksum.hex();
}

/// Compares every `step`th block of texts for every pattern.
template <class TextsOfBlock>
void compare_blocks(const json& patterns, const char* kind, std::size_t step,
                    const TextsOfBlock& texts_of_block) {
  const std::size_t blocks = patterns["gpt2"][kind].size();
  REQUIRE(blocks >= 100);
  for (std::size_t block = 0; block < blocks; block += step) {
    const Texts texts = texts_of_block(block);
    for (const auto& [name, expected] : patterns.items()) {
      INFO(name << ", block " << block << " of " << kind);
      const std::string checksum = expected[kind][block];
      CHECK(checksum_of(pattern_of(expected), texts) == checksum);
    }
  }
}

void compare_code_points(std::size_t step) {
  compare_blocks(reference::load()["patterns"], "code_points", step, reference::code_points);
}

void compare_random_texts(std::size_t step) {
  const json expected = reference::load();
  const Texts alphabet = expected["alphabet"];
  compare_blocks(expected["patterns"], "texts", step,
                 [&](std::size_t block) { return reference::random_texts(alphabet, block); });
}

}  // namespace

TEST_CASE("every pattern is known by its text, and the reference has all of them") {
  const json expected = reference::load()["patterns"];
  std::set<SplitPattern> patterns;
  for (const auto& [name, one] : expected.items()) {
    INFO(name);
    patterns.insert(pattern_of(one));
    std::string regex = one["regex"];
    CHECK(split_pattern_of(regex_of(pattern_of(one)), RegexDialect::kTiktoken) == pattern_of(one));
    CHECK_FALSE(split_pattern_of(regex + "|x", RegexDialect::kTiktoken).has_value());
  }
  CHECK(patterns.size() == kSplitPatterns);
}

TEST_CASE("a text that only tiktoken reads so is unknown to the other dialect") {
  const std::string_view cl100k = regex_of(SplitPattern::kCl100k);
  CHECK(split_pattern_of(cl100k, RegexDialect::kTiktoken) == SplitPattern::kCl100k);
  CHECK_FALSE(split_pattern_of(cl100k).has_value());
}

TEST_CASE("tricky texts fall into the pieces of the reference") {
  const json expected = reference::load()["patterns"];
  for (const auto& [name, one] : expected.items()) {
    INFO(name);
    for (const Texts pieces : one["tricky"]) {
      std::string text;
      for (const std::string& piece : pieces) text += piece;
      CHECK(pieces_of(pattern_of(one), text) == pieces);
    }
  }
}

TEST_CASE("an empty text has no pieces") {
  CHECK(pieces_of(SplitPattern::kLlama3, "").empty());
  CHECK(pieces_of(SplitPattern::kLlama3, {}).empty());
}

TEST_CASE("offsets of pieces are those of split") {
  const std::string text = "I've 12345 é\n\n  x";
  std::size_t begin = 0;
  for (const std::string& piece : pieces_of(SplitPattern::kO200k, text)) {
    const std::size_t end = end_of_piece(SplitPattern::kO200k, text, begin);
    CHECK(text.substr(begin, end - begin) == piece);
    begin = end;
  }
  CHECK(begin == text.size());
}

TEST_CASE("some code points in contexts split as in the reference") { compare_code_points(13); }
TEST_CASE("some random texts split as in the reference") { compare_random_texts(10); }
TEST_CASE("every code point in contexts splits as in the reference", "[long]") {
  compare_code_points(1);
}
TEST_CASE("200,000 random texts split as in the reference", "[long]") { compare_random_texts(1); }

}  // namespace strata
