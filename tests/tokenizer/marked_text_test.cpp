// Marks of ids, worked out by hand for small vocabularies, and that trust is what makes special
// tokens.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "strata/tokenizer/tokenizer.h"
#include "support/catch.h"
#include "support/places.h"

namespace strata {
namespace {

using Ids = std::vector<std::int32_t>;
using Ranges = std::vector<TextRange>;

constexpr std::int32_t kEnd = 601;  // </s> of tests/golden/data/tokenizer/llama3.json

struct Encoded {
  Ids ids;
  std::vector<std::uint8_t> marks;
};

Encoded encode(const Tokenizer& tokenizer, const std::string& text, const Ranges& trusted,
               const Ranges& marked) {
  EncodeCache cache;
  Encoded result;
  tokenizer.encode_marked({.text = text, .trusted = trusted, .marked = marked}, cache, result.ids,
                          result.marks);
  REQUIRE(result.ids.size() == result.marks.size());
  return result;
}

std::string marked_text(const Tokenizer& tokenizer, const Encoded& encoded) {
  Ids ids;
  for (std::size_t i = 0; i < encoded.ids.size(); ++i) {
    if (encoded.marks[i] != 0) ids.push_back(encoded.ids[i]);
  }
  return tokenizer.decode(ids);
}

std::unique_ptr<const Tokenizer> load(const std::string& name) {
  return Tokenizer::load(test::tokenizer_goldens_folder() + '/' + name + ".json");
}

}  // namespace

TEST_CASE("marks change no ids, wherever they begin and end") {
  const std::string text =
      "The  e\u0301l\u00e8ve\u4f60 said: \"Hello\",\n\n then 123 </s> <mask> x";
  for (const std::string name :
       {"llama3", "gpt2", "llama2", "metaspace", "metaspace_first", "digits"}) {
    const auto tokenizer = load(name);
    EncodeCache cache;
    for (const bool trust : {false, true}) {
      Ids expected;
      tokenizer->encode(text, {.parse_special = trust}, cache, expected);
      for (std::size_t begin = 0; begin < text.size(); ++begin) {
        if ((text[begin] & 0xc0) == 0x80) continue;
        INFO(name << ", trusted " << trust << ", marked from " << begin);
        const Ranges trusted = trust ? Ranges{{0, text.size()}} : Ranges{};
        const Encoded found = encode(*tokenizer, text, trusted, {{begin, text.size()}});
        CHECK(found.ids == expected);
        CHECK(found.marks.back() == 1);
        CHECK(std::is_sorted(found.marks.begin(), found.marks.end()));
      }
    }
  }
}

TEST_CASE("the tokens of a marked range have at least its text, and none beside it") {
  const std::string text = "one two three, four";
  for (const std::string name : {"llama3", "gpt2", "llama2", "metaspace"}) {
    const auto tokenizer = load(name);
    // Some tokenizers put a space before a text, and decode it too.
    const Ids all = encode(*tokenizer, text, {}, {}).ids;
    const std::size_t prefix = tokenizer->decode(all).size() - text.size();
    for (std::size_t end = 1; end <= 14; ++end) {
      for (std::size_t begin = 0; begin < end; ++begin) {
        INFO(name << ", " << begin << " to " << end);
        const Encoded found = encode(*tokenizer, text, {}, {{begin, end}});
        const auto bytes_of_first = [&](std::ptrdiff_t tokens) {
          const std::size_t bytes =
              tokenizer->decode(Ids(found.ids.begin(), found.ids.begin() + tokens)).size();
          return bytes - std::min(bytes, prefix);
        };
        const auto first = std::find(found.marks.begin(), found.marks.end(), 1);
        const auto last = std::find(first, found.marks.end(), 0);
        CHECK(std::find(last, found.marks.end(), 1) == found.marks.end());
        CHECK(bytes_of_first(first - found.marks.begin()) <= begin);
        CHECK(bytes_of_first(first - found.marks.begin() + 1) > begin);
        CHECK(bytes_of_first(last - found.marks.begin()) >= end);
        CHECK(bytes_of_first(last - found.marks.begin() - 1) < end);
      }
    }
  }
}

TEST_CASE("special tokens are parsed where their text is trusted, and nowhere else") {
  const auto tokenizer = load("llama3");
  const std::string text = "a</s>b</s>";
  const Encoded found = encode(*tokenizer, text, {{6, 10}}, {{6, 10}});
  CHECK(std::count(found.ids.begin(), found.ids.end(), kEnd) == 1);
  CHECK(found.ids.back() == kEnd);
  CHECK(marked_text(*tokenizer, found) == "</s>");
  const Encoded torn = encode(*tokenizer, text, {{2, 9}}, {});
  CHECK(std::count(torn.ids.begin(), torn.ids.end(), kEnd) == 0);
  CHECK(tokenizer->decode(torn.ids) == text);
}

}  // namespace strata
