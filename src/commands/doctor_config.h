// What `doctor` says of a run that is to be made on this machine: is the config right, are model
// and data there, does it fit, and has the disk room for what it saves?

#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "strata/commands/commands.h"
#include "strata/doctor/examine_machine.h"
#include "strata/doctor/finding.h"

namespace strata {

/// What was found of a run.
struct ExaminedRun {
  std::vector<Finding> findings;
  std::filesystem::path folder = ".";  ///< that it writes to; of a config that is wrong, this one
  std::optional<SavedBytes> saves{};   ///< absent: it saves nothing, or it does not fit
};

/// Looks at a run, which has a config to load. Takes none of the memory that the run would take,
/// and writes nothing. What is wrong with the run is found and not thrown; ranks that cannot be are
/// a ConfigError.
[[nodiscard]] ExaminedRun examine_run(const DoctorRun& run);

}  // namespace strata
