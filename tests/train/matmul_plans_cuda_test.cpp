// Tests what a session makes of the plans of matrix products in its run folder, on a GPU.

#include <cstddef>
#include <filesystem>
#include <string>

#include "strata/ops/backend.h"
#include "support/catch.h"
#include "support/scratch_folder.h"
#include "support/session_run.h"
#include "support/without_gpu.h"
#include "train/matmul_plans.h"

namespace strata::test {
TEST_CASE("a run on the GPU uses the plans of its folder, and goes on with the same bits",
          "[cuda]") {
  if (without_gpu()) return;
  namespace fs = std::filesystem;
  const ScratchFolder scratch;
  const fs::path folder = scratch.file("run");
  SessionHooks hooks;
  hooks.run_folder = folder;
  RunConfig config = tiny_gpu_config(DType::kBF16);
  const RunResult first_proposals = run_session(config);
  config.kernels.matmul_tuning = MatmulTuning::kAuto;
  config.kernels.plan_cache = "";
  const RunResult tuned = run_session(config, 1, hooks);
  MatmulPlanSet plans = load_plan_set(folder / "plans.json");
  CHECK(run_session(config, 1, hooks) == tuned);
  CHECK(relative_error(tuned.losses, first_proposals.losses) < 4e-3);
  const MatmulPlanSet again = load_plan_set(folder / "plans.json");
  REQUIRE(again.plans.size() == plans.plans.size());
  for (std::size_t i = 0; i < plans.plans.size(); ++i) {
    CHECK(to_line(again.plans[i]) == to_line(plans.plans[i]));
  }
  // The kernel for products without algorithm adds in another order.
  for (MatmulPlan& plan : plans.plans) plan.algorithm = "plain";
  save_plan_set(plans, folder / "plans.json");
  const RunResult plain = run_session(config, 1, hooks);
  CHECK(plain.losses != tuned.losses);
  CHECK(relative_error(plain.losses, tuned.losses) < 4e-3);
}

}  // namespace strata::test
