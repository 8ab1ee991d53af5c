// The rates that predictions are made with: those of devices that were measured, and those that a
// config gives under `hardware`. `bench` turns a trace into such rates for a device that is new.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "strata/config/config.h"
#include "strata/device/rates.h"
#include "strata/plan/lane_report.h"

namespace strata {

/// Name of the device whose rates a plan is made with where there is no device.
inline constexpr std::string_view kPlannedDevice = "NVIDIA H200";

/// The rates of a device, or why they are not known.
struct KnownRates {
  Rates rates;
  std::string missing;  ///< empty: they are known
};

/// Returns what was measured on a device of this name, where `hardware` says nothing else. The
/// rates of a device that nobody has measured are known if `hardware` gives all of them.
[[nodiscard]] KnownRates known_rates(std::string_view device, const HardwareSection& hardware);

/// Returns the rates that traced work had, as `hardware` takes them: with them predictions are
/// those of the device that was measured. A rate is absent where there was no such work. `length`
/// is that of attention's rows in tokens.
[[nodiscard]] HardwareSection measured_rates(std::span<const WorkReport> work, std::int64_t length,
                                             std::int64_t head_dim);

}  // namespace strata
