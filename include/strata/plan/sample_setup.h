// How samples of a run are laid out: sweeps over the weights that are trained, in device memory
// that a step uses and that is idle between steps. Only a little pinned memory is their own.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "strata/config/config.h"
#include "strata/plan/sweep_setup.h"

namespace strata {

struct SampleSetup : SweepSetup {
  MemoryPlan plan;               ///< what the sweeps take; a run's own plan has the pinned part
  std::size_t pinned_bytes = 0;  ///< taken for them, whatever number of sequences goes at once
  std::size_t idle_bytes = 0;    ///< of device memory between steps

  /// Returns whether what they take on the device is idle between steps.
  [[nodiscard]] bool fits() const { return plan.total(Space::kDevice) <= idle_bytes; }
  /// Returns a line like "4 at once of up to 96 tokens, in 1.2 MiB of 20 MiB that are idle on the
  /// device between steps".
  [[nodiscard]] std::string to_string() const;
  /// Returns what is missing, and the keys to change; empty if nothing is.
  [[nodiscard]] std::string shortage() const;
};

/// Returns the most tokens that a sample has with its prompt, as far as it can be told without the
/// tokenizer: a token is a byte at least, and some stand around texts.
[[nodiscard]] std::int64_t sample_context(const RunConfig& config);
/// Returns how many samples are taken each time.
[[nodiscard]] std::int64_t samples_at_once(const RunSection& run);

/// Returns the setup in which as many sequences as possible are continued at once: each sweep takes
/// all weights to the device. If not even one fits into `idle_bytes`, neither does what is
/// returned.
[[nodiscard]] SampleSetup make_sample_setup(const RunConfig& config, std::size_t idle_bytes);

}  // namespace strata
