// Decides how many samples of a run are continued at once, and in which pieces, so that their
// sweeps fit into the device memory that is idle between steps.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "strata/config/config.h"
#include "strata/engine/sample_layout.h"

namespace strata {

/// Returns a line like "4 at once of up to 96 tokens, in 1.2 MiB of 20 MiB that are idle on the
/// device between steps".
[[nodiscard]] std::string samples_text(const SampleLayout& samples);
/// Returns what is missing, and the keys to change; empty if nothing is.
[[nodiscard]] std::string sample_shortage(const SampleLayout& samples);

/// Returns the most tokens that a sample has with its prompt, as far as it can be told without the
/// tokenizer: a token is a byte at least, and some stand around texts.
[[nodiscard]] std::int64_t sample_context(const RunConfig& config);
/// Returns how many samples are taken each time.
[[nodiscard]] std::int64_t samples_at_once(const RunSection& run);

/// Returns the layout in which as many sequences as possible are continued at once: each sweep
/// takes all weights to the device. If not even one fits into `idle_bytes`, neither does what is
/// returned.
[[nodiscard]] SampleLayout make_sample_setup(const RunConfig& config, std::size_t idle_bytes);

}  // namespace strata
