// Estimates how many bytes the link can carry while a cell computes. Forward of a cell takes the
// time of its FLOPs at a share of the device's peak; backward takes twice as long, and longer where
// it computes again, which is not counted.

#include "plan/idle_link.h"

#include <algorithm>

#include "strata/optimizer/state_shuttle.h"
#include "strata/predict/rank_rates.h"

namespace strata {

namespace {

/// Of the device's peak that products and attention reach, and of the link's time under compute
/// that spills may fill: the rest is for what is not in the model.
constexpr double kComputeShare = 0.65;
constexpr double kLinkShare = 0.8;
/// How much faster products of codes are (docs/prediction.md).
constexpr double kCodesGain = 1.75;

/// Returns the FLOPs of a token that all layers save together because products of codes are faster,
/// counted as those of bf16.
double flops_saved(const ModelSpec& spec) {
  double saved = 0;
  for (int i = 0; i < spec.layers(); ++i) {
    for (const Linear& linear : spec.layer(i).linears) {
      if (linear.products != Products::kPlain) saved += linear.flops() * (1 - 1 / kCodesGain);
    }
  }
  return saved;
}

/// Returns the bytes that may cross the link, each way, while a layer runs forward on one
/// sub-batch. Absent if the device's speed is unknown.
std::optional<double> forward_link_bytes(const Setup& s) {
  const double peak = s.hardware.peak_tflops.value_or(s.budget.peak_tflops) * 1e12;
  if (!(peak > 0)) return std::nullopt;
  const LayerSpec& layer = s.spec.common();
  double flops = 0;
  // Of the last product nothing is kept, unless a norm reads it.
  if (!layer.has(NormId::kMlpOut)) flops = layer.linear(LinearId::kDown).flops();
  for (const KeptTensor& tensor : s.kept_tensors()) flops += tensor.flops_per_token;
  flops -= flops_saved(s.spec) / s.spec.layers();
  const double forward_s =
      flops * static_cast<double>(s.activations.cell_tokens) / (kComputeShare * peak);
  const std::optional<double> given = s.hardware.link_gbs;
  const double link_gbs =
      given ? shared_link_gbs(*given, s.budget.ranks_on_host) : s.budget.link_gbs;
  return kLinkShare * forward_s * link_gbs * 1e9;
}

double cells_of(const Setup& s) {
  return static_cast<double>(s.activations.layers * s.activations.cells);
}

/// Returns a cell's share of the bytes of weights that a pass loads.
double weight_bytes(const Setup& s) {
  double streamed = 0;  // bytes of layers whose weights come from the host
  for (const BlockId b : s.model->blocks.ids()) {
    const Block& block = s.model->blocks[b];
    if (block.kind != UnitKind::kLayer || s.state.blocks[b].weight == Home::kDevice) continue;
    streamed += static_cast<double>(weight_shape(block, s.state.blocks[b].form, s.state).bytes());
  }
  return streamed / cells_of(s);
}

}  // namespace

std::optional<std::size_t> idle_link_bytes(const Setup& s) {
  const std::optional<double> forward = forward_link_bytes(s);
  if (!forward) return std::nullopt;
  const bool spilled = s.activations.homes(s.activation_slots) > 0;
  const double boundary = spilled ? static_cast<double>(s.activations.home_bytes()) : 0.0;
  const double state =
      static_cast<double>(StateShuttle::step_bytes(*s.model, s.state)) / cells_of(s);
  const bool in_backward = s.choices.timing == UpdateTiming::kOnArrival;
  const bool in_forward = !in_backward || s.choices.deferred_units > 0;
  const double idle = std::min(*forward - (in_forward ? state : 0.0),
                               2 * *forward - weight_bytes(s) - (in_backward ? state : 0.0)) -
                      boundary;
  if (idle < 0) return std::nullopt;
  return static_cast<std::size_t>(idle);
}

}  // namespace strata
