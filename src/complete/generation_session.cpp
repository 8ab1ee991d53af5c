// The model's files are checked before memory is taken, so that what is wrong with them is said at
// once.

#include "strata/complete/generation_session.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/work_meter.h"
#include "strata/launch/backend_choice.h"
#include "strata/launch/command_ranks.h"
#include "strata/model/families.h"
#include "strata/model/safetensors.h"
#include "strata/model/weights_check.h"
#include "strata/plan/budget.h"
#include "strata/predict/stored_rates.h"

namespace strata {

namespace {

std::unique_ptr<Ranks> single_rank(std::string_view command) {
  std::unique_ptr<Ranks> ranks = make_command_ranks(command);
  const int count = ranks->size();
  if (count == 1) return ranks;
  ranks.reset();  // they part before one of them throws
  throw ConfigError(std::string(command) + ": generation runs on one rank, and a launcher has " +
                    "started " + std::to_string(count) + "; start the program without it");
}

Backend make_generation_backend(const GenerationOptions& options) {
  if (options.dtype == DType::kF64 && options.backend == BackendChoice::kCuda) {
    throw ConfigError("--dtype: the cuda backend has no f64; take f32 or bf16, or --backend cpu");
  }
  const DType dtype = options.dtype.value_or(DType::kBF16);  // that of weights is never f64
  const BackendKind kind = backend_of(options.backend, dtype);
  if (options.backend == BackendChoice::kAuto && kind == BackendKind::kCpu &&
      dtype != DType::kF64 && !options.make_backend) {
    say_cpu_instead(cpu_instead_here(), "--backend");
  }
  const BackendOptions made{.device = options.device, .threads = options.threads};
  return options.make_backend ? options.make_backend(kind, made) : make_backend(kind, made);
}

/// Returns bf16 if all weights of the model are in it, else f32.
DType dtype_of(const SafetensorsDirectory& files) {
  const auto is_bf16 = [&](const std::string& name) {
    return files.info(name).dtype == StoredType::kBF16;
  };
  return std::ranges::all_of(files.tensors(), is_bf16) ? DType::kBF16 : DType::kF32;
}

/// Writes the weights that have an adapter, with it, in the place of those without.
template <class T>
void write_merged(const MergedWeights& weights, BlockId id, TrainingState& state,
                  ThreadPool& pool) {
  constexpr std::int64_t kPart = std::int64_t{1} << 24;  // elements in memory at a time
  constexpr std::int64_t kPiece = std::int64_t{1} << 16;
  const Block& block = state.layout().blocks[id];
  std::vector<T> values;
  for (const SourceRun& part : source_runs(block, 0, block.elements, kPart)) {
    const std::string& name = part.source->name;
    if (!weights.changes(name)) continue;
    values.resize(static_cast<std::size_t>(part.count));
    pool.parallel_for(part.count, kPiece, [&](std::int64_t begin, std::int64_t end) {
      const std::span<T> piece = std::span(values).subspan(static_cast<std::size_t>(begin),
                                                           static_cast<std::size_t>(end - begin));
      weights.read(name, part.source_begin + begin, piece);
      require_finite(name, part.source_begin + begin, std::span<const T>(piece));
    });
    state.write(id, &BlockState::weight, part.block_begin, std::as_bytes(std::span(values)));
  }
}

void write_merged(const MergedWeights& weights, DType dtype, TrainingState& state,
                  ThreadPool& pool) {
  for (const BlockId id : state.ids()) {
    switch (dtype) {
      case DType::kF64: write_merged<double>(weights, id, state, pool); break;
      case DType::kF32: write_merged<float>(weights, id, state, pool); break;
      default: write_merged<Bf16>(weights, id, state, pool);
    }
  }
}

}  // namespace

GenerationSession::GenerationSession(const GenerationOptions& options, Unstarted)
    : options_(options),
      ranks_(single_rank(options.command)),
      groups_(*ranks_, ShardGroup::kAll),
      backend_(make_generation_backend(options)),
      collectives_(make_group_collectives(groups_, *backend_.device)) {}

// Delegates, so that an error below comes after construction and the destructor ends what runs.
GenerationSession::GenerationSession(const GenerationOptions& options)
    : GenerationSession(options, Unstarted()) {
  WorkProgress work;
  const WorkMeter meter(work);
  work.begin("looking through the model's folder");
  GenerationNeeds needs = options.needs;
  if (options.random_model) {
    needs.compute = options.dtype.value_or(DType::kBF16);
    work.begin("taking memory");
    take_memory(*options.random_model, needs);
    TrainingState& state = engine_->state();
    work.begin("drawing weights", {.total = state.weight_bytes()});
    state.initialize(0, options.random_model->initializer_range, *backend_.pool, &work);
    return;
  }
  const LlamaConfig model = load_llama_config(options.folder / "config.json");
  const MergedWeights weights = options.open_weights
                                    ? options.open_weights()
                                    : MergedWeights(SafetensorsDirectory(options.folder));
  const std::string unused = check_weights(weights.files(), make_layout(spec_of(model)));
  if (!unused.empty()) log::warn("{}", unused);
  needs.compute = options.dtype.value_or(dtype_of(weights.files()));
  work.begin("taking memory");
  take_memory(model, needs);
  TrainingState& state = engine_->state();
  work.begin("reading weights", {.total = state.weight_bytes()});
  state.load(weights.files(), *backend_.pool, &work);
  if (!weights.changes_any()) return;
  work.begin("adding adapters");
  write_merged(weights, needs.compute, state, *backend_.pool);
}

/// What products take of the device is known only when they are prepared, for a number of sequences
/// that is decided before. So memory is measured twice, and what was chosen by the first
/// measurement is given up as far as the second, or the device, does not have it.
void GenerationSession::take_memory(const LlamaConfig& model, GenerationNeeds needs) {
  const auto budget = [&] {
    return make_budget(options_.memory, measure_machine(*backend_.device, *ranks_));
  };
  RunConfig config;
  config.hardware = options_.hardware;
  config.kernels = options_.kernels;
  config.run.threads = options_.threads;
  rated_ = {device_name(), options_.hardware,
            find_stored_rates(config, device_name(), threads_alone(config))};
  const GenerationChoice choice =
      choose_generation(model, {needs, options_.sequences, options_.load}, budget(), rated_);
  choice_text_ = choice.text;
  const GenerationNeeds open = needs;
  needs.sequences = choice.setup.sequences;
  needs.kv_slots = choice.setup.kv.slots;
  needs.host_attention = choice.setup.kv.attended_at_home();
  needs.fetched_layers = choice.setup.kv.fetched_layers();
  needs.groups = choice.setup.kv.groups;
  needs.sweep_tokens = choice.setup.sweep.tokens;
  needs.cell_tokens = choice.setup.sizes.cell_tokens;
  const bool device_is_host = backend_.device->info().backend == "cpu";
  while (true) {
    try {
      LlamaForward::prepare(spec_of(model), forward_sizes(needs, device_is_host),
                            *backend_.kernels);
      setup_ = make_generation_setup(model, needs, budget());
      engine_ = std::make_unique<GenerationEngine>(setup_, backend_, *collectives_.shard);
      return;
    } catch (const OutOfMemory&) {
      choice_text_.clear();
      std::int64_t sequences = needs.sequences;
      if (needs.kv_slots == open.kv_slots) {  // wherever keys and values are
        if (options_.sequences || sequences == 1) throw;
        sequences /= 2;
      }
      needs = open;
      needs.sequences = sequences;
    }
  }
}

GenerationPrediction GenerationSession::predict() const {
  return predict_generation(setup_, options_.load, rated_);
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
