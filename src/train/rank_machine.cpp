// Ranks first tell each other how they were started, so that what does not fit together is refused
// before a device is touched. rank_machine.h is the contract.

#include "train/rank_machine.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "strata/base/log.h"
#include "strata/base/narrow.h"
#include "strata/comm/core_binding.h"
#include "strata/launch/backend_choice.h"
#include "strata/launch/launch_checks.h"
#include "strata/launch/rank_agreement.h"

namespace strata {

namespace {

std::string joined_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return text;
}

/// Returns the backend that the config asks for or, with "auto", that can run it. Throws
/// ConfigError if "auto" becomes a backend that cannot.
BackendKind choose_backend(const RunConfig& config) {
  const BackendKind kind = backend_of(config.run.backend, config.run.dtype);
  if (config.run.backend == BackendChoice::kAuto && kind == BackendKind::kCuda) {
    config.validate_for(BackendChoice::kCuda, "run.backend \"auto\" found a CUDA device");
  }
  const bool fell_to_cpu = config.run.backend == BackendChoice::kAuto &&
                           kind == BackendKind::kCpu && config.run.dtype != DType::kF64;
  if (fell_to_cpu) say_cpu_instead(cpu_instead_here(), "run.backend");
  return kind;
}

BackendOptions backend_options(const RunConfig& config, const SessionHooks& hooks) {
  BackendOptions options;
  options.threads = narrow<int>(config.run.threads);
  options.attention = config.kernels.attention;
  options.device.execution = config.debug.execution;
  options.device.shuffle_seed = static_cast<std::uint64_t>(config.debug.shuffle_seed);
  options.device.poison_slots = config.debug.poison_slots;
  options.device.synchronize_each = config.debug.synchronize_each;
  options.device.omit_wait = hooks.omit_wait;
  options.device.trace = hooks.trace;
  return options;
}

/// Muon alone makes state of products that each replica computes for itself.
GpuModels models_for(const RunConfig& config, const GroupPlace& place) {
  const bool apart = place.replicas > 1 && config.optimizer.kind == OptimizerKind::kMuon;
  return apart ? GpuModels::kOne : GpuModels::kAny;
}

/// Throws AgreedError if several ranks cannot work together as they were started; logs how they
/// were. Gives each a GPU, and cores and threads that no other rank has.
void place_ranks(BackendKind kind, const RunConfig& config, const GroupPlace& place, Ranks& ranks,
                 BackendOptions& options) {
  const std::vector<LaunchFacts> facts = gather_launch_facts(kind, ranks);
  if (ranks.size() > 1) {
    const LaunchFindings found = check_launch(facts, models_for(config, place));
    log::info("{}", map_of_ranks(facts));
    if (!found.errors.empty()) {
      throw AgreedError(joined_lines(found.errors), ConfigError("").exit_code());
    }
    for (const std::string& warning : found.warnings) {
      if (ranks.rank() == 0) log::warn("{}", warning);
    }
  }
  const int rank = ranks.rank();
  const LaunchFacts& own = facts[static_cast<std::size_t>(rank)];
  options.device.device_index = gpu_of_local_rank(local_rank(facts, rank), own.visible_gpus);
  std::vector<RankCores> cores;
  for (const LaunchFacts& other : facts) cores.push_back(other.cores);
  if (config.run.bind == ThreadBinding::kAuto) options.cores = cores_to_bind(cores, rank);
  if (options.threads == 0 && options.cores.empty()) {
    options.threads = own_threads(cores, rank, usable_cores());
  }
  if (config.run.bind == ThreadBinding::kShare) keep_to_own_share(cores, rank);
}

}  // namespace

RankMachine start_machine(const RunConfig& config, const SessionHooks& hooks, RankGroups& groups,
                          Ranks& ranks, WorkProgress& work) {
  BackendKind kind{};
  fail_together(ranks, [&] { kind = choose_backend(config); });
  if (config.debug.execution == Execution::kShuffled && ranks.size() > 1) {
    throw AgreedError(
        "debug.execution: \"shuffled\" has one thread for all lanes, and several ranks would wait "
        "for each other (start one rank, or set \"threads\" or \"eager\")",
        ConfigError("").exit_code());
  }
  work.begin("starting the device");
  BackendOptions options = backend_options(config, hooks);
  place_ranks(kind, config, groups.place(), ranks, options);
  RankMachine machine;
  machine.backend =
      hooks.make_backend ? hooks.make_backend(kind, options) : make_backend(kind, options);
  if (config.run.products != Products::kPlain) {
    const DeviceInfo device = machine.backend.device->info();
    fail_together(ranks, [&] { require_products(config.run.products, device); });
  }
  machine.collectives = hooks.make_collectives
                            ? hooks.make_collectives(groups, *machine.backend.device)
                            : make_group_collectives(groups, *machine.backend.device);
  return machine;
}

}  // namespace strata
