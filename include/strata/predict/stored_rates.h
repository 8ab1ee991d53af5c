// The rates of a machine, as `tune --measure` saw them, are kept in a small file beside the cached
// plans of matrix products, one for each device name. `plan`, `train`, `bench` and `tune` look here
// before they predict. The host's rate, and on the CPU all of them, go by the number of threads, so
// that is kept as well. A file that cannot be used is a warning and never an error: predictions
// then go by what is known of the device anyway.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "strata/comm/ranks.h"
#include "strata/config/config.h"
#include "strata/predict/known_rates.h"

namespace strata {

/// Returns the file for rates of a device in the folder of kernels.plan_cache; empty if nothing is
/// to be kept there, or the environment names no cache folder.
[[nodiscard]] std::filesystem::path stored_rates_file(const KernelsSection& kernels,
                                                      std::string_view device);

/// Reads a file of rates. Throws IoError or ConfigError that names the file and what is wrong with
/// it.
[[nodiscard]] StoredRates load_rates(const std::filesystem::path& file);
/// Writes rates of this machine, seen today with so many threads, and the file's folder if there is
/// none. Rates that were not seen stay those of the file if this machine had them with as many
/// threads. Readers find the old file or the new one, never a part. Throws IoError, and ConfigError
/// if the file is another device's.
void save_rates(std::string_view device, HardwareSection rates, std::int64_t threads,
                const std::filesystem::path& file);

/// Returns why the rates that traced steps had are not worth keeping: something disturbed the run,
/// since its steps differ by more than 10 %. Empty if they do not. `step_s` are those of measured
/// steps, `traced_s` those of two traced ones. Where there are others, the first of each is left
/// out: nothing was under way when it began.
[[nodiscard]] std::string unsteadiness(std::span<const double> step_s,
                                       std::span<const double> traced_s);

/// Returns the threads of a run of one rank: run.threads, or else the cores that it may use.
[[nodiscard]] std::int64_t threads_alone(const RunConfig& config);
/// Returns the threads that all ranks of this host have together. All ranks call it; it blocks.
[[nodiscard]] std::int64_t threads_on_host(const RunConfig& config, Ranks& ranks);

/// Returns the rates that are stored for a device, or nothing: if there are none, if
/// hardware.stored_rates is false, or, with a warning that names the file and the remedy, if they
/// cannot be used. So are rates that were seen with another number of threads than the host has
/// here; of a machine that is not this one it may be unknown.
[[nodiscard]] std::optional<StoredRates> find_stored_rates(const RunConfig& config,
                                                           std::string_view device,
                                                           std::optional<std::int64_t> threads);

/// Returns what find_stored_rates() finds on rank 0, on every rank, so that all predict alike. All
/// ranks call it; it blocks.
[[nodiscard]] std::optional<StoredRates> agree_on_stored_rates(const RunConfig& config,
                                                               std::string_view device,
                                                               Ranks& ranks);

}  // namespace strata
