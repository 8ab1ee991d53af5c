// What `tune` prints for people: what the search takes for granted, the table of the best
// candidates, and what was chosen.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include "strata/commands/commands.h"
#include "strata/device/device.h"
#include "strata/plan/tune.h"
#include "strata/train/tuned_runs.h"

namespace strata {

/// Prints what a person reads: beside JSON on standard output it goes to standard error.
class TunePage {
 public:
  explicit TunePage(const TuneOptions& options)
      : to_(options.plan.json == kStandardOutput ? stderr : stdout) {}
  void print(const std::string& text) const;

 private:
  std::FILE* to_;
};

/// Returns what the search takes for granted of the machine and of a step.
[[nodiscard]] std::string premises_text(const TuneModel& model, const TuneSpace& space,
                                        const DeviceInfo& device, const PlannedRank& planned);
/// Returns how many candidates there were, and the table of the best.
[[nodiscard]] std::string found_text(const TuneResult& result);
/// Returns the head of the table of what was measured, the median of so many steps each.
[[nodiscard]] std::string measured_head(std::int64_t steps);
/// Returns a line of that table.
[[nodiscard]] std::string measured_text(std::size_t place, const TunedRun& run);
/// Returns what was chosen, as `--set` takes it, and what a reader should know about the timing if
/// that was searched.
[[nodiscard]] std::string chosen_text(const TuneModel& model, const TuneSpace& space,
                                      const TuneKeys& chosen);

}  // namespace strata
