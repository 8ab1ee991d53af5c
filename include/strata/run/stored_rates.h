// The rates of a machine, as `tune --measure` saw them, are kept in a small file beside the cached
// plans of matrix products, one for each device name. `plan`, `train`, `bench` and `tune` look here
// before they predict. A file that cannot be used is a warning and never an error: predictions then
// go by what is known of the device anyway.

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "strata/comm/ranks.h"
#include "strata/config/config.h"
#include "strata/plan/rates.h"

namespace strata {

/// Returns the file for rates of a device in the folder of kernels.plan_cache; empty if nothing is
/// to be kept there, or the environment names no cache folder.
[[nodiscard]] std::filesystem::path stored_rates_file(const KernelsSection& kernels,
                                                      std::string_view device);

/// Reads a file of rates. Throws IoError or ConfigError that names the file and what is wrong with
/// it.
[[nodiscard]] StoredRates load_rates(const std::filesystem::path& file);
/// Writes rates of this machine, seen today, and the file's folder if there is none. Readers find
/// the old file or the new one, never a part. Throws IoError.
void save_rates(std::string_view device, const HardwareSection& rates,
                const std::filesystem::path& file);

/// Returns the rates that are stored for a device, or nothing: if there are none, if
/// hardware.stored_rates is false, or, with a warning that names the file and the remedy, if they
/// cannot be used.
[[nodiscard]] std::optional<StoredRates> find_stored_rates(const RunConfig& config,
                                                           std::string_view device);

/// Returns likewise what rank 0 finds, on every rank, so that all predict alike. All ranks call it;
/// it blocks.
[[nodiscard]] std::optional<StoredRates> agree_on_stored_rates(const RunConfig& config,
                                                               std::string_view device,
                                                               Ranks& ranks);

}  // namespace strata
