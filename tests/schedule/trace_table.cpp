// Prints what a table of configs submits: for each a digest of the canonical trace of its steps,
// and with --output a file of every trace. Two versions of the program that print the same table
// submit the same work in the same order, on the same bytes, after the same waits. It is a program
// and no test: a change that means to change what is submitted changes the table.

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "modes.h"
#include "strata/base/log.h"

namespace strata::test {
namespace {

std::uint64_t digest(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

int run(const std::filesystem::path& output) {
  for (const Mode& mode : state_modes()) {
    Recorder recorder;
    trace_run(recorder, mode.config, mode.ranks);
    const std::string text = recorder.canonical();
    std::printf("%-72s %6zu %016" PRIx64 "\n", mode.name.c_str(), recorder.records().size(),
                digest(text));
    if (output.empty()) continue;
    std::filesystem::create_directories(output);
    std::ofstream(output / (mode.name + ".txt")) << text;
  }
  return 0;
}

}  // namespace
}  // namespace strata::test

int main(int count, char** arguments) {
  const bool writes = count == 3 && std::string_view(arguments[1]) == "--output";
  if (count != 1 && !writes) {
    std::fputs("usage: trace_table [--output FOLDER]\n", stderr);
    return 2;
  }
  strata::log::configure(0, 1, "");  // to standard error: lines of the log have the time in them
  return strata::test::run(writes ? arguments[2] : "");
}
