// The model's files are checked before memory is taken, so that what is wrong with them is said at
// once.

#include "strata/run/generation_session.h"

#include <algorithm>
#include <exception>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/model/safetensors.h"
#include "strata/model/weights_check.h"
#include "strata/plan/budget.h"

namespace strata {

namespace {

std::unique_ptr<Ranks> single_rank() {
  std::unique_ptr<Ranks> ranks = make_world_ranks();
  if (ranks->size() > 1) {
    throw ConfigError("generation runs on one rank, and a launcher has started " +
                      std::to_string(ranks->size()) + "; start the program without it");
  }
  return ranks;
}

/// f64 exists on the cpu only.
Backend make_generation_backend(const GenerationOptions& options) {
  const bool f64 = options.dtype == DType::kF64;
  if (f64 && options.backend == BackendChoice::kCuda) {
    throw BackendError("the cuda backend has no f64: use --dtype f32 or bf16, or --backend cpu");
  }
  const bool cuda = options.backend == BackendChoice::kCuda ||
                    (options.backend == BackendChoice::kAuto && !f64 && cuda_available());
  return make_backend(cuda ? BackendKind::kCuda : BackendKind::kCpu,
                      {.device = options.device, .threads = options.threads});
}

/// Returns bf16 if all weights of the model are in it, else f32.
DType dtype_of(const SafetensorsDirectory& files) {
  const auto is_bf16 = [&](const std::string& name) {
    return files.info(name).dtype == StoredType::kBF16;
  };
  return std::ranges::all_of(files.tensors(), is_bf16) ? DType::kBF16 : DType::kF32;
}

}  // namespace

GenerationSession::GenerationSession(const GenerationOptions& options)
    : ranks_(single_rank()),
      groups_(*ranks_, ShardGroup::kAll),
      backend_(make_generation_backend(options)),
      collectives_(make_group_collectives(groups_, *backend_.device)) {
  const LlamaConfig model = load_llama_config(options.folder / "config.json");
  const SafetensorsDirectory files(options.folder);
  const std::string unused = check_weights(files, make_layout(model));
  if (!unused.empty()) log::warn("{}", unused);
  GenerationNeeds needs = options.needs;
  needs.compute = options.dtype.value_or(dtype_of(files));
  const bool device_is_host = backend_.device->info().backend == "cpu";
  LlamaForward::prepare(model, forward_sizes(needs, device_is_host), *backend_.kernels);
  const Budget budget = make_budget(options.memory, measure_machine(*backend_.device, *ranks_));
  setup_ = make_generation_setup(model, needs, budget);
  assembly_ = std::make_unique<GenerationAssembly>(setup_, backend_, *collectives_.shard);
  assembly_->state().load(files, *backend_.pool);
}

/// Work in flight refers to members, so it ends before they go.
GenerationSession::~GenerationSession() {
  if (!backend_.device) return;
  try {
    backend_.device->synchronize();
  } catch (const std::exception& error) {
    log::debug("while ending generation: {}", error.what());
  }
}

}  // namespace strata
