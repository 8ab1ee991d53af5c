// Makes a training engine on the dry backend and submits its steps. The dry backend runs nothing,
// so a save that is submitted to it has no folder and no contents.

#include "predict/dry_steps.h"

#include <algorithm>
#include <memory>

#include "strata/checkpoint/checkpoint_save.h"
#include "strata/checkpoint/files.h"
#include "strata/engine/training_engine.h"
#include "strata/ops/attention_kernels.h"
#include "strata/ops/backend.h"

namespace strata {

std::vector<std::size_t> submit_steps(const TrainingLayout& layout, const DrySteps& which,
                                      TraceSink& trace, const std::function<void()>& start,
                                      const std::function<std::size_t()>& count) {
  const Backend backend = make_backend(BackendKind::kDry, {.device = {.trace = &trace}});
  const StatePlan& state = layout.state;
  const std::unique_ptr<Ranks> world =
      make_dry_ranks(state.replica * state.ranks + state.rank, state.world());
  const std::unique_ptr<Ranks> shard = make_dry_ranks(state.rank, state.ranks);
  const std::unique_ptr<Ranks> replicas = make_dry_ranks(state.replica, state.replicas);
  GroupCollectives collectives{.shard = make_collectives(*shard, *backend.device),
                               .replicas = make_collectives(*replicas, *backend.device)};
  const std::unique_ptr<Files> files = make_system_files();
  const std::vector<SmallFile> no_files;
  TrainingEngine engine(layout, {backend, *world, collectives},
                        [](const StepOutcome&, std::int64_t) {});
  const auto saves = [&](const SaveKinds&) {
    StateSaver& saver = *engine.saver();
    return Saves{std::make_shared<CheckpointSave>(SaveParts{.files = *files,
                                                            .world = *world,
                                                            .shard = *shard,
                                                            .replica = state.replica,
                                                            .model = *layout.model,
                                                            .layout = saver.layout(),
                                                            .small_files = no_files,
                                                            .writers = saver.writers(),
                                                            .buffers = saver.buffers(),
                                                            .folder = {},
                                                            .retention = {}},
                                                  Manifest{}, "on paper")};
  };
  const std::int64_t tokens = layout.batch.batch.pass_tokens();
  constexpr double kAnyRate = 1;  // nothing is computed
  std::vector<std::size_t> ends;
  start();
  for (int step = 0; step < which.steps; ++step) {
    engine.submit(step, kAnyRate, [&](int, const PassBuffers&) { return tokens; },
                  {.due = {.whole = step == which.saved}, .make = saves});
    ends.push_back(count());
  }
  engine.optimizer().submit_updates({.phase = "update"});
  return ends;
}

PaperWeights weights_of(const TrainingLayout& layout, const StepSize& size) {
  return {.cell = static_cast<double>(layout.walk.cells) / size.cells,
          .layer = static_cast<double>(layout.walk.layers) / size.layers,
          .chunk = static_cast<double>(size.chunk_factor),
          .layers = size.layers};
}

KnownRates rates_of(const TrainingLayout& layout, const RatedDevice& device) {
  const StatePlan& state = layout.state;
  return known_rates(device.name, device.hardware,
                     {.ranks = state.ranks,
                      .replicas = state.replicas,
                      .on_host = std::min(state.world(), device.ranks_on_host)},
                     device.stored);
}

std::string why_unpredictable(const TrainingLayout& layout, const RatedDevice& device,
                              const KnownRates& known) {
  if (layout.sizes.compute != DType::kBF16) return "rates are those of bf16";
  const HardwareSection& hardware = device.hardware;
  const bool attention_given =
      hardware.attention_forward_tflops && hardware.attention_backward_tflops;
  if (device.attention != AttentionKernels::kAuto && !attention_given) {
    return "rates are those of kernels.attention auto; set hardware.attention_forward_tflops and "
           "attention_backward_tflops";
  }
  return why_rates_are_missing(device.name, known);
}

std::string why_rates_are_missing(std::string_view device, const KnownRates& known) {
  if (known.missing.empty()) return {};
  const char* why = device.empty()
                        ? "no GPU is named, and this machine has none; name one with --gpu, or set "
                        : "nobody has measured this device; set ";
  return why + known.missing;
}

}  // namespace strata
