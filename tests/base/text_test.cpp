// Tests that texts are cut and broken where people expect it, and harm no terminal.

#include "strata/base/text.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

#include "support/catch.h"
#include "support/terminal.h"

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
  CHECK(printable("\x1b[31m\x07\x7f") == "\\x1b[31m\\x07\\u007f");
  CHECK(printable("\xc3\xa4") == "\xc3\xa4");
  CHECK(printable("a family: \U0001F469\u200D\U0001F467") ==
        "a family: \U0001F469\u200D\U0001F467");
}

TEST_CASE("controls of 8 bits, marks of direction and bytes that are no text are shown") {
  CHECK(printable("\u009b31m") == "\\u009b31m");
  CHECK(printable("\x9b"
                  "31m") == "\\x9b31m");
  CHECK(printable("\u202Egpj.exe\u202C") == "\\u202egpj.exe\\u202c");
  CHECK(printable("\u061C\u200E\u2028\u2066") == "\\u061c\\u200e\\u2028\\u2066");
  CHECK(printable("caf\xe9 \xc3") == "caf\\xe9 \\xc3");
  CHECK(printable("\u00A0\u061B\u2027\u202F\u2065") == "\u00A0\u061B\u2027\u202F\u2065");
}

TEST_CASE("a name stays on its line, and lines of a message below its first") {
  CHECK(printable_name("a\tname\r\n\x1b[31m") == "a\\tname\\x0d\\n\\x1b[31m");
  CHECK(printable_message("2 problems:\n  one\ntwo\n\nthree\n") ==
        "2 problems:\n  one\n  two\n\n  three\n");
}

TEST_CASE("a file gets a text as it is, and a terminal gets it printable") {
  const test::Terminal terminal(80);
  CHECK(printable_for(terminal.side(), "\x1b[31mred\n") == "\\x1b[31mred\n");
  std::array<int, 2> pipe_ends{};
  REQUIRE(pipe(pipe_ends.data()) == 0);
  CHECK(printable_for(pipe_ends[1], "\x1b[31mred\n") == "\x1b[31mred\n");
  for (const int end : pipe_ends) close(end);
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
