// Tests that the writers of a slow disk share its rate, and that their bytes arrive.

#include "strata/checkpoint/throttled_files.h"

#include <chrono>
#include <thread>
#include <vector>

#include "checkpoint/memory_files.h"
#include "support/catch.h"

namespace strata {
namespace {

TEST_CASE("all writers of throttled files together keep to the rate") {
  constexpr std::size_t kEach = 500'000;
  MemoryFiles memory("/runs");
  ThrottledFiles files(memory, 0.01);
  const std::vector<std::byte> bytes(kEach, std::byte{7});
  const auto begin = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> writers;
    for (const char* name : {"/runs/a", "/runs/b"}) {
      writers.emplace_back([&, name] { write_whole(files, name, bytes); });
    }
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  CHECK(taken.count() >= 2 * kEach / 0.01e9);  // they may take any longer
  for (const char* name : {"/runs/a", "/runs/b"}) {
    CHECK(read_whole(files, name, kEach) == std::string(kEach, '\7'));
  }
}

}  // namespace
}  // namespace strata
