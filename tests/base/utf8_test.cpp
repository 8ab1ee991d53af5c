// Tests UTF-8 against the table of the Unicode standard.

#include "strata/base/utf8.h"

#include <string_view>

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

}  // namespace
}  // namespace strata
