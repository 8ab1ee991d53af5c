// The table of ways to train that must agree: each row is a config with a number of ranks, and a
// plain run whose bits it must have. modes_test.cpp trains every row; trace_table prints what the
// first part of the rows submits.
#pragma once

#include <string>
#include <vector>

#include "support/tiny_run.h"

namespace strata::test {

/// Norms to clip to: all steps of the tiny models, some of them or none have larger ones.
inline constexpr double kClipsAll = 1e-6;
inline constexpr double kClipsSome = 2.8;
inline constexpr double kClipsNone = 1e9;

struct Mode {
  std::string name;
  RunConfig config;
  int ranks = 1;
};

/// Makes a row of assignments "key=value" with spaces between them. Two of them are no keys of the
/// config: "ranks", and "share", by which a device limit has cells keep that share of all they may.
[[nodiscard]] Mode mode_of(const RunConfig& base, const std::string& assignments);

/// Returns a config in which every store recycles its slots.
[[nodiscard]] RunConfig recycling_config();

/// Returns every timing of updates with every placement of the state, sums of gradients, number of
/// passes and of ranks that go together, then runs that spill. All stores recycle their slots.
[[nodiscard]] std::vector<Mode> state_modes();
/// Returns rows that turn one or two keys at a time: slots, executions, what cells keep and spill,
/// boundaries in int8, sub-batches. The names are the keys.
[[nodiscard]] std::vector<Mode> cell_modes();
/// Returns the same for timings, deferred units, rings of gradients, residency and interleaving.
[[nodiscard]] std::vector<Mode> update_modes();
/// Returns the same for speculative updates, each with all three norms to clip to.
[[nodiscard]] std::vector<Mode> speculative_modes();
/// Returns the modes in bf16 with products of codes, of both kinds and with something left out in
/// turn. Memory limits are moved by what codes take; a row of another dtype that has one is left
/// out.
[[nodiscard]] std::vector<Mode> in_fp8(std::vector<Mode> modes);

/// Returns the run that a mode must equal bit for bit. It recomputes, keeps the state on the host
/// and updates it before use, in one sub-batch and with room for everything. What it takes from the
/// mode is all that may change a bit: model, data, dtypes, clipping, passes, ranks, and with
/// boundaries in int8 the level up to which cells keep or spill. Gradients of weights of codes are
/// those of the mode's sub-batches, whose columns have scales of their own.
[[nodiscard]] Mode plain_mode(const Mode& mode);

}  // namespace strata::test
