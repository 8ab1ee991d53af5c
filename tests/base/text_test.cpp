// Tests that texts are cut and broken where people expect it.

#include "strata/base/text.h"

#include <cstdlib>
#include <string>

#include "support/catch.h"

namespace strata {
namespace {

TEST_CASE("a long text is cut between characters, a short one is left alone") {
  CHECK(shortened("short") == "short");
  CHECK(shortened(std::string(80, 'x')) == std::string(80, 'x'));
  CHECK(shortened(std::string(81, 'x')) == std::string(77, 'x') + "...");
  // The 77th byte would be the first half of a character.
  CHECK(shortened(std::string(76, 'x') + "\xc3\xa4" + std::string(9, 'x')) ==
        std::string(76, 'x') + "...");
}

TEST_CASE("control characters are shown, not obeyed") {
  CHECK(printable("a\tname\n") == "a\tname\n");
  CHECK(printable("\x1b[31m\x07\x7f") == "\\x1b[31m\\x07\\x7f");
  CHECK(printable("\xc3\xa4") == "\xc3\xa4");
}

TEST_CASE("a long line of help goes on below its last column") {
  CHECK(wrapped_lines("short\n  --set KEY  change a key of it\n", 25) ==
        "short\n  --set KEY  change a key\n             of it\n");
  CHECK(wrapped_lines("some words without a column", 12) == "some words\nwithout a\ncolumn\n");
}

TEST_CASE("help is as wide as COLUMNS says, within bounds") {
  const char* before = getenv("COLUMNS");
  const std::string kept = before != nullptr ? before : "";
  const auto columns = [](const char* text) {
    setenv("COLUMNS", text, 1);
    return help_columns();
  };
  CHECK(columns("60") == 60);
  CHECK(columns("7") == 40);
  CHECK(columns("500") == 100);
  CHECK(columns("wide") >= 40);
  before != nullptr ? setenv("COLUMNS", kept.c_str(), 1) : unsetenv("COLUMNS");
}

}  // namespace
}  // namespace strata
