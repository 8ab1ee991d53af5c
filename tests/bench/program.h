// What the benchmark programs have in common as programs: arguments, results as JSON, and main.
#pragma once

#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "strata/base/json.h"

namespace strata::bench {

struct Options {
  std::string only;  ///< part of the name of what to measure
  std::string json;  ///< file for the results; empty: none
};

/// Reads "[--only TEXT] [--json FILE]".
[[nodiscard]] inline Options parse_options(std::string_view program, int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view key(argv[i]);
    if (i + 1 == argc || (key != "--only" && key != "--json")) {
      throw std::runtime_error("usage: " + std::string(program) + " [--only TEXT] [--json FILE]");
    }
    (key == "--only" ? options.only : options.json) = argv[i + 1];
  }
  return options;
}

/// Does nothing without a file name.
inline void write_json(const std::string& path, const nlohmann::json& results) {
  if (path.empty()) return;
  std::ofstream file(path);
  file << json_text(results, 2) << '\n';
  file.close();
  if (!file) throw std::runtime_error("--json: cannot write " + path);
}

/// Calls `run` and turns an exception into a line on stderr and exit code 1.
template <class Run>
[[nodiscard]] int run_program(const char* program, const Run& run) {
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return 1;
  }
}

}  // namespace strata::bench
