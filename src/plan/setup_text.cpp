// Puts a setup into words: the lines that `strata plan` prints and runs log, and the warnings that
// go with them. Nothing is decided here.

#include <string>

#include "strata/base/bytes.h"
#include "strata/optimizer/parameter_groups.h"
#include "strata/plan/sample_setup.h"
#include "strata/plan/setup.h"

namespace strata {

namespace {

/// Returns a line about the linears whose products multiply codes; empty if there are none.
std::string products_text(const ModelSpec& spec) {
  int linears = 0;
  int codes = 0;
  bool all = false;
  for (int i = 0; i < spec.layers(); ++i) {
    for (const Linear& linear : spec.layer(i).linears) {
      ++linears;
      if (linear.products != Products::kPlain) ++codes;
      all = all || linear.products == Products::kFp8All;
    }
  }
  if (codes == 0) return {};
  return "products in e4m3: those of " + std::to_string(codes) + " of " + std::to_string(linears) +
         " linears" + (all ? "" : ", gradients of weights in bf16") + "\n";
}

/// Returns a line about the tensors that have a learning rate or a decay of their own; empty if the
/// config names none.
std::string groups_text(const Setup& setup) {
  const OptimizerOptions& o = setup.optimizer;
  if (o.lr_factors.empty() && o.weight_decays.empty()) return {};
  return "parameter groups: " + parameter_groups_text(*setup.model, o) + "\n";
}

}  // namespace

std::string Setup::kept_text() const {
  std::string text = std::to_string(kept.levels.size()) + " cells:";
  const char* separator = " ";
  for (const KeepLevel level : kKeepLevels) {
    const std::size_t count = kept.count(level);
    if (count == 0) continue;
    text += separator + std::to_string(count) + " " + std::string(name_of(level));
    separator = ", ";
  }
  return text;
}

std::string Setup::spilled_text() const {
  const int boundaries = activations.homes(activation_slots);
  std::string text = std::to_string(boundaries) + " boundaries";
  if (boundaries > 0 && activations.form == BoundaryForm::kInt8) text += " in int8";
  for (const KeepLevel level : kKeepLevels) {
    const std::size_t count = kept.count_spilled(level);
    if (count == 0) continue;
    text += ", " + std::to_string(count) + " cells up to " + std::string(name_of(level));
  }
  return text;
}

std::string Setup::to_string() const {
  const double parameters = static_cast<double>(spec.parameter_count());
  double state_bytes = 0;
  for (const MemoryPlan::Entry& entry : plan.entries()) {
    if (entry.name.starts_with("state.")) state_bytes += static_cast<double>(entry.bytes);
  }
  const std::string per_parameter = std::to_string(state_bytes * state.ranks / parameters);
  return plan.to_string() + totals_text(device_bytes(), host_bytes(), budget) +
         "activations kept on the device, " + kept_text() +
         "\nactivations spilled: " + spilled_text() +
         "\ntraining state: " + per_parameter.substr(0, per_parameter.find('.') + 3) +
         " bytes per parameter over all ranks: " + state_text() + "\n" + groups_text(*this) +
         saves_text() + products_text(spec) +
         (samples ? "samples: " + samples_text(*samples) + "\n" : "") +
         (speculation_warning().empty() ? "" : speculation_warning() + "\n");
}

std::string Setup::saves_text() const {
  if (!saves) return {};
  const std::size_t staged = plan.bytes(Space::kPageable, "checkpoint.staging") +
                             plan.bytes(Space::kPinned, "checkpoint.staging");
  const CheckpointLayout files = make_checkpoint_layout(*model, saves->types);
  std::string text =
      "checkpoints: " + format_bytes(files.bytes()) + " of all ranks; " + format_bytes(staged) +
      " of this rank's share is copied before it is written, and holds up no update\n";
  if (weights_every_steps) {
    const CheckpointLayout weights = make_checkpoint_layout(*model, saves->types.weights_alone());
    text += "weights alone: " + format_bytes(weights.bytes()) + " of all ranks, every " +
            std::to_string(*weights_every_steps) + " steps\n";
  }
  return text;
}

std::string Setup::blocks_text() const {
  PerBlock<std::string> names;
  for (const Block& block : model->blocks) names.push_back(block.name);
  return strata::to_string(state, names);
}

std::string Setup::state_text() const {
  const BlockPlan& layer = state.blocks[model->block_of_layer(0)];
  std::string text = std::string(moment_name(state.moment)) +
                     (state.moments == 1 ? " moment, " : " moments, ") +
                     (state.compute == DType::kBF16 && !state.split ? "no low halves, " : "") +
                     std::string(name_of(layer.gradient_dtype)) + " gradients";
  if (state.gradient_ring > 0) {
    text += " in a ring of " + std::to_string(state.gradient_ring);
  }
  text += ", " + std::to_string(choices.resident_units) + " of " +
          std::to_string(model->units.size()) + " units resident";
  const int interleaved =
      count_blocks([](const BlockPlan& row) { return row.updated_by == UpdatedBy::kShuttle; });
  if (interleaved > 0) text += ", " + std::to_string(interleaved) + " interleaved";
  if (choices.passes > 1) {
    text += ", " + std::to_string(choices.passes) + " passes, sums of " +
            std::to_string(
                count_blocks([](const BlockPlan& row) { return row.sums == SumPlace::kDevice; })) +
            " units on the device";
  }
  if (choices.timing == UpdateTiming::kSpeculative) {
    text += ", " + std::to_string(speculated_units()) + " units updated speculatively";
  }
  return text;
}

std::string Setup::speculation_warning() const {
  if (choices.timing != UpdateTiming::kSpeculative || speculated_units() > 0) return {};
  return "no unit is updated speculatively: optimizer.undo_log (" +
         format_bytes(choices.undo_log.value_or(0)) +
         ") holds the old state of none. Everything happens as with optimizer.timing = "
         "before_use; raise optimizer.undo_log, or lower optimizer.deferred_units or "
         "schedule.resident_units if they leave no unit";
}

std::string Setup::host_warning() const {
  if (!budget.host_available || host_bytes() <= *budget.host_available) return {};
  return "the run needs " + format_bytes(host_bytes()) + " on the host, and the system says that " +
         format_bytes(*budget.host_available) +
         " are available. memory.host_limit allows it, which is right on a virtual machine whose "
         "memory grows on demand; elsewhere the run may be ended when memory runs out: lower "
         "memory.host_limit, or leave it out";
}

}  // namespace strata
