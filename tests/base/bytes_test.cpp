// Tests that sizes are read and written with the right units and to the last byte, against values
// written out by hand.

#include "strata/base/bytes.h"

#include <cstdint>
#include <string>

#include "strata/base/error.h"
#include "support/catch.h"

using namespace strata;

TEST_CASE("sizes are read with binary and decimal units") {
  CHECK(parse_bytes("4096") == 4096);
  CHECK(parse_bytes("17B") == 17);
  CHECK(parse_bytes("24GiB") == 25769803776u);
  CHECK(parse_bytes("512 MiB") == 536870912u);
  CHECK(parse_bytes("3KiB") == 3072);
  CHECK(parse_bytes("2GB") == 2000000000u);
  CHECK(parse_bytes("1.5TiB") == 1649267441664u);
  CHECK(parse_bytes("0.5 KB") == 500);
  CHECK(parse_bytes("0") == 0);
  CHECK(parse_bytes("18446744073709551615") == SIZE_MAX);
}

TEST_CASE("what is not a size is refused by name") {
  for (const std::string text :
       {"", "GiB", "-1", "1.5", "1.5B", "1e9", "12 GiBs", "1  GiB", " 1GiB", "1GiB ", "nan", "inf",
        "0x10", "1.2.3MiB", ".", "20000000TiB", "18446744073709551616", "99999999999999.5TiB"}) {
    CAPTURE(text);
    REQUIRE_THROWS_AS(parse_bytes(text), ConfigError);
    REQUIRE_THROWS_WITH(parse_bytes(text), ContainsSubstring("\"" + text + "\""));
  }
}

TEST_CASE("sizes are written in the largest unit that fits") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(17) == "17 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1024) == "1 KiB");
  CHECK(format_bytes(512 * kMiB) == "512 MiB");
  CHECK(format_bytes(24 * kGiB) == "24 GiB");
  CHECK(format_bytes(kGiB + kGiB / 2) == "1.50 GiB");
  CHECK(format_bytes(kGiB - 1) == "1.00 GiB");
  CHECK(format_bytes(2048 * kGiB) == "2 TiB");
}

TEST_CASE("rounding up reaches the next multiple and no further") {
  CHECK(round_up(0, 256) == 0);
  CHECK(round_up(1, 256) == 256);
  CHECK(round_up(256, 256) == 256);
  CHECK(round_up(257, 256) == 512);
  CHECK(round_up(10, 3) == 12);
}
