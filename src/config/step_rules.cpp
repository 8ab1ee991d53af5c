// Checks the rules of a run config about how a step is made: how it is divided, and how and when
// parameters are updated.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "config/rules.h"
#include "strata/ops/moment_codes.h"
#include "strata/ops/preference.h"

namespace strata {

namespace {

/// In int8 backward reads other inputs than forward did, so what is kept changes the numbers: it
/// must not depend on how much memory there is.
void check_int8(const ScheduleSection& s, Rules& r) {
  if (s.spill_dtype == BoundaryForm::kExact) return;
  r.refuse_if(
      !s.activations, "activations",
      "must name a level with schedule.spill_dtype \"int8\", where what is kept changes the "
      "numbers and so cannot be left to the memory there is");
  r.refuse_if(
      s.activation_slots && *s.activation_slots <= s.sub_batches, "activation_slots",
      "must be at least schedule.sub_batches + 1 with schedule.spill_dtype \"int8\": forward "
      "reads nothing back");
}

}  // namespace

void check_train(const RunConfig& c, ConfigProblems& problems) {
  const TrainSection& t = c.train;
  Rules r(problems, "train");
  const bool has_margin = t.objective == Preference::kDpo || t.objective == Preference::kSimpo;
  r.refuse_if(!t.objective && t.beta, "beta",
              "belongs to an objective of preferences; set train.objective or leave it out");
  r.refuse_if(t.gamma && t.objective != Preference::kSimpo, "gamma",
              "belongs to train.objective \"simpo\"; leave it out");
  r.refuse_if(t.label_smoothing != 0 && !has_margin, "label_smoothing",
              "belongs to train.objective \"dpo\" and \"simpo\"; leave it out");
  const std::optional<PreferenceRule> rule = t.rule();
  const bool stored = t.reference == ReferenceFrom::kStored;
  r.refuse_if(stored && !(rule && rule->needs_reference()), "reference",
              "belongs to train.objective \"dpo\" and \"ipo\"; leave it out");
  if (!rule) return;
  r.refuse_if(stored && c.model.path.empty(), "reference",
              "is of the model that the run starts from; name its folder by model.path");
  r.refuse_if(rule->needs_reference() && !stored && !c.adapter, "objective",
              "compares with the model without adapters, and the run has none; store the reference "
              "by `strata evaluate MODEL --input FILE --reference` and set train.reference to "
              "\"stored\", add the section adapter, or take \"simpo\" or \"orpo\", which need no "
              "reference");
  r.refuse_if(rule->needs_reference() && c.adapter && !c.adapter->path.empty(), "objective",
              "would compare with the model without the adapters of adapter.path, not with what "
              "they have learnt; export the merged model, name it by model.path, and leave "
              "adapter.path out");
  r.refuse_if(
      rule->needs_reference() && !stored && c.adapter && !c.adapter->modules_to_save.empty(),
      "objective",
      "would compare with the model as it was, whose modules of adapter.modules_to_save are "
      "changed and not held twice; store the reference by `strata evaluate MODEL --input "
      "FILE --reference` and set train.reference to \"stored\"");
  Rules data(problems, "data");
  data.refuse_if(c.data.synthetic, "synthetic",
                 "has no pairs of answers, which train.objective needs; name a token file of them");
  data.refuse_if(!c.data.packing, "packing",
                 "must be true with this train.objective, whose pairs stay in a row");
  data.refuse_if(c.data.overlong != Overlong::kDrop, "overlong",
                 "must be \"drop\" with this train.objective: a pair cannot be cut");
  data.refuse_if(c.data.sequence_length % PreferenceLoss::kFigures != 0, "sequence_length",
                 "must be a multiple of 4 with this train.objective; change it by up to 3");
}

void check_schedule(const RunConfig& c, Rules r) {
  const ScheduleSection& s = c.schedule;
  const double layers = static_cast<double>(c.model.llama.num_hidden_layers);
  r.refuse_if(s.resident_units && static_cast<double>(*s.resident_units) > layers + 2,
              "resident_units", "must be from 0 to model.num_hidden_layers + 2");
  const double sub_batch_tokens =
      static_cast<double>(s.rows) * static_cast<double>(c.data.sequence_length);
  r.refuse_if(sub_batch_tokens > std::numeric_limits<std::int32_t>::max(), "rows",
              "times data.sequence_length must be below 2^31; use more sub_batches of fewer rows");
  check_int8(s, r);
  // Planner and stores have an entry for each of them.
  constexpr double kMostBoundaries = 1 << 20;
  const double boundaries = (layers + 1) * static_cast<double>(s.sub_batches);
  r.refuse_if(boundaries > kMostBoundaries, "sub_batches",
              "times (model.num_hidden_layers + 1) must be at most 2^20; use more rows or passes");
  // No number of bytes may leave 64 bits.
  constexpr double kMostElements = 0x1p56;
  const double width = std::max(static_cast<double>(c.model.llama.hidden_size),
                                2.0 * static_cast<double>(c.model.llama.intermediate_size));
  const double step_tokens =
      sub_batch_tokens * static_cast<double>(s.sub_batches) * static_cast<double>(s.passes);
  r.refuse_if(step_tokens > kMostElements, "passes",
              "times rows, schedule.sub_batches and data.sequence_length must be at most 2^56, the "
              "tokens of a rank's step; use fewer of them");
  r.refuse_if(sub_batch_tokens * width * boundaries > kMostElements, "rows",
              "times data.sequence_length, schedule.sub_batches and the model's layers and width "
              "must be below 2^56; use fewer of them");
}

/// A slot of the ring is free again as soon as its gradient has been used.
void check_gradient_ring(const RunConfig& c, Rules r) {
  const OptimizerSection& o = c.optimizer;
  if (!o.gradient_ring) return;
  r.refuse_if(o.timing != UpdateTiming::kOnArrival, "gradient_ring",
              "lets gradients go as they are used, but \"before_use\" and \"speculative\" need all "
              "of them when the norm is known; set optimizer.timing to \"on_arrival\" or this to "
              "null");
  r.refuse_if(c.schedule.passes > 1 && c.schedule.gradient_sums != GradientSums::kDevice,
              "gradient_ring",
              "has no place in which several passes are summed; set schedule.gradient_sums to "
              "\"device\", schedule.passes to 1 (raise schedule.sub_batches instead) or this to "
              "null");
  const std::int64_t deferred = std::max<std::int64_t>(o.deferred_units.value_or(0), 0);
  r.refuse_if(*o.gradient_ring < 2 || *o.gradient_ring - 2 < deferred, "gradient_ring",
              "must be at least optimizer.deferred_units + 2: a slot for each that waits for the "
              "next forward, one that is filled and one that is read");
}

/// Refuses numbers that the optimizer does not have, so that nobody believes in them.
void check_kind(const OptimizerSection& o, Rules& r) {
  const OptimizerSection defaults;
  const bool sgd = o.kind == OptimizerKind::kSgd;
  const bool muon = o.kind == OptimizerKind::kMuon;
  r.refuse_if(!sgd && o.momentum != defaults.momentum, "momentum",
              "belongs to optimizer.kind \"sgd\"; set " +
                  std::string(muon ? "optimizer.muon_momentum" : "optimizer.betas") +
                  " or leave it out");
  r.refuse_if(!muon && o.muon_momentum != defaults.muon_momentum, "muon_momentum",
              "belongs to optimizer.kind \"muon\"; leave it out");
  r.refuse_if(muon && !(o.muon_momentum < 1), "muon_momentum", "must be in [0, 1)");
  r.refuse_if(!sgd && o.nesterov, "nesterov", "belongs to optimizer.kind \"sgd\"; leave it out");
  r.refuse_if(sgd && !(o.momentum < 1), "momentum", "must be in [0, 1)");
  r.refuse_if(sgd && o.nesterov && o.momentum == 0, "nesterov",
              "looks ahead by optimizer.momentum, which is 0; raise it or set this to false");
  r.refuse_if(sgd && o.betas != defaults.betas, "betas",
              "are not sgd's; set optimizer.momentum and leave them out");
  r.refuse_if(moments_of(o.kind) == 1 && o.eps != defaults.eps, "eps",
              "belongs to optimizer.kind \"adamw\" and \"muon\"; leave it out");
  r.refuse_if(o.kind != OptimizerKind::kAdamW && o.moment_dtype == kMomentCode, "moment_dtype",
              "8bit is a format of AdamW's two moments together; set it to \"bf16\", or "
              "optimizer.kind to \"adamw\"");
}

/// Refuses what whole matrices cannot be updated with.
void check_muon(const RunConfig& c, ConfigProblems& problems) {
  const OptimizerSection& o = c.optimizer;
  if (o.kind != OptimizerKind::kMuon) return;
  Rules r(problems, "optimizer");
  r.refuse_if(c.adapter.has_value(), "kind",
              "\"muon\" leaves adapters and adapter.modules_to_save to AdamW, and the run trains "
              "nothing else; set it to \"adamw\"");
  r.refuse_if(o.timing != UpdateTiming::kBeforeUse, "timing",
              "must be \"before_use\" with optimizer.kind \"muon\", which updates once the step "
              "is decided; leave it out, or set the kind to \"adamw\"");
  const char* const on_host =
      "must be 0 with optimizer.kind \"muon\", whose state lives on the host; leave it out, or set "
      "the kind to \"adamw\"";
  r.refuse_if(o.interleave.value_or(0) != 0, "interleave", on_host);
  Rules(problems, "schedule")
      .refuse_if(c.schedule.resident_units.value_or(0) != 0, "resident_units", on_host);
}

void check_optimizer(const RunConfig& c, ConfigProblems& problems) {
  Rules r(problems, "optimizer");
  const OptimizerSection& o = c.optimizer;
  for (const double beta : o.betas) {
    r.refuse_if(!(beta >= 0 && beta < 1), "betas", "must both be in [0, 1)");
  }
  check_kind(o, r);
  check_muon(c, problems);
  const bool on_arrival = o.timing == UpdateTiming::kOnArrival;
  r.refuse_if(on_arrival && o.grad_clip, "grad_clip",
              "needs the norm of all gradients before the first update, which on_arrival does not "
              "wait for; set optimizer.timing to \"before_use\" or \"speculative\", or "
              "optimizer.grad_clip to null");
  const bool speculative = o.timing == UpdateTiming::kSpeculative;
  r.refuse_if(speculative && !o.grad_clip, "timing",
              "\"speculative\" updates as if nothing were clipped, and nothing is without "
              "optimizer.grad_clip; set this to \"on_arrival\" or give optimizer.grad_clip");
  r.refuse_if(o.undo_log && !speculative, "undo_log",
              "belongs to optimizer.timing \"speculative\"; leave it out");
  r.refuse_if(o.gradient_dtype == DType::kBF16 && c.run.dtype == DType::kF64, "gradient_dtype",
              "bf16 would undo run.dtype f64; set it to \"f32\", which stands for f64 there");
  r.refuse_if(o.moment_dtype != DType::kF32 && c.run.dtype == DType::kF64, "moment_dtype",
              std::string(enum_name(kMomentDTypeNames, o.moment_dtype)) +
                  " would undo run.dtype f64; set it to \"f32\", which stands for f64 there");
  r.refuse_if(o.master == MasterWeights::kNone && c.run.dtype != DType::kBF16, "master",
              "\"none\" is for weights in bf16; others have no low halves: leave it out");
  r.refuse_if(o.min_lr_ratio > 0 && o.lr_schedule == LrSchedule::kConstant, "min_lr_ratio",
              "has no effect on a constant schedule; set optimizer.lr_schedule or leave it out");
  const bool wsd = o.lr_schedule == LrSchedule::kWsd;
  r.refuse_if(!wsd && o.warmup_steps > c.run.steps, "warmup_steps",
              "is above run.steps (" + std::to_string(c.run.steps) +
                  "), so the learning rate would never reach optimizer.lr; lower it or raise "
                  "run.steps");
  r.refuse_if(wsd && o.wsd_decay_steps == 0, "wsd_decay_steps",
              "is required by lr_schedule \"wsd\"; a tenth of run.steps is usual");
  r.refuse_if(!wsd && o.wsd_decay_steps != 0, "wsd_decay_steps",
              "belongs to optimizer.lr_schedule \"wsd\"; leave it out");
  r.refuse_if(
      wsd && static_cast<double>(o.warmup_steps) + static_cast<double>(o.wsd_decay_steps) >
                 static_cast<double>(c.run.steps),
      "warmup_steps",
      "and wsd_decay_steps together are above run.steps (" + std::to_string(c.run.steps) + ")");
}

}  // namespace strata
