// What depends on the machine, such as its device and the rates that were stored, is agreed on
// before the placement is chosen by it. session_plan.h is the contract.

#include "train/session_plan.h"

#include <optional>
#include <string>
#include <utility>

#include "strata/launch/rank_agreement.h"
#include "strata/plan/budget.h"
#include "strata/predict/stored_rates.h"

namespace strata {

SessionPlan plan_session(const RunConfig& config, Device& device, const RankGroups& groups,
                         Ranks& ranks) {
  const std::string name = agree_on_device(device.info().name, ranks);
  const std::optional<StoredRates> stored = agree_on_stored_rates(config, name, ranks);
  const MachineMemory machine = measure_machine(device, ranks);
  const Budget budget = agree_on_budget(make_budget(config.memory, machine), ranks);
  SessionPlan plan;
  fail_together(ranks, [&] {
    Placement placement = choose_placement(
        config,
        PlannedRank{.place = groups.place(), .budget = budget, .device = name, .stored = stored});
    plan.setup = std::move(placement.setup);
    plan.resolved = resolve(config, plan.setup);
    plan.choices = std::move(placement.choices);
  });
  if (const std::string differences = disagreement(facts_of_plan(plan.resolved), ranks);
      !differences.empty()) {
    throw AgreedError(
        "the ranks' machines let them plan differently, and they could not work together; set "
        "these keys, or give all ranks the same kind of GPU:" +
            differences,
        ConfigError("").exit_code());
  }
  return plan;
}

}  // namespace strata
