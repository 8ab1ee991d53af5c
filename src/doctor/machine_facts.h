// What is read or measured of a machine, before anybody judges it. A member that the system may not
// tell is optional, or has a value that says so.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/host_memory.h"
#include "strata/base/numa.h"

namespace strata {

/// The host, as /proc and /sys show it to this process.
struct HostFacts {
  HostMemory memory{};
  std::optional<std::size_t> total_bytes{};
  std::optional<std::size_t> swapped_bytes{};  ///< of any process, on disks
  CoreBits cores{};                            ///< those that this process may run on
  CoreBits machine_cores{};                    ///< those that are online
  double quota = INFINITY;                     ///< cores whose time the control groups grant
  CoreBits memory_nodes{};                     ///< NUMA nodes that this process may take memory of
  CoreBits nodes{};                            ///< NUMA nodes of the machine
  /// "always", "madvise" or "never"; "none" if the kernel has no huge pages.
  std::optional<std::string> huge_pages{};
  std::optional<std::size_t> lockable_bytes{};  ///< absent: no limit
  bool locks_beyond = false;                    ///< it has the capability to exceed the limit
  std::vector<std::string> network_adapters{};  ///< those that register memory: InfiniBand, RoCE
};

/// A process that computes on a GPU.
struct GpuProcess {
  std::string pid{};
  std::string memory{};  ///< as nvidia-smi writes it, "1234" MiB
  std::string name{};
};

/// One GPU as nvidia-smi describes it.
struct GpuFacts {
  std::string index{};
  std::string uuid{};
  std::string name{};
  std::string pci_bus_id{};  ///< "0000:1B:00.0"
  std::string driver{};
  std::optional<int> capability{};  ///< 10 * major + minor
  std::optional<std::size_t> memory_bytes{};
  std::optional<std::size_t> used_bytes{};
  std::optional<int> busy_percent{};             ///< of the last moment in which something computed
  std::string compute_mode{};                    ///< "Default", "Exclusive_Process", "Prohibited"
  bool divided = false;                          ///< by MIG
  std::optional<std::int64_t> memory_errors{};   ///< that could not be corrected since the start
  std::optional<std::uint64_t> clock_reasons{};  ///< bits that say why clocks are low
  std::optional<double> power_limit_w{};
  std::optional<double> default_power_limit_w{};
  std::optional<int> link_width{};       ///< PCIe lanes that are in use
  std::optional<int> most_width{};       ///< lanes that GPU and slot have
  std::optional<int> most_generation{};  ///< of PCIe, that GPU and slot have
  std::vector<GpuProcess> processes{};
  int numa_node = -1;
  CoreBits near{};  ///< cores of its NUMA node, none if unknown
};

/// What nvidia-smi said, or why it did not.
struct GpuSurvey {
  std::string problem{};  ///< why there is no answer; empty if there is one
  bool installed = false;
  std::vector<GpuFacts> gpus{};
};

/// Rates that were measured on the host.
struct HostRates {
  double copy_gbs = 0;  ///< read and written by all threads; 0: not measured
  struct Update {
    int threads = 0;
    double gbs = 0;
  };
  std::vector<Update> updates{};  ///< AdamW's, by threads, ascending
  std::string problem{};          ///< why nothing was measured
};

/// Rates of the link between a GPU and the host.
struct LinkRates {
  int device = 0;
  std::string gpu{};
  double in_gbs = 0;
  double out_gbs = 0;
  double both_gbs = 0;  ///< each way, while both run
  std::string problem{};
};

/// The folder of checkpoints.
struct FolderFacts {
  std::string folder{};
  std::optional<std::uint64_t> free_bytes{};
  double write_gbs = 0;
  std::string problem{};  ///< why it cannot be written
};

/// What would start ranks, and what connects them.
struct JobFacts {
  std::string nccl{};            ///< version; empty if it cannot be used
  std::string nccl_problem{};    ///< why not, with the remedy
  std::string library{};         ///< what the program's MPI calls itself; empty: it has none
  std::string mpirun{};          ///< the file that PATH finds; empty: none
  std::string mpirun_says{};     ///< the first line of its --version
  std::string launch_problem{};  ///< why the launcher's variables make no sense, with the remedy
  int launched_ranks = 1;        ///< by a launcher, as far as it says
  std::string launcher{};        ///< "Open MPI", "MPICH or Intel MPI", or empty
  bool slurm = false;            ///< inside of a job of SLURM
  std::string gpus_per_task{};
  std::string gpu_bind{};
  std::optional<int> tasks_per_node{};
  std::optional<int> cores_per_task{};
  std::optional<std::size_t> memory_per_node{};  ///< bytes; 0: all
};

}  // namespace strata
