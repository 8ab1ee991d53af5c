// Reads the variables that launchers set. mpirun and srun --mpi say how many ranks MPI will
// connect; srun without it sets its own variables only, and then each task would be alone.
#include "strata/comm/launcher.h"

#include <charconv>
#include <cstdlib>

#include "strata/base/error.h"
#include "strata/comm/ranks.h"

namespace strata {

namespace {

std::optional<int> count_in(const Environment& environment, const char* name) {
  const std::optional<std::string> text = environment(name);
  if (!text) return std::nullopt;
  int count = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, count);
  if (error != std::errc{} || stop != end || count < 1) {
    throw ConfigError("the launcher set " + std::string(name) + " to \"" + *text +
                      "\", which is not a number of ranks");
  }
  return count;
}

/// Returns the number of tasks of the srun step that this process belongs to, or that of the job
/// for a process of the batch script itself, which has no step.
std::optional<int> slurm_tasks(const Environment& environment) {
  if (!environment("SLURM_PROCID")) return std::nullopt;
  const std::optional<int> step = count_in(environment, "SLURM_STEP_NUM_TASKS");
  return step ? step : count_in(environment, "SLURM_NTASKS");
}

}  // namespace

std::optional<std::string> environment_of_process(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

std::optional<int> launched_on_host() { return launched_on_host(environment_of_process); }

std::optional<int> launched_on_host(const Environment& environment) {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}) {
    if (const auto ranks = count_in(environment, name)) return ranks;
  }
  return std::nullopt;
}

std::optional<std::string> launched_rank(const Environment& environment) {
  struct Variables {
    const char* rank;
    const char* ranks;
  };
  for (const Variables& v :
       {Variables{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        Variables{"PMI_RANK", "PMI_SIZE"}, Variables{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}}) {
    const std::optional<std::string> ranks = environment(v.ranks);
    if (ranks && *ranks != "1") return environment(v.rank);
  }
  return std::nullopt;
}

Launch detect_launch(const Environment& environment) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (const auto ranks = count_in(environment, name)) return {.mpi = *ranks > 1, .ranks = ranks};
  }
  const std::optional<int> tasks = slurm_tasks(environment);
  if (environment("PMIX_RANK")) return {.mpi = tasks.value_or(2) > 1, .ranks = tasks};
  if (tasks.value_or(1) > 1) {
    throw ConfigError(
        "SLURM started " + std::to_string(*tasks) +
        " tasks, but nothing connects them: each would train alone and overwrite the others. " +
        "Start the program with `srun --mpi=pmix` (or pmi2, see `srun --mpi=list`) or with "
        "mpirun; " +
        "for one process on purpose use `srun --ntasks=1`");
  }
  return {.mpi = false, .ranks = 1};
}

}  // namespace strata
