// `plan`: makes the setup that a run would make, on a machine that only has limits, and prints its
// bytes, its blocks, what was chosen and what is predicted.

#include <cstdio>

#include "strata/comm/ranks.h"
#include "strata/commands/commands.h"
#include "strata/plan/choose_placement.h"
#include "strata/plan/prediction.h"
#include "strata/plan/rates.h"

namespace strata {

int plan_command(const RunConfig& config) {
  const std::unique_ptr<Ranks> ranks = make_world_ranks();
  Budget budget;
  if (config.memory.device_limit) budget.device_limit = config.memory.device_limit->bytes;
  if (config.memory.host_limit) budget.host_limit = config.memory.host_limit->bytes;
  // "auto" plans for a GPU, because that is what people ask a plan for.
  const BackendChoice backend =
      config.run.backend == BackendChoice::kCpu ? BackendChoice::kCpu : BackendChoice::kCuda;
  budget.device_is_host = backend == BackendChoice::kCpu;
  budget.device_overhead = estimated_device_overhead(backend);
  budget.peak_tflops = estimated_peak_tflops(backend);
  budget.host_overhead = estimated_host_overhead(backend);
  const std::string_view device = budget.device_is_host ? "cpu" : kPlannedDevice;
  const Placement placement =
      choose_placement(config, PlannedRank{ranks->rank(), ranks->size(), budget, device});
  const Setup& setup = placement.setup;
  if (ranks->rank() != 0) return 0;
  std::fputs(setup.to_string().c_str(), stdout);
  std::fputs(("blocks:\n" + setup.blocks_text()).c_str(), stdout);
  if (!budget.device_limit && !budget.device_is_host) {
    std::fputs(
        "no memory.device_limit: every boundary activation is planned on the device, and "
        "nothing more is kept by schedule.activations auto\n",
        stdout);
  }
  std::fputs(placement.to_string().c_str(), stdout);
  std::fputs(predict(setup, device).to_string().c_str(), stdout);
  return 0;
}

}  // namespace strata
