// Tests of UTF-8 and of the normal form C, the latter against Hugging Face tokenizers. Categories
// are compared by the splitters that read them (splitter_test.cpp).

#include "tokenizer/unicode.h"

#include "support/catch.h"
#include "tokenizer/reference.h"

namespace strata {
namespace {

using nlohmann::json;
using reference::Texts;

/// Normal forms of a block; checks beside that the quick check says nothing wrong of them.
std::string checksum_of_normal_forms(const Texts& texts) {
  reference::Checksum checksum;
  for (const std::string& text : texts) {
    const std::string normal = nfc(text);
    if (is_nfc_quick(text) && normal != text) FAIL_CHECK("the quick check is wrong: " << text);
    if (nfc(normal) != normal) FAIL_CHECK("not a normal form: " << normal);
    checksum.add(normal);
  }
  return checksum.hex();
}

void compare_nfc_code_points(std::size_t step) {
  const json expected = reference::load()["nfc"]["code_points"];
  REQUIRE(expected.size() == 272);
  for (std::size_t block = 0; block < expected.size(); block += step) {
    INFO("block " << block);
    CHECK(checksum_of_normal_forms(reference::code_points(block)) ==
          expected[block].get<std::string>());
  }
}

void compare_nfc_texts(std::size_t step) {
  const json loaded = reference::load();
  const Texts alphabet = loaded["normal_alphabet"];
  const json expected = loaded["nfc"]["texts"];
  REQUIRE(expected.size() == 100);
  for (std::size_t block = 0; block < expected.size(); block += step) {
    INFO("block " << block);
    const Texts texts = reference::random_texts(alphabet, block);
    CHECK(checksum_of_normal_forms(texts) == expected[block].get<std::string>());
  }
}

}  // namespace

TEST_CASE("every scalar value survives UTF-8") {
  for (char32_t value = 0; value < 0x110000; ++value) {
    if (value >= 0xd800 && value < 0xe000) continue;
    std::string utf8;
    append_utf8(value, utf8);
    const CodePoint read = decode_utf8(utf8.data());
    if (read.value != value || read.bytes != utf8.size())
      FAIL_CHECK("U+" << std::hex << static_cast<std::uint32_t>(value));
  }
}

TEST_CASE("UTF-8 has its bytes in the order of RFC 3629") {
  std::string utf8;
  for (const char32_t value : {U'A', U'\u00e9', U'\u20ac', U'\U0001f600'}) append_utf8(value, utf8);
  CHECK(utf8 == "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
}

TEST_CASE("characters have the categories of Unicode") {
  CHECK((is_letter(U'a') && is_letter(U'\u65e5') && is_letter(U'\u01c5') && !is_letter(U'1')));
  CHECK((is_number(U'7') && is_number(U'\u00bd') && is_number(U'\u2167') && !is_number(U'x')));
  CHECK((is_mark(U'\u0301') && !is_mark(U'e')));
  CHECK((is_punctuation(U'!') && is_punctuation(U'\u3002') && !is_punctuation(U'$')));
  CHECK((is_symbol(U'$') && is_symbol(U'\U0001f600') && !is_symbol(U'!')));
  CHECK((is_space(U' ') && is_space(U'\u0085') && is_space(U'\u3000') && !is_space(U'\u180e')));
  CHECK(has_category(U'\u01c5', unicode::kUpper));
  CHECK_FALSE(has_category(U'\u02b0', unicode::kUpper | unicode::kLower));
}

TEST_CASE("the quick check of ASCII, Hangul and ordered marks needs no second look") {
  CHECK(is_nfc_quick(""));
  CHECK(is_nfc_quick("plain text\n"));
  CHECK(is_nfc_quick("\uac00\uac01 \u65e5\u672c \u00e9"));
  CHECK(is_nfc_quick("\u0e01\u0e38\u0e48"));        // Thai: classes 103, 107
  CHECK_FALSE(is_nfc_quick("\u0e01\u0e48\u0e38"));  // and in the wrong order
  CHECK_FALSE(is_nfc_quick("e\u0301"));
}

TEST_CASE("letters and marks compose") {
  CHECK(nfc("e\u0301 A\u030a\u0323 \u1100\u1161\u11a8 \u212b") ==
        "\u00e9 \u1ea0\u030a \uac01 \u00c5");
  CHECK(nfc("\u0301e") == "\u0301e");
  CHECK(nfc("\u0958") == "\u0915\u093c");  // excluded from composition
  CHECK(nfc("").empty());
}

TEST_CASE("some normal forms of code points are those of the reference") {
  compare_nfc_code_points(13);
}
TEST_CASE("some normal forms of random texts are those of the reference") { compare_nfc_texts(10); }
TEST_CASE("all normal forms of code points are those of the reference", "[long]") {
  compare_nfc_code_points(1);
}
TEST_CASE("normal forms of 200,000 random texts are those of the reference", "[long]") {
  compare_nfc_texts(1);
}

}  // namespace strata
