// Looks at everything of a machine that a run depends on, and says what would go wrong there.
// `doctor` prints it. Facts are read from places that tests can replace, and judged by functions
// that know nothing but facts.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "strata/base/version.h"
#include "strata/checkpoint/disk_probe.h"
#include "strata/checkpoint/files.h"
#include "strata/comm/launcher.h"
#include "strata/device/device.h"
#include "strata/doctor/finding.h"

namespace strata {

/// What a run has on the disk.
struct SavedBytes {
  std::uint64_t one = 0;  ///< of one checkpoint
  std::uint64_t all = 0;  ///< the most at a time: those that stay, and one that is being written
};

/// Where facts of a machine come from.
struct MachineSources {
  std::filesystem::path root = "/";             ///< the folder that holds proc and sys
  std::filesystem::path folder = ".";           ///< where checkpoints are to be written
  std::optional<SavedBytes> saves{};            ///< into that folder; absent: nobody knows
  ProbeSize probe{};                            ///< what is written there to see how fast it is
  Files* files = nullptr;                       ///< write there; must outlive the examination
  Environment environment{};                    ///< its PATH has nvidia-smi and mpirun
  std::optional<std::size_t> lockable_bytes{};  ///< this process may lock; absent: no limit
  BuildInfo build{};                            ///< the program's
  std::string mpi{};                  ///< what the program's MPI calls itself; empty: it has none
  std::string nccl{};                 ///< the library's name, or its file
  std::vector<DeviceInfo> devices{};  ///< the GPUs that the program can use
  bool measure = true;                ///< the rates of memory and links, which takes seconds
  double answer_s = 20;               ///< that a program may take for an answer
};

/// Returns the sources of the machine that the program runs on. `files` are this machine's.
[[nodiscard]] MachineSources this_machine(Files& files);

/// Returns what was found, in the order in which a person reads it: the program, GPUs, the host,
/// the disk, and what starts ranks. Blocks for some seconds. What a broken machine causes is found
/// and not thrown.
[[nodiscard]] std::vector<Finding> examine_machine(const MachineSources& sources);

}  // namespace strata
