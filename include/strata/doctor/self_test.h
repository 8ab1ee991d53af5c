// The self-test: does this program compute what it should on this machine? It runs in about a
// minute on a GPU and in half of that on a CPU, needs no files of the user, and says for each thing
// what was compared, how far it was off and what to suspect. `strata doctor --self-test` runs it.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "strata/base/work_progress.h"
#include "strata/checkpoint/files.h"
#include "strata/comm/ranks.h"
#include "strata/doctor/finding.h"
#include "strata/ops/backend.h"

namespace strata {

/// What the self-test runs on. Tests plant defects in what is made here; the program has none.
struct SelfTestOptions {
  BackendKind backend = BackendKind::kCpu;  ///< cpu or cuda: what is tested
  int threads = 0;                          ///< for CPU kernels; 0: one for each usable core
  /// An empty folder that takes some MB. What is left in it belongs to the caller.
  std::filesystem::path scratch;
  /// The program itself, which is started, killed and started again; empty: nothing is killed.
  std::filesystem::path program{};
  /// Makes what is tested. What it is compared with is made by strata::make_backend.
  std::function<Backend(BackendKind, const BackendOptions&)> make_backend = strata::make_backend;
  Files* files = nullptr;         ///< that take checkpoints; null: those of this machine
  Ranks* single_ranks = nullptr;  ///< of the runs of one rank; null: the group of one
  WorkProgress* work = nullptr;   ///< says which check runs; may be null
};

/// Runs all checks and returns what they found. Rank 0 runs what needs one rank, and all take part
/// in the collectives; the findings are those of rank 0, and the other ranks get none. What goes
/// wrong is a finding and no exception, unless one rank of several fails alone between collectives,
/// where the others wait for it: they must be taken down then. Blocks; all ranks call it.
[[nodiscard]] std::vector<Finding> self_test(const SelfTestOptions& options, Ranks& ranks);

}  // namespace strata
