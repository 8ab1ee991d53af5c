// Looks at everything of a machine that a run depends on, and says what would go wrong there.
// `doctor` prints it. Facts are read from places that tests can replace, and judged by functions
// that know nothing but facts.

#pragma once

#include <filesystem>
#include <vector>

#include "strata/doctor/finding.h"

namespace strata {

/// Where facts of a machine come from.
struct MachineSources {
  std::filesystem::path root = "/";    ///< the folder that holds proc and sys
  std::filesystem::path folder = ".";  ///< where checkpoints are to be written
};

/// Returns what was found, in the order in which a person reads it: the program, GPUs, the host,
/// the disk, and what starts ranks. Blocks for some seconds; throws nothing that a broken machine
/// causes.
[[nodiscard]] std::vector<Finding> examine_machine(const MachineSources& sources);

}  // namespace strata
