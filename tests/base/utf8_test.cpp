// Tests UTF-8 against the table of the Unicode standard.

#include "strata/base/utf8.h"

#include <random>
#include <string>
#include <string_view>

#include "strata/base/json.h"
#include "support/catch.h"

namespace strata {
namespace {

TEST_CASE("UTF-8 is what the Unicode standard says it is") {
  for (const char* good : {"", "ascii only, longer than eight", "\xc2\x80", "\xdf\xbf",
                           "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf",
                           "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "eight by\xe2\x82\xac"}) {
    INFO(good);
    CHECK(valid_utf8_bytes(good) == std::string_view(good).size());
  }
  for (const char* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2x", "\xe0\x9f\xbf",
                          "\xed\xa0\x80", "\xe2\x82", "\xe2\x82x", "\xf0\x8f\xbf\xbf",
                          "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "12345678\xff"}) {
    INFO(bad);
    CHECK(valid_utf8_bytes(bad) < std::string_view(bad).size());
  }
}

TEST_CASE("what is not UTF-8 becomes U+FFFD as in JSON that is written with replacements") {
  std::mt19937 random(7);
  // Bytes that begin, continue and spoil characters, often enough to meet all ways of going wrong.
  constexpr std::string_view kBytes =
      "ab\x80\x8f\x9f\xa0\xbf\xc1\xc3\xe0\xe2\xed\xef\xf0\xf1\xf4\xf5\xff";
  for (int i = 0; i < 20'000; ++i) {
    std::string text(1 + random() % 12, ' ');
    for (char& byte : text) byte = kBytes[random() % kBytes.size()];
    const nlohmann::json json = text;
    const auto written = json_text(json, kOneLine, NotUtf8::kReplace);
    REQUIRE(with_valid_utf8(text) == parse_json<nlohmann::json>(written).get<std::string>());
  }
  CHECK(with_valid_utf8("").empty());
  CHECK(with_valid_utf8("\xe2\x82\xac and \xe2\x82") == "\xe2\x82\xac and \xef\xbf\xbd");
}

}  // namespace
}  // namespace strata
