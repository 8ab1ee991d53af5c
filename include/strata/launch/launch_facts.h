// What each rank finds about its place before the run takes anything: host, GPU, versions, cores.
// A session has all ranks exchange it; launch_checks.h says what is wrong with it.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "strata/comm/core_binding.h"
#include "strata/comm/ranks.h"
#include "strata/ops/backend.h"

namespace strata {

/// A text that travels between ranks as plain bytes; what does not fit is cut off.
class ShortText {
 public:
  ShortText() = default;
  ShortText(std::string_view text) : size_(std::min(text.size(), bytes_.size())) {
    std::copy_n(text.begin(), size_, bytes_.begin());
  }
  ShortText(const std::string& text) : ShortText(std::string_view(text)) {}
  ShortText(const char* text) : ShortText(std::string_view(text)) {}
  [[nodiscard]] std::string_view view() const { return {bytes_.data(), size_}; }

 private:
  std::array<char, 120> bytes_{};
  std::size_t size_ = 0;
};

/// What one rank tells the others of its place. The ranks of a machine are those whose
/// `cores.machine` is equal: names of hosts are for people, as containers may share one or have
/// several on one machine.
struct LaunchFacts {
  ShortText host;            ///< its name
  RankCores cores;           ///< which machine it is, and where on it the rank may run
  int machine_cores = 0;     ///< cores of the whole machine
  int launched_on_host = 0;  ///< ranks that the launcher says are on this host; 0: does not say
  ShortText backend;         ///< "cpu" or "cuda"
  int visible_gpus = 0;      ///< to this rank; the other members are of the one that it takes
  ShortText gpu;             ///< name; empty without a GPU
  ShortText pci_bus_id;      ///< "0000:1B:00.0"
  ShortText uuid;            ///< tells parts of one GPU (MIG) apart
  int driver_version = 0;    ///< CUDA version that the driver offers, as 12080
  int runtime_version = 0;   ///< CUDA version of the program's runtime, as 12080
  ShortText nccl;            ///< version of NCCL; empty if the rank cannot use it
  ShortText nccl_problem;    ///< why not; what does not fit is in the log of the rank
  int numa_node = -1;        ///< of the GPU; -1: unknown
};

/// Returns how many of the ranks before `rank` are on its machine: the place of a rank there.
[[nodiscard]] int local_rank(const std::vector<LaunchFacts>& ranks, int rank);
/// Returns the number of ranks on the machine of rank `rank`.
[[nodiscard]] int local_ranks(const std::vector<LaunchFacts>& ranks, int rank);
/// Returns which of its visible GPUs a rank takes: that of its place on the machine, or the first
/// if it sees fewer.
[[nodiscard]] int gpu_of_local_rank(int local_rank, int visible_gpus);

/// Returns the facts of all ranks, by rank. It makes no context on a GPU and takes no memory there.
/// All ranks call it; it blocks. Throws AgreedError if the launcher's variables are nonsense.
[[nodiscard]] std::vector<LaunchFacts> gather_launch_facts(BackendKind kind, Ranks& ranks);

}  // namespace strata
