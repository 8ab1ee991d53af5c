// What starts ranks and connects them concerns runs of several ranks alone: what only they need is
// no fault of a machine on which nobody has started any.

#include <algorithm>

#include "doctor/judge.h"
#include "doctor/worsen.h"
#include "strata/base/bytes.h"
#include "strata/base/log.h"

namespace strata {

namespace {

constexpr int kFewestRankCores = 4;  // of a rank

/// Returns whose MPI a text is of: what a library calls itself, or what mpirun says of its version.
std::string implementation_of(const std::string& text) {
  const auto has = [&](const char* word) { return text.find(word) != std::string::npos; };
  if (has("Open MPI") || has("OpenRTE")) return "Open MPI";
  if (has("Intel")) return "Intel MPI";
  if (has("MPICH") || has("HYDRA") || has("Hydra")) return "MPICH";
  return {};
}

/// MPICH and Intel MPI have launchers of one family, which start programs of either.
std::string family_of(const std::string& implementation) {
  return implementation.empty() || implementation == "Open MPI" ? implementation
                                                                : "MPICH or Intel MPI";
}

Finding judge_nccl(const JobFacts& facts, std::size_t gpus, const BuildInfo& build) {
  Finding finding{.name = "NCCL", .found = facts.nccl.empty() ? "none" : facts.nccl};
  if (!facts.nccl.empty()) return finding;
  if (!has_cuda(build)) {
    finding.found = "none, and a program without CUDA needs none";
  } else if (gpus > 1 || facts.launched_ranks > 1) {
    worsen(finding, Verdict::kBad, facts.nccl_problem);
  } else {
    finding.found = "none, and one GPU needs none";
  }
  return finding;
}

Finding judge_mpi(const JobFacts& facts) {
  Finding finding{.name = "MPI"};
  const std::string own = family_of(implementation_of(facts.library));
  finding.found = facts.library.empty()
                      ? "the program has none"
                      : "the program has " + facts.library.substr(0, facts.library.find(','));
  if (!facts.launcher.empty()) finding.found += ", started by the launcher of " + facts.launcher;
  const std::string there = implementation_of(facts.mpirun_says);
  if (!facts.mpirun.empty())
    finding.found += "; " + facts.mpirun + " is " + (there.empty() ? "unknown" : there + "'s");

  if (facts.library.empty()) {
    if (!facts.launcher.empty() && facts.launched_ranks > 1) {
      worsen(finding, Verdict::kBad,
             "ranks need MPI: install libopenmpi-dev and openmpi-bin, configure with "
             "-DSTRATA_MPI=ON and build again; or start one process");
    }
    return finding;
  }
  if (!facts.launcher.empty() && !own.empty() && facts.launcher != own) {
    worsen(finding, Verdict::kBad,
           "each rank would believe that it is alone: start ranks with the mpirun of " + own +
               ", or build strata with the MPI of this launcher");
  } else if (!there.empty() && !own.empty() && family_of(there) != own) {
    worsen(finding, Verdict::kWarn,
           "this mpirun does not start ranks of the program: put that of " + own +
               " first into PATH (module load), or build strata with this MPI");
  }
  return finding;
}

Finding judge_launcher(const JobFacts& facts) {
  Finding finding{.name = "launcher",
                  .found = facts.launched_ranks == 1
                               ? "one process"
                               : std::to_string(facts.launched_ranks) + " ranks"};
  if (facts.launch_problem.empty()) return finding;
  finding.found = "does not connect its ranks";
  worsen(finding, Verdict::kBad, facts.launch_problem);
  return finding;
}

Finding judge_slurm(const JobFacts& facts, const HostFacts& host) {
  Finding finding{.name = "SLURM", .found = "not inside of a job"};
  if (!facts.slurm) return finding;
  const int tasks = std::max(facts.tasks_per_node.value_or(1), 1);
  finding.found = fmt::format("{} task{} on this host", tasks, tasks == 1 ? "" : "s");
  if (facts.cores_per_task) finding.found += fmt::format(", {} cores each", *facts.cores_per_task);
  const bool hidden = !facts.gpus_per_task.empty() || !facts.gpu_bind.empty();
  if (hidden && tasks > 1) {
    finding.found += facts.gpus_per_task.empty() ? ", --gpu-bind" : ", --gpus-per-task";
    worsen(finding, Verdict::kBad,
           "this hides GPUs from ranks of the same host, which then cannot reach each other: use "
           "--gpus-per-node");
  }
  if (facts.cores_per_task && *facts.cores_per_task < kFewestRankCores) {
    worsen(finding, tasks > 1 ? Verdict::kBad : Verdict::kWarn,
           fmt::format("a rank wants {} cores, and several refuse to start with fewer: "
                       "--cpus-per-task, for sbatch and srun",
                       kFewestRankCores));
  }
  if (facts.memory_per_node.value_or(0) > 0) {
    finding.found += ", " + format_bytes(*facts.memory_per_node) + " of memory";
    if (host.total_bytes && *facts.memory_per_node < *host.total_bytes / 2) {
      worsen(finding, Verdict::kWarn,
             "the job has less than half of the host's memory, in which strata keeps its state: "
             "--mem=0 asks for all of it");
    }
  }
  return finding;
}

}  // namespace

std::vector<Finding> judge_job(const JobFacts& facts, const HostFacts& host, std::size_t gpus,
                               const BuildInfo& build) {
  return {judge_nccl(facts, gpus, build), judge_mpi(facts), judge_launcher(facts),
          judge_slurm(facts, host)};
}

}  // namespace strata
