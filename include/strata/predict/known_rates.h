// The rates that predictions are made with: those of devices that were measured, and those that a
// config gives under `hardware`. `bench` turns a trace into such rates for a device that is new.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "strata/config/config.h"
#include "strata/predict/lane_report.h"
#include "strata/predict/rates.h"

namespace strata {

/// How ranks are spread over hosts, as far as rates go by it.
struct RankLayout {
  int ranks = 1;     ///< that shard the state together
  int replicas = 1;  ///< of the state
  int on_host = 1;   ///< of all ranks

  [[nodiscard]] int world() const { return ranks * replicas; }
  [[nodiscard]] int hosts() const { return (world() + on_host - 1) / on_host; }
};

/// Rates that a run had on a device, kept for the predictions of later runs.
struct StoredRates {
  std::string device;        ///< its name
  std::string where;         ///< "this machine", or the name of the host that measured
  std::string date;          ///< "2026-11-24"
  std::int64_t threads = 0;  ///< that the rank had
  HardwareSection rates;     ///< those of kRateKeys that were seen, of one rank alone
};

/// A device that work is predicted on: what names its rates, and what is known of the machine.
struct RatedDevice {
  std::string name;
  HardwareSection hardware{};                            ///< of a config; goes first
  std::optional<StoredRates> stored{};                   ///< that earlier runs had on it
  AttentionKernels attention = AttentionKernels::kAuto;  ///< whose rates are wanted
  double peak_tflops = 0;                                ///< dense bf16; 0: unknown
  int ranks_on_host = 1;                                 ///< they share its memory's rate
};

/// The rates of a device, or why they are not known.
struct KnownRates {
  Rates rates;
  std::string source;   ///< whose they are: "RTX 4090 (datasheet estimates), 2 ranks on 1 host"
  std::string missing;  ///< the keys that would have to be set; empty: rates are known
  bool estimated =
      false;  ///< that of products is a datasheet's, and nobody has measured the device
  double best_tflops = 0;  ///< of the model, by GpuModel::best_mfu, where estimated
};

/// Returns what is known of a device of this name: what `hardware` gives, else what was stored,
/// else what the table of GPUs says (gpu_models.h). The rates of a device that is not listed are
/// known if the first two give all of them. They are those of one rank, beside others that do the
/// same at the same time.
[[nodiscard]] KnownRates known_rates(std::string_view device, const HardwareSection& hardware,
                                     const RankLayout& layout = {},
                                     const std::optional<StoredRates>& stored = std::nullopt);

/// Returns the rates that traced work had, as `hardware` takes them: with them predictions are
/// those of the device that was measured. A rate is absent where there was no such work. `length`
/// is that of attention's rows in tokens.
[[nodiscard]] HardwareSection measured_rates(std::span<const WorkReport> work, std::int64_t length,
                                             std::int64_t head_dim);

}  // namespace strata
