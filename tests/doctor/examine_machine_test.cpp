// Plants faults in a machine made of files, and looks whether the doctor finds each and names the
// remedy, and nothing on the machine without faults.

#include "strata/doctor/examine_machine.h"

#include <sys/resource.h>

#include <filesystem>
#include <string>
#include <vector>

#include "doctor/planted_machine.h"
#include "support/catch.h"
#include "support/ordinary_user.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;

/// Checks that one thing is found, with a remedy that has this text, and that all else is well.
void check_found(const std::vector<Finding>& findings, const std::string& name, Verdict verdict,
                 const std::string& remedy) {
  INFO(to_string(findings));
  const Finding found = finding_of(findings, name);
  CHECK(found.verdict == verdict);
  CHECK_THAT(found.remedy, ContainsSubstring(remedy));
  for (const Finding& other : findings) {
    if (other.name != name) CHECK(other.verdict == Verdict::kOk);
  }
}

TEST_CASE("the doctor finds nothing wrong on a good machine") {
  const std::vector<Finding> findings = PlantedMachine().examine();
  INFO(to_string(findings));
  for (const Finding& finding : findings) {
    CHECK(finding.verdict == Verdict::kOk);
    CHECK(finding.remedy.empty());
    CHECK_FALSE(finding.found.empty());
  }
  CHECK(finding_of(findings, "GPUs").found == "2 of 2 can be used");
  CHECK(finding_of(findings, "GPU 1").found ==
        "NVIDIA H200, 140.40 GiB, compute capability 9.0, driver 570.86.15");
  CHECK(finding_of(findings, "NCCL").found == "2.28.3");
  CHECK(finding_of(findings, "cores").found == "16 of 16 usable");
  CHECK_THAT(finding_of(findings, "MPI").found, ContainsSubstring("Open MPI v4.1.4; "));
}

TEST_CASE("the doctor finds a low limit of locked memory") {
  PlantedMachine machine;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_MEMLOCK, &before) == 0);
  const rlimit low{.rlim_cur = 65536, .rlim_max = before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_MEMLOCK, &low) == 0);
  machine.sources().lockable_bytes = this_machine(*machine.sources().files).lockable_bytes;
  REQUIRE(::setrlimit(RLIMIT_MEMLOCK, &before) == 0);
  check_found(machine.examine(), "locked memory", Verdict::kWarn, "ulimit -l unlimited");
  // Adapters that register memory are refused it.
  machine.write("sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
  check_found(machine.examine(), "locked memory", Verdict::kBad, "mlx5_0 cannot register");
}

TEST_CASE("the doctor finds a small control group") {
  const PlantedMachine machine;
  machine.write("sys/fs/cgroup/job/memory.max", "1073741824\n");
  machine.write("sys/fs/cgroup/job/memory.current", "536870912\n");
  check_found(machine.examine(), "control group", Verdict::kBad, "--mem of SLURM");
  // Half of what the GPUs have, which the host is to exceed.
  machine.write("sys/fs/cgroup/job/memory.max", "68719476736\n");
  check_found(machine.examine(), "control group", Verdict::kWarn, "raise the limit");
}

TEST_CASE("the doctor finds that there are no huge pages") {
  const PlantedMachine machine;
  machine.write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  check_found(machine.examine(), "huge pages", Verdict::kWarn, "echo madvise >");
  fs::remove_all(machine.folder().file("root/sys/kernel/mm/transparent_hugepage"));
  check_found(machine.examine(), "huge pages", Verdict::kWarn, "echo madvise >");
}

TEST_CASE("the doctor finds a GPU for which the program has no code") {
  PlantedMachine machine;
  machine.set_gpu(1, "compute_cap", "12.0");
  check_found(machine.examine(), "GPU 1", Verdict::kBad, "-DSTRATA_CUDA_ARCHITECTURES=120-real");
  machine.set_gpu(1, "compute_cap", "7.5");
  check_found(machine.examine(), "GPU 1", Verdict::kBad, "take another GPU");
}

TEST_CASE("the doctor finds a full disk") {
  PlantedMachine machine;
  machine.set_free_bytes(4096);
  const std::vector<Finding> findings = machine.examine();
  check_found(findings, "disk", Verdict::kBad, "No space left on device; another folder");
  CHECK_THAT(finding_of(findings, "disk").found, ContainsSubstring("4 KiB free"));
  CHECK(fs::is_empty(machine.folder().file("runs")));
  machine.set_free_bytes(std::size_t{8} << 30);
  check_found(machine.examine(), "disk", Verdict::kWarn, "checkpoint.keep");
}

TEST_CASE("a disk is judged by what a run saves, if that is known") {
  PlantedMachine machine;
  machine.sources().saves =
      SavedBytes{.one = std::uint64_t{88} << 30, .all = std::uint64_t{264} << 30};
  const auto with_free = [&](std::uint64_t gib) {
    machine.set_free_bytes(gib << 30);
    return machine.examine();
  };
  check_found(with_free(80), "disk", Verdict::kBad, "no checkpoint of this run fits");
  check_found(with_free(200), "disk", Verdict::kWarn, "checkpoint.keep");
  const Finding enough = finding_of(with_free(300), "disk");
  CHECK(enough.verdict == Verdict::kOk);
  CHECK_THAT(enough.found, ContainsSubstring("a checkpoint takes 88 GiB and ") &&
                               ContainsSubstring("all that are kept 264 GiB"));
  // Less than many runs need, and enough for this one.
  machine.sources().saves = SavedBytes{.one = 1 << 20, .all = 3 << 20};
  CHECK(finding_of(with_free(2), "disk").verdict == Verdict::kOk);
}

TEST_CASE("the doctor finds a folder that may not be written") {
  const PlantedMachine machine;
  const std::string folder = machine.folder().file("runs");
  fs::permissions(folder, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read |
                              fs::perms::others_exec);
  const OrdinaryUser user;
  check_found(machine.examine(), "disk", Verdict::kBad, "Permission denied");
}

TEST_CASE("a folder that a run would make is looked for above") {
  PlantedMachine machine;
  machine.sources().folder = machine.folder().file("runs/new/deep");
  CHECK(
      finding_of(machine.examine(), "disk").found.starts_with(machine.folder().file("runs") + ":"));
}

TEST_CASE("the doctor finds that NCCL is missing where GPUs need it") {
  PlantedMachine machine;
  machine.sources().nccl = "libnccl_that_nobody_has.so.2";
  check_found(machine.examine(), "NCCL", Verdict::kBad, "install libnccl2");
  machine.sources().devices.resize(1);
  CHECK(finding_of(machine.examine(), "NCCL").verdict == Verdict::kOk);
}

TEST_CASE("the doctor finds a GPU that others use") {
  PlantedMachine machine;
  machine.set_processes("GPU-00000000, 4711, 61234, /usr/bin/python3, with a comma");
  const std::vector<Finding> findings = machine.examine();
  check_found(findings, "GPU 0 use", Verdict::kWarn, "CUDA_VISIBLE_DEVICES");
  CHECK_THAT(finding_of(findings, "GPU 0 use").found,
             ContainsSubstring("/usr/bin/python3, with a comma (process 4711, 61234 MiB)"));
  // Containers do not see processes of others.
  machine.set_processes("");
  machine.set_gpu(0, "memory.used", "61300");
  check_found(machine.examine(), "GPU 0 use", Verdict::kWarn, "CUDA_VISIBLE_DEVICES");
  machine.set_gpu(0, "memory.used", "4");
  machine.set_gpu(0, "compute_mode", "Prohibited");
  check_found(machine.examine(), "GPU 0 use", Verdict::kBad, "nvidia-smi -c DEFAULT");
}

TEST_CASE("the doctor finds that there is one core") {
  PlantedMachine machine;
  machine.write("proc/self/status", "Cpus_allowed_list:\t3\nMems_allowed_list:\t0-1\n");
  const std::vector<Finding> findings = machine.examine();
  CHECK(finding_of(findings, "cores").verdict == Verdict::kWarn);
  CHECK(finding_of(findings, "cores").found == "1 of 16 usable");
  CHECK_THAT(finding_of(findings, "cores").remedy, ContainsSubstring("--bind-to none"));
  // It is near one of the GPUs alone.
  CHECK(finding_of(findings, "GPU 0 slot").verdict == Verdict::kOk);
  CHECK(finding_of(findings, "GPU 1 slot").verdict == Verdict::kWarn);
  // A launch of several ranks refuses it.
  machine.set("OMPI_COMM_WORLD_SIZE", "2");
  CHECK(finding_of(machine.examine(), "cores").verdict == Verdict::kBad);
}

TEST_CASE("the doctor finds a control group that grants the time of one core") {
  const PlantedMachine machine;
  machine.write("sys/fs/cgroup/job/cpu.max", "100000 100000\n");
  check_found(machine.examine(), "cores", Verdict::kWarn, "--cpus");
}

TEST_CASE("the doctor finds a foreign MPI") {
  PlantedMachine machine;
  machine.install("mpirun", "echo 'HYDRA build details:'; echo '    Version: 4.0.2'\n");
  check_found(machine.examine(), "MPI", Verdict::kWarn, "put that of Open MPI first into PATH");
  machine.set("PMI_SIZE", "4");
  machine.set("PMI_RANK", "0");
  const std::vector<Finding> findings = machine.examine();
  check_found(findings, "MPI", Verdict::kBad, "start ranks with the mpirun of Open MPI");
  CHECK(finding_of(findings, "launcher").found == "4 ranks");
  // srun sets these, too, and starts ranks of any MPI.
  machine.set("SLURM_PROCID", "0");
  machine.install("mpirun", "echo 'mpirun (Open MPI) 4.1.4'\n");
  CHECK(finding_of(machine.examine(), "MPI").verdict == Verdict::kOk);
}

TEST_CASE("a program without MPI needs none until ranks are started") {
  PlantedMachine machine;
  machine.sources().mpi.clear();
  CHECK(finding_of(machine.examine(), "MPI").verdict == Verdict::kOk);
  machine.set("OMPI_COMM_WORLD_SIZE", "2");
  check_found(machine.examine(), "MPI", Verdict::kBad, "-DSTRATA_MPI=ON");
}

TEST_CASE("the doctor finds SLURM variables that spoil runs") {
  PlantedMachine machine;
  machine.set("SLURM_JOB_ID", "17");
  machine.set("SLURM_TASKS_PER_NODE", "4(x2)");
  machine.set("SLURM_CPUS_PER_TASK", "4");
  machine.set("SLURM_MEM_PER_NODE", "0");
  const std::vector<Finding> good = machine.examine();
  CHECK(finding_of(good, "SLURM").verdict == Verdict::kOk);
  CHECK(finding_of(good, "SLURM").found == "4 tasks on this host, 4 cores each");
  SECTION("GPUs hidden from each other") {
    machine.set("SLURM_GPUS_PER_TASK", "1");
    check_found(machine.examine(), "SLURM", Verdict::kBad, "--gpus-per-node");
  }
  SECTION("few cores") {
    machine.set("SLURM_CPUS_PER_TASK", "1");
    check_found(machine.examine(), "SLURM", Verdict::kBad, "--cpus-per-task");
  }
  SECTION("little memory") {
    machine.set("SLURM_MEM_PER_NODE", "65536");
    check_found(machine.examine(), "SLURM", Verdict::kWarn, "--mem=0");
  }
  SECTION("tasks that nothing connects") {
    machine.set("SLURM_PROCID", "0");
    machine.set("SLURM_STEP_NUM_TASKS", "8");
    check_found(machine.examine(), "launcher", Verdict::kBad, "srun --mpi=pmix");
  }
}

TEST_CASE("the doctor finds what slows a GPU down or makes it wrong") {
  PlantedMachine machine;
  SECTION("heat") {
    machine.set_gpu(0, "clocks_throttle_reasons.active", "0x0000000000000060");
    check_found(machine.examine(), "GPU 0 clock", Verdict::kWarn, "cool the GPU");
  }
  SECTION("heat, by the newer name of the field") {
    machine.forget_field("clocks_throttle_reasons.active");
    machine.set_gpu(0, "clocks_event_reasons.active", "0x0000000000000040");
    machine.set_gpu(1, "clocks_event_reasons.active", "0x0000000000000004");
    check_found(machine.examine(), "GPU 0 clock", Verdict::kWarn, "cool the GPU");
  }
  SECTION("a power limit") {
    machine.set_gpu(1, "power.limit", "350.00");
    check_found(machine.examine(), "GPU 1 clock", Verdict::kWarn, "nvidia-smi -i 1 -pl 700");
  }
  SECTION("memory errors") {
    machine.set_gpu(1, "ecc.errors.uncorrected.volatile.total", "3");
    check_found(machine.examine(), "GPU 1 clock", Verdict::kBad, "reset the GPU");
  }
  SECTION("lanes that are missing") {
    machine.set_gpu(0, "pcie.link.width.current", "4");
    check_found(machine.examine(), "GPU 0 slot", Verdict::kWarn, "into a slot");
  }
}

TEST_CASE("values that a driver does not tell are unknown and no fault") {
  PlantedMachine machine;
  for (const char* const field :
       {"utilization.gpu", "power.limit", "ecc.errors.uncorrected.volatile.total",
        "clocks_throttle_reasons.active", "compute_mode", "pcie.link.width.current"}) {
    machine.set_gpu(0, field, "[N/A]");
    machine.set_gpu(1, field, "[Not Supported]");
  }
  machine.set_gpu(0, "mig.mode.current", "Enabled");
  machine.forget_field("pcie.link.gen.max");
  machine.forget_field("compute_cap");
  const std::vector<Finding> findings = machine.examine();
  INFO(to_string(findings));
  CHECK(worst(findings) == Verdict::kOk);
  CHECK_THAT(finding_of(findings, "GPU 0").found, ContainsSubstring("divided by MIG"));
  CHECK(finding_of(findings, "GPU 1 slot").found == "PCIe unknown, NUMA node 1");
}

TEST_CASE("a program with CUDA misses nvidia-smi, and more a GPU") {
  PlantedMachine machine;
  machine.uninstall("nvidia-smi");
  check_found(machine.examine(), "GPUs", Verdict::kWarn, "put the nvidia-smi of the driver");
  machine.install("nvidia-smi",
                  "echo 'NVIDIA-SMI has failed because it could not reach the driver.'; exit 9\n");
  const std::vector<Finding> silent = machine.examine();
  check_found(silent, "GPUs", Verdict::kWarn, "put the nvidia-smi of the driver");
  CHECK_THAT(finding_of(silent, "GPUs").found, ContainsSubstring("could not reach the driver"));
  machine.sources().devices.clear();
  check_found(machine.examine(), "GPUs", Verdict::kBad, "install NVIDIA's driver");
}

TEST_CASE("GPUs that the program cannot use are left out, and missed if there is no other") {
  PlantedMachine machine;
  machine.sources().devices.erase(machine.sources().devices.begin());
  machine.set_gpu(0, "memory.used", "99999");  // that of somebody else
  const std::vector<Finding> findings = machine.examine();
  CHECK(worst(findings) == Verdict::kOk);
  CHECK(finding_of(findings, "GPUs").found == "1 of 2 can be used");
  machine.set_gpu(0, "memory.used", "4");
  machine.sources().devices.clear();
  machine.set("CUDA_VISIBLE_DEVICES", "7");
  const std::vector<Finding> hidden = machine.examine();
  CHECK(finding_of(hidden, "GPUs").verdict == Verdict::kBad);
  CHECK_THAT(finding_of(hidden, "GPUs").found, ContainsSubstring("CUDA_VISIBLE_DEVICES=7"));
}

TEST_CASE("a GPU is no use to a program without CUDA, and missed by none") {
  PlantedMachine machine;
  machine.sources().build.backends = "cpu";
  machine.sources().devices.clear();
  const std::vector<Finding> findings = machine.examine();
  CHECK(finding_of(findings, "GPU 0").verdict == Verdict::kWarn);
  CHECK_THAT(finding_of(findings, "GPU 0").remedy, ContainsSubstring("cuda-release"));
  machine.uninstall("nvidia-smi");
  CHECK(worst(machine.examine()) == Verdict::kOk);
}

TEST_CASE("memory that was swapped out and nodes that are closed are found") {
  const PlantedMachine machine;
  machine.write("proc/meminfo",
                "MemTotal: 536870912 kB\nMemAvailable: 524288000 kB\nSwapTotal: 8388608 kB\n"
                "SwapFree: 1000000 kB\n");
  check_found(machine.examine(), "host memory", Verdict::kWarn, "swapoff");
  machine.write("proc/meminfo", "MemTotal: 536870912 kB\nMemAvailable: 1048576 kB\n");
  check_found(machine.examine(), "host memory", Verdict::kBad, "end other programs");
  machine.write("proc/meminfo", "MemTotal: 536870912 kB\nMemAvailable: 524288000 kB\n");
  machine.write("proc/self/status", "Cpus_allowed_list:\t0-15\nMems_allowed_list:\t1\n");
  check_found(machine.examine(), "NUMA nodes", Verdict::kWarn, "--membind");
}

TEST_CASE("a machine that tells nothing is no fault") {
  PlantedMachine machine;
  machine.sources().root = machine.folder().file("nowhere");
  const std::vector<Finding> findings = machine.examine();
  INFO(to_string(findings));
  CHECK(worst(findings) == Verdict::kOk);
  CHECK(finding_of(findings, "cores").found == "unknown");
}

}  // namespace
}  // namespace strata::test
