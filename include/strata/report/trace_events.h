// The trace of two steps as a page can show it: who ran what when, on which lane. It is read of the
// Chrome trace that a run writes (docs/debugging.md), whatever its size.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace strata {

/// Work of a lane without a pause, or with one too short to be shown.
struct TraceSpan {
  double begin_us = 0;
  double end_us = 0;
  std::int32_t name = 0;   ///< in TraceEvents::names; of the first, if several were put together
  std::int32_t phase = 0;  ///< in TraceEvents::phases
  std::int32_t pass = -1;
  std::int32_t unit = -1;
  std::int32_t cell = -1;
  std::int32_t events = 1;  ///< that were put together
};

struct TraceLane {
  std::string name{};
  std::vector<TraceSpan> spans{};  ///< by begin
};

struct TraceEvents {
  std::vector<std::string> names{};
  std::vector<std::string> phases{};
  std::vector<TraceLane> lanes{};  ///< those that did something
  std::size_t events = 0;          ///< of the file
  bool whole = true;               ///< false: the file ends early, and so do the lanes

  [[nodiscard]] std::size_t spans() const;
};

/// Reads a Chrome trace event by event. A file that ends early, or that is no trace from some byte
/// on, gives the events before that. Throws IoError if it cannot be read.
[[nodiscard]] TraceEvents read_trace(const std::filesystem::path& file);

/// Puts neighbours together until at most `most` spans are left, or nothing is left to put
/// together: first those of one cell, then those of one unit, then those of one phase; and last
/// those with the shortest pauses between them.
void put_together(TraceEvents& trace, std::size_t most);

}  // namespace strata
