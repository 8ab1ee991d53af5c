// The limits that a plan has to stay within: those of the config and, where it has none, those that
// were found on the machine. `plan` fills a Budget by hand for a machine that is not there; what
// may be done with what is left is the business of Room.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "strata/base/host_memory.h"
#include "strata/comm/ranks.h"
#include "strata/config/config.h"
#include "strata/device/device.h"

namespace strata {

/// What the planner knows of the machine, in bytes unless a name says otherwise.
struct Budget {
  std::optional<std::size_t> device_limit{};  ///< everything the process takes on the device
  std::string device_limit_origin = "memory.device_limit";  ///< who set it
  std::size_t device_overhead = 0;          ///< of it: context and libraries, measured or estimated
  std::optional<std::size_t> host_limit{};  ///< everything the process takes on the host
  std::string host_limit_origin = "memory.host_limit";
  std::optional<std::size_t> host_available{};  ///< estimated, and perhaps too low
  std::size_t host_overhead = 0;                ///< program, libraries, driver
  double peak_tflops = 0;                       ///< dense bf16, of the device; 0: unknown
  double link_gbs = 50;         ///< copies each way while both run, beside other ranks
  bool device_is_host = false;  ///< the cpu backend: device memory is host memory
  int ranks_on_host = 1;        ///< they share its memory's rate, for predictions
};

/// Returns two lines with all bytes of both memories beside what the budget has.
[[nodiscard]] std::string totals_text(std::size_t device_bytes, std::size_t host_bytes,
                                      const Budget& budget);

/// What a rank found before it took memory for its run.
struct MachineMemory {
  DeviceInfo device;
  std::size_t device_in_use = 0;  ///< by this process
  HostMemory host;
  std::size_t resident = 0;  ///< host memory of this process
  int sharers = 1;           ///< ranks that share the host's memory, this one included
  int ranks_on_host = 1;     ///< those in the same control group, and in others
};

/// Returns the name of the device by which all ranks predict, so that they choose alike: that of
/// rank 0. All ranks call it; it blocks.
[[nodiscard]] std::string agree_on_device(const std::string& own, Ranks& ranks);

/// Returns what this rank finds. It is collective: every rank calls it before any of them takes
/// memory.
[[nodiscard]] MachineMemory measure_machine(Device& device, Ranks& ranks);

/// Returns the limits of the config and, where it has none, what is free now. What a control group
/// leaves is a limit; what the system calls available is only an estimate. A device whose memory is
/// 0 is none in particular, and has no limit of its own.
[[nodiscard]] Budget make_budget(const MemorySection& limits, const MachineMemory& machine);

/// Returns the tightest of the ranks' budgets in everything: the least limits and rates, the
/// greatest overheads, the most ranks on a host. A limit says which rank it comes from, if the
/// others' are higher.
[[nodiscard]] Budget least_of(const std::vector<Budget>& ranks);
/// Returns the tightest budget of all ranks, by which all of them plan alike. All ranks call it; it
/// blocks.
[[nodiscard]] Budget agree_on_budget(const Budget& own, Ranks& ranks);

}  // namespace strata
