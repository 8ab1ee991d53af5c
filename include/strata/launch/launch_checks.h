// Finds what is wrong with how the ranks of a run were started, from what all of them have told.
// These are pure functions, so every rank finds the same; a session asks before anything is
// allocated.

#pragma once

#include <string>
#include <vector>

#include "strata/launch/launch_facts.h"

namespace strata {

/// What was found, a text each, which names ranks, hosts and the remedy.
struct LaunchFindings {
  std::vector<std::string> errors;    ///< the run cannot be right, or would crawl
  std::vector<std::string> warnings;  ///< it may be slower than it needs to be
};

/// Fewer cores than this starve the threads of a rank: those that submit, copy, reduce and update.
inline constexpr int kFewestCores = 4;

/// Says of which models the GPUs of ranks may be: of one where replicas orthogonalise for
/// themselves, since another may round products differently.
enum class GpuModels { kAny, kOne };

/// Returns what is wrong with the start of these ranks. Errors are: different backends, drivers or
/// CUDA runtimes; no GPU; two ranks on one GPU; GPUs that are hidden from ranks of the same host;
/// a launcher that has bound ranks to fewer than kFewestCores cores though the host has more for
/// each; different GPUs where `models` is kOne. Warnings are: few cores for another reason;
/// different GPUs otherwise; a launcher that counts other ranks on a host than there are.
[[nodiscard]] LaunchFindings check_launch(const std::vector<LaunchFacts>& ranks,
                                          GpuModels models = GpuModels::kAny);

/// Returns a line for each rank: rank, host, GPU, NUMA node and cores.
[[nodiscard]] std::string map_of_ranks(const std::vector<LaunchFacts>& ranks);

}  // namespace strata
