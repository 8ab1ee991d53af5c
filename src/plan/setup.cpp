// Makes a setup: shapes from the config, memory by rules. It also makes the config that is written
// out from a setup. The rules themselves are in files of their own; the text of a setup is in
// setup_text.cpp.

#include "strata/plan/setup.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>

#include "plan/memory_rules.h"
#include "plan/plan_inputs.h"
#include "plan/refusal.h"
#include "plan/require_fit.h"
#include "strata/base/bytes.h"
#include "strata/base/narrow.h"
#include "strata/plan/sample_setup.h"

namespace strata {

namespace {

int to_int(std::int64_t value) { return narrow<int>(value); }

/// Returns what decides the rows of blocks; how many units are resident, where gradients are summed
/// and an undo log that nobody named are decided later, by memory.
StateChoices state_choices(const RunConfig& given, const PlanChoices& choices,
                           const PlannedRank& planned) {
  const OptimizerSection& o = given.optimizer;
  return {.compute = given.run.dtype,
          .gradient = given.gradient_dtype(),
          .moment = o.moment_dtype,
          .base_form = given.adapter ? given.adapter->base_format : Form::kPlain,
          .moments = moments_of(o.kind),
          .split = o.master == MasterWeights::kSplit,
          .muon = o.kind == OptimizerKind::kMuon,
          .passes = to_int(given.schedule.passes),
          .gradient_ring =
              to_int(std::min(o.gradient_ring.value_or(0), given.model.llama.num_hidden_layers)),
          .rank = planned.place.rank,
          .ranks = planned.place.ranks,
          .replica = planned.place.replica,
          .replicas = planned.place.replicas,
          .interleave = choices.interleave,
          .timing = o.timing,
          .deferred_units = choices.deferred_units,
          .undo_log = o.undo_log ? std::optional(o.undo_log->bytes) : std::nullopt};
}

BatchStoreShape batch_shape(const RunConfig& given) {
  const ScheduleSection& schedule = given.schedule;
  return {.batch = {.rows = schedule.rows,
                    .tokens = given.data.sequence_length,
                    .sub_batches = schedule.sub_batches},
          .mask = given.data.document_mask ? DocumentMask::kOn : DocumentMask::kOff,
          .scale = accumulator_of(given.run.dtype),
          .host_slots = to_int(2 * schedule.passes),
          .pairs = given.train.objective.has_value(),
          .reference_logs = given.train.reference == ReferenceFrom::kStored};
}

/// Returns a setup without its plan: what the config and the choices say, and no limit changes.
Setup describe_training(const RunConfig& config, const PlanChoices& choices,
                        const PlannedRank& planned) {
  Setup s;
  s.spec = config.spec();
  s.hardware = config.hardware;
  s.stored = planned.stored;
  s.attention = config.kernels.attention;
  s.budget = planned.budget;
  s.limits = config.memory;
  s.spill = choices.spill;
  s.weights_every_steps = config.checkpoint.weights_every_steps;
  const ScheduleSection& schedule = config.schedule;
  s.model = std::make_shared<const ModelLayout>(make_layout(s.spec));
  s.sizes = llama_sizes(config);
  const OptimizerSection& o = config.optimizer;
  const int layers = s.spec.layers();
  s.choices = state_choices(config, choices, planned);
  s.batch = batch_shape(config);
  s.activations = {.layers = layers,
                   .cells = to_int(schedule.sub_batches),
                   .cell_tokens = s.sizes.cell_tokens,
                   .hidden = s.spec.width,
                   .dtype = config.run.dtype,
                   .form = schedule.spill_dtype};
  s.walk = {.layers = layers, .cells = s.activations.cells};
  if (config.checkpoint.enabled()) {
    const StatePlan state = plan_state(*s.model, s.choices);
    s.saves = {.types = checkpoint_types(state),
               .writers = to_int(config.checkpoint.writers),
               .staging = config.checkpoint.staging ? config.checkpoint.staging->bytes : 0};
  }
  if (config.run.sample_every > 0) s.samples = make_sample_setup(config, 0);
  constexpr int kWeightSlots = 3;  // one computes while two load
  s.weight_slots = std::min(layers, to_int(schedule.weight_slots.value_or(kWeightSlots)));
  s.gradient_slots = std::min(layers, to_int(schedule.gradient_slots));
  if (s.spec.multiplies_codes()) s.fp8_metrics_every = config.run.fp8_metrics_every;
  s.optimizer = {.kind = o.kind,
                 .beta1 = o.kind == OptimizerKind::kSgd ? o.momentum : o.betas[0],
                 .beta2 = o.betas[1],
                 .nesterov = o.nesterov,
                 .muon_momentum = o.muon_momentum,
                 .eps = o.eps,
                 .weight_decay = o.weight_decay,
                 .decay_norms = o.decay_norms,
                 .lr_factors = o.lr_factors,
                 .weight_decays = o.weight_decays,
                 .grad_clip = o.grad_clip,
                 .timing = o.timing,
                 .on_bad_step = config.on_bad_step(),
                 .max_bad_steps = to_int(config.run.max_nonfinite_steps),
                 .outliers = config.run.outliers,
                 .seed = static_cast<std::uint64_t>(config.run.seed)};
  return s;
}

}  // namespace

std::size_t estimated_device_overhead(BackendChoice backend) {
  // Context, kernels and cuBLASLt workspace of one H200 process; see docs/fitting.md.
  return backend == BackendChoice::kCuda ? 560 * kMiB : 0;
}

std::size_t estimated_host_overhead(BackendChoice backend) {
  return backend == BackendChoice::kCuda ? 560 * kMiB : 32 * kMiB;
}

LlamaSizes llama_sizes(const RunConfig& config) {
  const std::int64_t cell_tokens = config.schedule.rows * config.data.sequence_length;
  const std::int64_t head_chunk = config.schedule.head_chunk_tokens.value_or(
      Llama::default_head_chunk(config.model.llama.vocab_size, cell_tokens));
  return {.compute = config.run.dtype,
          .row_tokens = config.data.sequence_length,
          .cell_tokens = cell_tokens,
          .head_chunk = std::min(cell_tokens, head_chunk),
          .add_dq = config.kernels.attention_backward == AttentionBackwardMode::kFast,
          .preference = config.train.rule()};
}

Setup plan_setup(const RunConfig& given, const PlanChoices& choices, const PlannedRank& planned) {
  static_cast<void>(given.step_rows(planned.place.world()));  // else it throws
  const PlanInputs in{given, choices, Room(planned.budget, given.memory)};
  Setup s = describe_training(given, choices, planned);
  plan_memory(s, in);
  if (s.samples) s.samples = make_sample_setup(given, s.idle_device_bytes());
  return s;
}

RunConfig resolve(const RunConfig& given, const Setup& s) {
  RunConfig config = given;
  config.schedule.weight_slots = s.weight_slots;
  config.schedule.gradient_slots = s.gradient_slots;
  config.schedule.activation_slots = s.activation_slots;
  config.schedule.resident_units = s.choices.resident_units;
  config.schedule.head_chunk_tokens = s.sizes.head_chunk;
  config.schedule.spill = s.spill;
  // It bounds what the rule spills; a level that was chosen instead goes without it.
  if (s.spill && !given.schedule.spill) config.memory.spill_limit.reset();
  config.optimizer.gradient_dtype = s.choices.gradient;
  config.optimizer.deferred_units = s.choices.deferred_units;
  config.optimizer.interleave = s.choices.interleave;
  if (s.choices.undo_log) config.optimizer.undo_log = ByteSize{*s.choices.undo_log};
  return config;
}

RatedDevice Setup::rated(std::string_view device) const {
  return {.name = std::string(device),
          .hardware = hardware,
          .stored = stored,
          .attention = attention,
          .peak_tflops = budget.peak_tflops,
          .ranks_on_host = budget.ranks_on_host};
}

Setup make_setup(const RunConfig& given, const PlanChoices& choices, const PlannedRank& planned) {
  Setup s = plan_setup(given, choices, planned);
  require_fit(s);
  return s;
}

Setup make_setup(const RunConfig& given, int rank, int ranks, const Budget& budget) {
  const PlannedRank planned{
      .place = {.rank = rank, .ranks = ranks}, .budget = budget, .device = {}};
  try {
    return make_setup(given, choices_by_rule(given), planned);
  } catch (const OutOfMemory&) {
    throw OutOfMemory(refusal(given, planned));
  }
}

double Setup::recompute_flops_per_token() const {
  std::array<std::int64_t, std::size(kKeepLevels)> cells{};  // by what they reach
  for (const KeepLevel level : kept.reach) ++cells[static_cast<std::size_t>(level)];
  double flops = 0;
  for (const KeptTensor& tensor : kept_tensors()) {
    const auto again = std::accumulate(
        cells.begin(), cells.begin() + static_cast<std::ptrdiff_t>(tensor.from), std::int64_t{0});
    flops += static_cast<double>(again) * tensor.flops_per_token;
  }
  return flops / kept.cells;
}

}  // namespace strata
