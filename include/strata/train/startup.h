// These figures say how long the start of a run took, part by part. The session fills it in;
// `train` and `bench` print it and write it to their files.

#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata {

/// Says, in seconds, where the time from the start of the process to the first step went.
struct StartupTimes {
  double program_s = 0;  ///< until the session began: program, config, launcher
  double machine_s = 0;  ///< device, lanes, libraries, threads
  double data_s = 0;     ///< opening the data sets
  double plans_s = 0;    ///< of matrix products, measured or read, and of memory
  double device_s = 0;   ///< taking device memory
  double pinned_s = 0;   ///< taking pinned memory
  double stores_s = 0;   ///< pageable memory and all that is made of the three
  double weights_s = 0;  ///< drawing or reading weights, zeroing the rest of the state
  double begun_s = 0;    ///< the process's age when the first step was submitted, its batch read
  double ended_s = 0;    ///< and when its loss and norm were known; 0: not yet
};

/// Returns every figure with the name that it has in JSON; the names are literals.
[[nodiscard]] std::vector<std::pair<std::string_view, double>> parts_of(const StartupTimes& times);
/// Returns "first step after 13.2 s (program 0.3, machine 2.1, ...), its end after 19.0 s".
[[nodiscard]] std::string to_string(const StartupTimes& times);

}  // namespace strata
