// The machine that `plan` and `tune` answer for: it may be this one, or one that exists on paper.
// Of the GPU they need the name, of the ranks how many there are and where.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "strata/comm/rank_groups.h"
#include "strata/comm/ranks.h"
#include "strata/commands/commands.h"
#include "strata/config/config.h"
#include "strata/device/device.h"
#include "strata/plan/budget.h"

namespace strata {

/// Returns the backend that a plan is made for: "auto" plans for a GPU, because that is what people
/// ask a plan for.
[[nodiscard]] BackendChoice planned_backend(const RunConfig& config);

/// Returns the device of the plan: that of `--gpu`, or this machine's, or one without a name and
/// without a limit of memory.
[[nodiscard]] DeviceInfo planned_device(BackendChoice backend, const std::string& gpu);

/// Returns a machine with this device on which nobody else takes memory. Nothing is known of its
/// host.
[[nodiscard]] MachineMemory planned_machine(BackendChoice backend, DeviceInfo device);

/// Returns the rank that is planned for by `command`: that of a launcher, or rank 0 of --ranks.
/// Throws ConfigError if the options contradict it or each other.
[[nodiscard]] std::unique_ptr<Ranks> planned_ranks(std::string_view command,
                                                   const PlanOptions& options);

/// Returns how many ranks a host has: of those on paper all, if nobody says otherwise.
[[nodiscard]] int ranks_on_host(const PlanOptions& options, Ranks& ranks);

/// Returns the place of the first rank; on paper all hosts have as many ranks.
[[nodiscard]] GroupPlace planned_place(const RunConfig& config, const PlanOptions& options,
                                       Ranks& ranks);

/// Returns the threads that the ranks of a host have together; nothing for the host of a GPU that
/// is named, unless the config says how many. All ranks of a launcher call it.
[[nodiscard]] std::optional<std::int64_t> planned_threads(const RunConfig& config,
                                                          const PlanOptions& options, Ranks& ranks);

/// Returns a line about the device that the plan is made for; empty where there is nothing to say.
[[nodiscard]] std::string device_text(const DeviceInfo& device);

}  // namespace strata
