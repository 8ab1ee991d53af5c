// Has test cases that end in every way in which cases end, by names that are hard to select. The
// self-test of scripts/test_gpu.py runs them, and knows how each ends; they are
// hidden, so that nobody else does.

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "support/catch.h"

TEST_CASE("a name, with commas, as sentences have them", "[.][planted]") { CHECK(true); }

TEST_CASE("a \"quoted\" word", "[.][planted]") { CHECK(true); }

TEST_CASE("[brackets] begin this name, and [more] follow", "[.][planted]") { CHECK(true); }

TEST_CASE("a \\ within, and one at the end \\", "[.][planted]") { CHECK(true); }

TEST_CASE("~ excludes, and \\\", confuses", "[.][planted]") { CHECK(true); }

TEST_CASE("# begins a comment in files of names", "[.][planted]") { CHECK(true); }

TEST_CASE("a name", "[.][planted]") { CHECK(true); }

TEST_CASE("fails", "[.][planted]") { CHECK(false); }

TEST_CASE("is skipped", "[.][planted]") {
  WARN("skipped: there is nothing that this case could test on the machine where it runs");
}

TEST_CASE("is aborted", "[.][planted]") { std::abort(); }

TEST_CASE("ends the program", "[.][planted]") { std::_Exit(0); }

TEST_CASE("is long, so it begins first", "[.][planted][slow]") { CHECK(true); }

TEST_CASE("sees one GPU", "[.][planted]") {
  const char* gpus = std::getenv("CUDA_VISIBLE_DEVICES");
  REQUIRE(gpus != nullptr);
  CHECK((gpus == std::string("first") || gpus == std::string("second")));
}

TEST_CASE("runs alone", "[.][planted][alone]") { CHECK(true); }

TEST_CASE("runs alone as well, after another one", "[.][planted][alone]") { CHECK(true); }

TEST_CASE("hangs", "[.][hangs]") { std::this_thread::sleep_for(std::chrono::minutes(10)); }
