// `plan` makes the setup that a run would make, on a machine of which it knows the GPU's name and
// limits, and prints its bytes, its blocks, what was chosen and what is predicted. The ranks may be
// those of a launcher, of which rank 0 prints, or exist on paper only (--ranks).

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "commands/generation_job.h"
#include "commands/planned_machine.h"
#include "strata/base/error.h"
#include "strata/base/host_memory.h"
#include "strata/comm/ranks.h"
#include "strata/commands/commands.h"
#include "strata/plan/budget.h"
#include "strata/plan/choose_placement.h"
#include "strata/plan/prediction.h"
#include "strata/plan/save_prediction.h"

namespace strata {

namespace {

/// Returns the rank that is planned for: that of a launcher, or rank 0 of --ranks. Throws
/// ConfigError if the options contradict it or each other.
std::unique_ptr<Ranks> planned_ranks(const PlanOptions& options) {
  std::unique_ptr<Ranks> world = make_world_ranks();
  if (options.ranks && world->size() > 1) {
    throw ConfigError("--ranks: a launcher has started " + std::to_string(world->size()) +
                      " ranks, which are planned for; leave out one of them");
  }
  const int ranks = options.ranks.value_or(world->size());
  const int per_node = options.ranks_per_node.value_or(1);
  if (per_node > ranks) {
    throw ConfigError("--ranks-per-node: " + std::to_string(per_node) + " ranks cannot be on one " +
                      "host if there are " + std::to_string(ranks) + "; raise --ranks");
  }
  return options.ranks ? make_dry_ranks(0, ranks) : std::move(world);
}

/// Returns how many ranks a host has: of those on paper all, if nobody says otherwise.
int ranks_on_host(const PlanOptions& options, Ranks& ranks) {
  if (options.ranks_per_node) return *options.ranks_per_node;
  return options.ranks ? ranks.size() : launched_on_host().value_or(ranks.size());
}

/// Returns the place of the first rank; on paper all hosts have as many ranks.
GroupPlace planned_place(const RunConfig& config, const PlanOptions& options, Ranks& ranks) {
  if (!options.ranks || config.run.shard_group == ShardGroup::kAll) {
    return RankGroups(ranks, config.run.shard_group).place();
  }
  const int per_node = ranks_on_host(options, ranks);
  if (ranks.size() % per_node != 0) {
    throw ConfigError("--ranks: hosts of " + std::to_string(per_node) + " ranks do not add up to " +
                      std::to_string(ranks.size()) +
                      ", and run.shard_group \"node\" needs as many on each");
  }
  return {.ranks = per_node, .replicas = ranks.size() / per_node};
}

/// Returns a line about the device that the plan is made for.
std::string run_device_text(const DeviceInfo& device) {
  if (!device.name.empty()) return device_text(device);
  return "planned for no GPU in particular: without memory.device_limit every boundary "
         "activation "
         "is planned on the device, and nothing more is kept by schedule.activations auto\n";
}

/// Returns a line about what a save takes; empty if the run saves none.
std::string save_text(const Setup& setup, const std::string& device) {
  if (!setup.snapshots) return {};
  return predict_save(setup, device, setup.hardware.disk_gbs).to_string();
}

}  // namespace

int plan_command(const RunConfig& config, const PlanOptions& options) {
  if (options.generation) return plan_generation(config, options);
  const std::unique_ptr<Ranks> ranks = planned_ranks(options);
  const BackendChoice backend = planned_backend(config);
  const DeviceInfo device = planned_device(backend, options.gpu);
  MachineMemory machine = planned_machine(backend, device);
  machine.ranks_on_host = ranks_on_host(options, *ranks);
  // Of another machine, which has the GPU that is named, nothing is known but what the config says.
  if (options.ranks_per_node && options.gpu.empty()) {
    machine.host = read_host_memory();
    machine.sharers = *options.ranks_per_node;
  }
  const Budget budget = make_budget(config.memory, machine);
  const Placement placement =
      choose_placement(config, PlannedRank{.place = planned_place(config, options, *ranks),
                                           .budget = budget,
                                           .device = device.name});
  if (ranks->rank() != 0) return 0;
  const Setup& setup = placement.setup;
  const std::string text = run_device_text(device) + setup.to_string() + "blocks:\n" +
                           setup.blocks_text() + placement.to_string() +
                           predict(setup, device.name).to_string() + save_text(setup, device.name);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace strata
