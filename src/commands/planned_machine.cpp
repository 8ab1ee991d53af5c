// Answers for a machine of which little is known: what the command line says of it, and else what
// this one is.

#include "commands/planned_machine.h"

#include <algorithm>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/device/gpu_models.h"
#include "strata/launch/command_ranks.h"
#include "strata/ops/backend.h"
#include "strata/plan/setup.h"
#include "strata/predict/stored_rates.h"

namespace strata {

namespace {

/// Returns the name by which rates of the cpu backend are known.
std::string processor_name() {
  BackendOptions options;
  options.threads = 1;
  return make_backend(BackendKind::kCpu, options).device->info().name;
}

}  // namespace

BackendChoice planned_backend(const RunConfig& config) {
  return config.run.backend == BackendChoice::kCpu ? BackendChoice::kCpu : BackendChoice::kCuda;
}

DeviceInfo planned_device(BackendChoice backend, const std::string& gpu) {
  if (backend == BackendChoice::kCpu) {
    if (gpu.empty()) return {.backend = "cpu", .name = processor_name()};
    throw ConfigError("--gpu: run.backend is \"cpu\"; leave out one of them");
  }
  if (gpu.empty()) return cuda_device_info().value_or(DeviceInfo{.backend = "cuda", .name = {}});
  const GpuModel& model = gpu_named(gpu);
  return {.backend = "cuda",
          .name = std::string(model.cuda_names.front()),
          .memory_bytes = model.memory_bytes(),
          .peak_bf16_tflops = model.peak_tflops};
}

MachineMemory planned_machine(BackendChoice backend, DeviceInfo device) {
  const std::size_t overhead = estimated_device_overhead(backend);
  device.free_bytes = device.memory_bytes - std::min(device.memory_bytes, overhead);
  return {.device = std::move(device),
          .device_in_use = overhead,
          .host = {},
          .resident = estimated_host_overhead(backend)};
}

std::unique_ptr<Ranks> planned_ranks(std::string_view command, const PlanOptions& options) {
  std::unique_ptr<Ranks> world = make_command_ranks(command);
  const int launched = world->size();
  if (options.ranks && launched > 1) {
    world.reset();  // ranks part before one of them throws
    throw ConfigError("--ranks: a launcher has started " + std::to_string(launched) +
                      " ranks, which are planned for; leave out one of them");
  }
  const int ranks = options.ranks.value_or(launched);
  const int per_node = options.ranks_per_node.value_or(1);
  if (per_node > ranks) {
    world.reset();
    throw ConfigError("--ranks-per-node: " + std::to_string(per_node) + " ranks cannot be on one " +
                      "host if there are " + std::to_string(ranks) + "; raise --ranks");
  }
  if (options.ranks_per_node && ranks % per_node != 0) {
    world.reset();
    throw ConfigError("--ranks-per-node: hosts of " + std::to_string(per_node) +
                      " ranks do not add up to " + std::to_string(ranks) +
                      "; give a number that divides --ranks");
  }
  return options.ranks ? make_dry_ranks(0, ranks) : std::move(world);
}

int ranks_on_host(const PlanOptions& options, Ranks& ranks) {
  if (options.ranks_per_node) return *options.ranks_per_node;
  return options.ranks ? ranks.size() : launched_on_host().value_or(ranks.size());
}

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

std::optional<std::int64_t> planned_threads(const RunConfig& config, const PlanOptions& options,
                                            Ranks& ranks) {
  const std::int64_t given = config.run.threads;
  if (!options.gpu.empty() && given == 0) return std::nullopt;
  if (!options.ranks) return threads_on_host(config, ranks);
  return given > 0 ? given * ranks_on_host(options, ranks) : threads_alone(config);
}

std::string device_text(const DeviceInfo& device) {
  if (device.name.empty()) {
    return "planned for no GPU in particular: without memory.device_limit every boundary "
           "activation "
           "is planned on the device, and nothing more is kept by schedule.activations auto\n";
  }
  if (device.memory_bytes == 0) return {};
  std::string text = "planned for " + device.name + ", " + format_bytes(device.memory_bytes);
  if (const GpuModel* model = gpu_of_device(device.name)) {
    text += fmt::format(", compute capability {}.{}, {} multiprocessors", model->capability / 10,
                        model->capability % 10, model->multiprocessors);
    if (model->pcie > 0) text += fmt::format(", PCIe {}", model->pcie);
  }
  return text + "\n";
}

}  // namespace strata
