// Counts the cores that a pool may use by default. Containers often limit the share of processor
// time without hiding cores, so the quotas of the control groups count as well as the affinity
// mask.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/control_groups.h"
#include "strata/base/this_thread.h"
#include "strata/base/thread_pool.h"

namespace strata {

namespace {

int cores_by_affinity() {
  const std::size_t cores = cores_of_this_thread().size();
  return static_cast<int>(cores > 0 ? cores : std::thread::hardware_concurrency());
}

/// Returns the cores that one control group folder grants, infinity if it sets no limit.
double quota_of(const std::filesystem::path& folder) {
  std::string quota;
  double period = 0;
  if (std::ifstream(folder / "cpu.max") >> quota >> period && quota != "max" && period > 0) {
    return std::strtod(quota.c_str(), nullptr) / period;  // version 2
  }
  double quota_us = 0;
  if (std::ifstream(folder / "cpu.cfs_quota_us") >> quota_us &&
      std::ifstream(folder / "cpu.cfs_period_us") >> period && quota_us > 0 && period > 0) {
    return quota_us / period;  // version 1
  }
  return INFINITY;
}

}  // namespace

double cores_by_quota(const std::filesystem::path& root) {
  double cores = INFINITY;  // the tightest of the process's own group and all groups above it
  for (const std::filesystem::path& folder : control_groups("cpu", root)) {
    cores = std::min(cores, quota_of(folder));
  }
  return cores;
}

int usable_cores() {
  // A quota of 1.5 cores does more with two threads than with one.
  const double cores = std::min(std::ceil(cores_by_quota()), double{1e6});
  return std::max(1, std::min(cores_by_affinity(), static_cast<int>(cores)));
}

}  // namespace strata
