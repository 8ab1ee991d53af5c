// What the metrics of a run tell of what it had last: for a start that finds no checkpoint of it.
#pragma once

#include <filesystem>
#include <string>

namespace strata {

struct PastRun {
  bool has_lines = false;  ///< of steps, or such as nobody understands
  std::string checkpoint;  ///< that the run had last, in words; empty: none
};

/// Reads a file of metrics. Throws IoError if it cannot be read.
[[nodiscard]] PastRun read_past_run(const std::filesystem::path& metrics);

}  // namespace strata
