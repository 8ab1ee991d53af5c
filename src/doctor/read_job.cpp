// SLURM's variables are those that sbatch and srun set (their manuals, "OUTPUT ENVIRONMENT
// VARIABLES"); those of MPI's launchers tell which implementation has started this process.

#include "doctor/read_job.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "doctor/nvidia_smi.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/run_program.h"
#include "strata/comm/collectives.h"

namespace strata {

namespace {

/// Returns the number that a variable begins with: "4(x2)" is 4.
std::optional<int> number_in(const Environment& environment, const char* name) {
  const std::string text = environment(name).value_or("");
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  return number;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Returns whose launcher has started this process. With PMI-2 srun sets PMI_SIZE as well, and it
/// serves any MPI.
std::string launcher_of(const Environment& environment) {
  if (environment("OMPI_COMM_WORLD_SIZE")) return "Open MPI";
  if (environment("SLURM_PROCID")) return "";
  for (const char* const name : {"PMI_SIZE", "MPI_LOCALNRANKS", "HYDRA_CONTROL_FD"}) {
    if (environment(name)) return "MPICH or Intel MPI";
  }
  return "";
}

void read_launcher(const Environment& environment, double answer_s, JobFacts& facts) {
  facts.launcher = launcher_of(environment);
  try {
    facts.launched_ranks = detect_launch(environment).ranks.value_or(1);
  } catch (const ConfigError& error) {
    facts.launch_problem = error.what();
  }
  const auto mpirun = find_program("mpirun", environment);
  if (!mpirun) return;
  facts.mpirun = mpirun->string();
  facts.mpirun_says = first_line(run_program({facts.mpirun, "--version"}, answer_s).text);
}

void read_slurm(const Environment& environment, JobFacts& facts) {
  facts.slurm = environment("SLURM_JOB_ID").has_value();
  if (!facts.slurm) return;
  facts.gpus_per_task = environment("SLURM_GPUS_PER_TASK").value_or("");
  facts.gpu_bind = environment("SLURM_GPU_BIND").value_or("");
  facts.tasks_per_node = number_in(environment, "SLURM_NTASKS_PER_NODE");
  if (!facts.tasks_per_node)
    facts.tasks_per_node = number_in(environment, "SLURM_STEP_TASKS_PER_NODE");
  if (!facts.tasks_per_node) facts.tasks_per_node = number_in(environment, "SLURM_TASKS_PER_NODE");
  facts.cores_per_task = number_in(environment, "SLURM_CPUS_PER_TASK");
  if (const auto mebibytes = number_in(environment, "SLURM_MEM_PER_NODE"))
    facts.memory_per_node = static_cast<std::size_t>(std::max(*mebibytes, 0)) * kMiB;
}

}  // namespace

JobFacts read_job(const MachineSources& sources) {
  JobFacts facts;
  const NcclFound nccl = find_nccl(sources.nccl);
  facts.nccl = nccl.version;
  facts.nccl_problem = nccl.problem;
  facts.library = first_line(sources.mpi);
  read_launcher(sources.environment, sources.answer_s, facts);
  read_slurm(sources.environment, facts);
  return facts;
}

}  // namespace strata
