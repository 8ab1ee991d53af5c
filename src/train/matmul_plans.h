// A plan says which algorithm computes a matrix product; plans are kept from run to run so that
// results stay the same bits. The session calls plan_matmuls() once at its start, on every rank;
// plans come from the run folder, from the user's cache, or from measuring. It blocks, and what
// goes wrong with a file that can be done without becomes a warning.

#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "strata/base/work_progress.h"
#include "strata/comm/ranks.h"
#include "strata/ops/matmul_plan.h"

namespace strata {

/// A file holds a set of plans of one platform.
struct MatmulPlanSet {
  std::string platform;  ///< device and library, as MatmulTuner::platform says
  std::vector<MatmulPlan> plans;
};

/// Reads a file of plans. Throws IoError or ConfigError that names the file and what is wrong with
/// it.
[[nodiscard]] MatmulPlanSet load_plan_set(const std::filesystem::path& file);
/// Writes a file of plans, and its folder if there is none. Readers find the old file or the new
/// one, never a part. Throws IoError.
void save_plan_set(const MatmulPlanSet& set, const std::filesystem::path& file);

/// Returns the file of a platform in `folder`. Each platform has its own, so machines may share a
/// folder.
[[nodiscard]] std::filesystem::path plan_cache_file(const std::filesystem::path& folder,
                                                    const std::string& platform);

/// Plans are looked for and kept in these folders. An empty path means none.
struct PlanFolders {
  std::filesystem::path run;    ///< of the run; holds plans.json
  std::filesystem::path cache;  ///< see plan_cache_file
};

/// Says where the plans of a run came from, and what its user should know.
struct PlanReport {
  std::size_t from_run = 0, from_cache = 0, measured = 0;
  std::vector<std::string> warnings;
};

/// Chooses a plan for each of `shapes` and puts them to use on all ranks. Rank 0 takes those that
/// the run folder has, then those of the cache, lets the tuner measure the rest in up to
/// `memory_bytes` of device memory, keeps them in both folders and sends them to the others. All
/// ranks call it; the report is about this rank. Throws IoError if the run folder cannot be
/// written. `work`, if it is given, is told when rank 0 measures.
[[nodiscard]] PlanReport plan_matmuls(MatmulTuner& tuner, std::span<const MatmulShape> shapes,
                                      const PlanFolders& folders, std::size_t memory_bytes,
                                      Ranks& ranks, WorkProgress* work = nullptr);

}  // namespace strata
