// A program that mpirun starts on as many ranks as there are GPUs to try: what collectives promise,
// by NCCL, a GPU for each rank. Exit code 1 if a promise does not hold, 77 if there are too few
// GPUs.
#include <cstdio>
#include <exception>
#include <memory>

#include "comm/checks.h"
#include "strata/ops/backend.h"

namespace {

using namespace strata;

/// Returns the GPU of this rank; all ranks are on one host.
CommMachine gpu_machine(int rank) {
  return {.device = [rank] {
    BackendOptions options;
    options.device.device_index = rank;
    return std::move(make_backend(BackendKind::kCuda, options).device);
  }};
}

int run_gpu_checks(Ranks& ranks) {
  if (cuda_device_count() < ranks.size()) {
    std::fprintf(stderr, "skipped: %d ranks, and %d GPUs\n", ranks.size(), cuda_device_count());
    return 77;
  }
  for (const CollectivesCheck& check : collectives_checks()) {
    try {
      check.run(ranks, gpu_machine(ranks.rank()));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "FAILED: %s: %s\n", check.name, error.what());
      ranks.abort(1);  // the others may be at another place
    }
    if (ranks.rank() == 0) std::printf("passed: %s\n", check.name);
  }
  return 0;
}

}  // namespace

int main() {
  try {
    const std::unique_ptr<Ranks> ranks = make_mpi_ranks();
    return run_gpu_checks(*ranks);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
