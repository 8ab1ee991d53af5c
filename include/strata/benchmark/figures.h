// What is taken from the JSON of one `strata bench`, of steps or of generation, and what several
// runs of a row say together: their median and their spread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/fields.h"

namespace strata {

/// Returns the median of at least one value.
[[nodiscard]] double median(std::vector<double> values);
/// Returns the range of values over their median, or nothing for fewer than two of them.
[[nodiscard]] std::optional<double> spread(const std::vector<double>& values);

/// The figures of one run.
struct BenchFigures {
  double tokens_per_s = 0;
  std::optional<double> mfu;
  std::optional<double> step_s;                 ///< the median of the measured steps
  std::optional<double> predicted_of_measured;  ///< time that was predicted, as a share of measured
  std::size_t device_planned_bytes = 0;
  std::size_t device_bytes = 0;
  std::size_t host_planned_bytes = 0;
  std::size_t host_bytes = 0;
  std::int64_t races = 0;
  std::string device;
  std::string version;
  std::string commit;
  std::int64_t ranks = 1;
  /// What was run and how it was placed, by the keys of the JSON: two runs that differ here
  /// measured different things.
  std::vector<FieldText> facts;
};

/// Reads the JSON of a bench. Throws ConfigError, beginning with `place`, if it is none.
[[nodiscard]] BenchFigures read_bench(std::string_view json, const std::string& place);
/// Returns whether a text is the JSON of a bench, whole or not.
[[nodiscard]] bool is_bench(std::string_view json);

/// The figures of all runs of a row that have some: medians, and the most of measured memory.
struct RowFigures {
  std::vector<double> tokens_per_s;  ///< of each run
  BenchFigures middle;
  std::optional<double> spread;
};
/// Returns nothing if there are no runs.
[[nodiscard]] std::optional<RowFigures> summarise(std::span<const BenchFigures> runs);

}  // namespace strata
