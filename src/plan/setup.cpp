#include "strata/plan/setup.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "plan/activation_plan.h"
#include "plan/plan_inputs.h"
#include "plan/require_fit.h"
#include "strata/base/bytes.h"
#include "strata/base/narrow.h"
#include "strata/store/gradient_store.h"
#include "strata/store/loss_store.h"
#include "strata/store/weight_store.h"

namespace strata {

namespace {

int to_int(std::int64_t value) { return narrow<int>(value); }

/// Everything but activations and the scratch they may replace, which share what is left.
void plan_fixed(Setup& s) {
  s.state = plan_state(s.layout, s.choices);
  s.plan = {};
  MemoryPlan& plan = s.plan;
  TrainingState::Memory(s.layout, s.state, plan);
  WeightStore::Memory(s.layout, s.state, s.weight_slots, plan);
  GradientStore::Memory(s.layout, s.state, s.gradient_slots, plan);
  BatchStore::Memory(s.batch, plan);
  LossStore::Memory(s.batch.batch.pass_tokens(), accumulator_of(s.sizes.compute), plan);
  OptimizerEngine::Memory(s.layout, s.state, plan);
  for (int cell = 0; cell < s.activations.cells; ++cell) {
    plan.allocate(Space::kDevice, "boundary.gradients", s.activations.cell_bytes());
  }
  plan.allocate(Space::kPinned, "rope.staging", Llama::rope_bytes(s.model, s.sizes));
}

/// The largest number in [least, most] for which `fits`; `least` if there is none. What fits also
/// fits for smaller numbers.
int largest(int least, int most, const std::function<bool(int)>& fits) {
  while (least < most) {
    const int middle = least + (most - least + 1) / 2;
    if (fits(middle)) {
      least = middle;
    } else {
      most = middle - 1;
    }
  }
  return least;
}

int blocks_of(const Setup& s) { return static_cast<int>(s.layout.blocks.size()); }

/// Plans everything for the first `resident` units on the device. Sums of gradients go there as far
/// as they leave boundaries their slots, ahead of what cells keep: a host lane that adds them holds
/// up a step.
void place(Setup& s, const PlanInputs& in, int resident) {
  s.choices.resident_units = resident;
  const auto with = [&](int sums) {
    s.choices.device_sums = sums;
    plan_fixed(s);
    plan_activations(s, in);
  };
  const GradientSums where = in.given.schedule.gradient_sums;
  if (where == GradientSums::kDevice) return with(blocks_of(s));
  with(0);
  if (where == GradientSums::kHost || !in.room.may_fill_device()) return;
  const int slots = s.activation_slots;
  with(largest(0, blocks_of(s), [&](int sums) {
    with(sums);
    return in.room.fits_device(s.use()) && s.activation_slots >= slots;
  }));
}

/// Units that stay on the device: as many as the host cannot hold; more if there is still room when
/// everything else is on the device.
void place_state(Setup& s, const PlanInputs& in) {
  const std::optional<std::int64_t>& named = in.given.schedule.resident_units;
  if (named) return place(s, in, to_int(*named));
  place(s, in, 0);
  if (!in.room.may_fill_device()) return;
  int least = 0;
  if (!in.room.fits_host(s.use())) {
    const auto too_few = [&](int units) {
      place(s, in, units);
      return !in.room.fits_host(s.use());
    };
    least = std::min(largest(0, blocks_of(s), too_few) + 1, blocks_of(s));
  }
  const auto all_else_fits = [&](int units) {
    place(s, in, units);
    return in.room.fits_device(s.use()) && s.activation_slots == s.activations.keys() &&
           s.kept.count(KeepLevel::kFull) == s.kept.levels.size() &&
           (s.choices.passes == 1 || s.choices.device_sums == blocks_of(s));
  };
  place(s, in, largest(least, blocks_of(s), all_else_fits));
}

/// An undo log for as many units as the host has memory for beside what a run must have; what cells
/// spill comes behind it.
void place_undo_log(Setup& s, const PlanInputs& in) {
  if (s.choices.timing != UpdateTiming::kSpeculative || s.choices.undo_log) return;
  const std::vector<BlockId> all =
      speculated_blocks(s.layout, s.choices, std::numeric_limits<std::size_t>::max());
  const auto with = [&](int blocks) {
    s.choices.undo_log = undo_log_bytes(s.layout, s.choices, all, static_cast<std::size_t>(blocks));
    place(s, in, s.choices.resident_units);
  };
  with(largest(0, static_cast<int>(all.size()), [&](int blocks) {
    with(blocks);
    return in.room.keeps_host_reserve(s.use());
  }));
}

/// Returns the given config with what was decided written into the keys that were open, so that a
/// run that is planned from it again is the same run.
RunConfig resolved_config(const PlanInputs& in, const Setup& s) {
  RunConfig config = in.given;
  config.schedule.layers_per_visit = s.walk.layers_per_visit;
  config.schedule.weight_slots = s.weight_slots;
  config.schedule.gradient_slots = s.gradient_slots;
  config.schedule.activation_slots = s.activation_slots;
  config.schedule.resident_units = s.choices.resident_units;
  config.schedule.head_chunk_tokens = s.sizes.head_chunk;
  config.schedule.spill = in.choices.spill;
  // It bounds what the rule spills; a level that was chosen instead goes without it.
  if (in.choices.spill && !in.given.schedule.spill) config.memory.spill_limit.reset();
  config.optimizer.deferred_units = s.choices.deferred_units;
  config.optimizer.interleave = s.choices.interleave;
  if (s.choices.undo_log) config.optimizer.undo_log = ByteSize{*s.choices.undo_log};
  return config;
}

}  // namespace

std::size_t estimated_device_overhead(BackendChoice backend) {
  // Context, kernels and cuBLASLt workspace of one H200 process; see docs/memory.md.
  return backend == BackendChoice::kCuda ? 560 * kMiB : 0;
}

std::size_t estimated_host_overhead(BackendChoice backend) {
  return backend == BackendChoice::kCuda ? 560 * kMiB : 32 * kMiB;
}

double estimated_peak_tflops(BackendChoice backend) {
  return backend == BackendChoice::kCuda ? 989.4 : 0;
}

LlamaSizes llama_sizes(const RunConfig& config) {
  const std::int64_t cell_tokens = config.schedule.rows * config.data.sequence_length;
  const std::int64_t head_chunk = config.schedule.head_chunk_tokens.value_or(
      Llama::default_head_chunk(config.model.llama, cell_tokens));
  return {.compute = config.run.dtype,
          .row_tokens = config.data.sequence_length,
          .cell_tokens = cell_tokens,
          .head_chunk = std::min(cell_tokens, head_chunk),
          .add_dq = config.kernels.attention_backward == AttentionBackwardMode::kFast};
}

Setup make_setup(const RunConfig& config, const PlanChoices& choices, const PlannedRank& planned) {
  const LlamaConfig& model = config.model.llama;
  Setup s;
  s.model = model;
  s.hardware = config.hardware;
  s.attention = config.kernels.attention;
  s.budget = planned.budget;
  const ScheduleSection& schedule = config.schedule;
  s.layout = make_layout(model);
  s.sizes = llama_sizes(config);
  const OptimizerSection& o = config.optimizer;
  const int layers = to_int(model.num_hidden_layers);
  s.choices = {
      .compute = config.run.dtype,
      .gradient = o.gradient_dtype,
      .moment = o.moment_dtype,
      .passes = to_int(schedule.passes),
      .gradient_ring = to_int(std::min(o.gradient_ring.value_or(0), model.num_hidden_layers)),
      .rank = planned.rank,
      .ranks = planned.ranks,
      .interleave = choices.interleave,
      .timing = o.timing,
      .deferred_units = choices.deferred_units,
      .undo_log = o.undo_log ? std::optional(o.undo_log->bytes) : std::nullopt};
  s.batch = {.batch = {.rows = schedule.rows,
                       .tokens = config.data.sequence_length,
                       .sub_batches = schedule.sub_batches},
             .mask = config.data.document_mask ? DocumentMask::kOn : DocumentMask::kOff,
             .scale = accumulator_of(config.run.dtype),
             .host_slots = to_int(2 * schedule.passes)};
  s.activations = {.layers = layers,
                   .cells = to_int(schedule.sub_batches),
                   .cell_tokens = s.sizes.cell_tokens,
                   .hidden = model.hidden_size,
                   .dtype = config.run.dtype,
                   .form = schedule.spill_dtype};
  const int visit = std::min(layers, to_int(schedule.layers_per_visit));
  s.walk = {.layers = layers,
            .cells = s.activations.cells,
            .layers_per_visit = visit,
            .direction = schedule.direction};
  s.weight_slots = schedule.weight_slots ? to_int(*schedule.weight_slots) : visit + 2;
  s.weight_slots = std::clamp(s.weight_slots, visit, layers);
  s.gradient_slots = std::max(visit, std::min(layers, to_int(schedule.gradient_slots)));
  s.optimizer = {.beta1 = o.betas[0],
                 .beta2 = o.betas[1],
                 .eps = o.eps,
                 .weight_decay = o.weight_decay,
                 .decay_norms = o.decay_norms,
                 .grad_clip = o.grad_clip,
                 .timing = o.timing,
                 .max_nonfinite_steps = to_int(config.run.max_nonfinite_steps),
                 .seed = static_cast<std::uint64_t>(config.run.seed)};
  const PlanInputs in{config, choices, Room(planned.budget, config.memory)};
  place_state(s, in);
  place_undo_log(s, in);
  require_fit(s, in);
  s.config = resolved_config(in, s);
  return s;
}

Setup make_setup(const RunConfig& given, int rank, int ranks, const Budget& budget) {
  return make_setup(given, choices_by_rule(given),
                    PlannedRank{.rank = rank, .ranks = ranks, .budget = budget, .device = {}});
}

double Setup::recompute_flops_per_token() const {
  double flops = 0;
  for (const KeptTensor& tensor : kept_tensors()) {
    for (const KeepLevel level : kept.reach) {
      if (level < tensor.from) flops += tensor.flops_per_token;
    }
  }
  return flops / kept.cells;
}

int Setup::count_blocks(bool (*is)(const BlockPlan&)) const {
  return static_cast<int>(std::count_if(state.blocks.begin(), state.blocks.end(), is));
}

}  // namespace strata
