// Runs the algorithm of docs/schedule.md: the order in which units and cells take what they need
// from the stores, run on the compute lane, and hand on what they made. Leases end at the end of
// their scope; that is what lets a slot be filled again.

#include "strata/schedule/schedule.h"

#include <utility>

namespace strata {

Schedule::Schedule(const Stores& stores, const Walk& walk, Stream& compute,
                   std::vector<TensorView> boundary_gradients, const PreferenceStream& preference)
    : s_(stores),
      walk_(walk),
      compute_(compute),
      d_(std::move(boundary_gradients)),
      preference_(preference) {}

void Schedule::step(const StepPlan& plan, const std::vector<int>& slots) {
  s_.optimizer.begin_step(plan, {.phase = "update"});
  s_.gradients.begin_step();
  for (int pass = 0; pass < static_cast<int>(slots.size()); ++pass) {
    announce(Extent::kForwardAndBackward);
    const BatchLease batch = s_.batches.upload(slots[static_cast<std::size_t>(pass)], compute_,
                                               {.phase = "forward", .pass = pass});
    embedding_forward(batch, pass);
    for (int layer = 0; layer < walk_.layers; ++layer) layer_forward(layer, batch, pass);
    head(batch, pass);
    for (int layer = walk_.layers - 1; layer >= 0; --layer) layer_backward(layer, batch, pass);
    embedding_backward(batch, pass);
  }
  s_.optimizer.finish_step({.phase = "update"});
}

/// Tells the stores what the coming pass asks of them, so that they load ahead of it.
void Schedule::announce(Extent extent) {
  s_.weights.begin_pass(unit_order(walk_, extent));
  s_.activations.begin_pass(boundary_order(walk_, extent));
  s_.kept.begin_pass(backward_order(walk_, extent));
}

UnitLease Schedule::acquire(UnitId unit, const Tag& tag) {
  UnitLease weights = s_.weights.acquire(unit, compute_, tag);
  s_.weights.prefetch(tag);
  return weights;
}

void Schedule::embedding_forward(const BatchLease& batch, int pass) {
  const UnitLease weights = acquire(Walk::embedding(), {.phase = "forward", .pass = pass});
  for (int cell = 0; cell < walk_.cells; ++cell) {
    const Tag tag{"forward", pass, 0, cell};
    const CellBatch& tokens = batch.cells[static_cast<std::size_t>(cell)];
    ActivationLease y = s_.activations.produce(0, cell, compute_);
    s_.model.embedding_forward(compute_, weights.views.embedding, tokens, y.x, tag);
    s_.activations.keep(std::move(y), tag);
  }
}

void Schedule::layer_forward(int layer, const BatchLease& batch, int pass) {
  const UnitId unit = Walk::unit_of(layer);
  const UnitLease weights = acquire(unit, {.phase = "forward", .pass = pass});
  s_.model.begin_layer_forward(compute_, layer, weights.views.layer,
                               {"forward", pass, unit.value(), -1});
  for (int cell = 0; cell < walk_.cells; ++cell) {
    const Tag tag{"forward", pass, unit.value(), cell};
    const CellBatch& tokens = batch.cells[static_cast<std::size_t>(cell)];
    const ActivationLease x = s_.activations.acquire(layer, cell, compute_, tag);
    s_.activations.prefetch(tag);
    ActivationLease y = s_.activations.produce(layer + 1, cell, compute_);
    KeptLease kept = s_.kept.fill(layer, cell, compute_);
    if (preference_.spare) {
      reference_layer(layer, weights.views.layer, tokens, x.x, kept.activations, tag);
    }
    s_.model.layer_forward(compute_, layer, weights.views.layer, tokens, x.x, kept.activations, y.x,
                           tag);
    s_.kept.keep(std::move(kept), tag);
    s_.activations.keep(std::move(y), tag);
  }
}

/// Runs a cell of the reference through a layer, in the places that the cell itself writes next.
/// Both share the output of the embedding, `x` of the first layer.
void Schedule::reference_layer(int layer, const LayerWeights& weights, const CellBatch& tokens,
                               const TensorView& x, const KeptActivations& scratch,
                               const Tag& tag) {
  LayerWeights base = weights;
  base.adapters = {};
  CellBatch undropped = tokens;
  undropped.draws.reset();
  const TensorView& input = layer == 0 ? x : reference_boundary(layer, tag.cell);
  s_.model.layer_forward(compute_, layer, base, undropped, input, scratch,
                         reference_boundary(layer + 1, tag.cell), tag);
}

/// Returns where the reference has a boundary from 1 on. There is one place more than cells: a cell
/// goes where the one before it came from, and the first one to the place that is free.
const TensorView& Schedule::reference_boundary(int boundary, int cell) const {
  const int places = walk_.cells + 1;
  const int at = ((cell - (boundary - 1)) % places + places) % places;
  return at < walk_.cells ? d_[static_cast<std::size_t>(at)] : preference_.spare;
}

/// Takes the reference's losses of all cells, whose places then become those of gradients.
void Schedule::reference_head(const HeadWeights& weights, const BatchLease& batch,
                              const Tag& unit_tag) {
  for (int cell = 0; cell < walk_.cells; ++cell) {
    Tag tag = unit_tag;
    tag.cell = cell;
    const CellBatch& tokens = batch.cells[static_cast<std::size_t>(cell)];
    const std::int64_t n = tokens.ids.elements();
    s_.model.head_forward(compute_, weights, tokens, reference_boundary(walk_.layers, cell),
                          preference_.losses.slice_rows(cell * n, n), tag);
  }
}

/// Returns what the head makes of a cell's pairs, in the cell's part of a slot of losses.
PairOutputs Schedule::pair_outputs(const TensorView& losses, int cell) const {
  const std::int64_t n = losses.elements() / walk_.cells;
  const TensorView own = losses.slice_rows(cell * n, n);
  PairOutputs pairs{
      .reference = {},
      .figures = TensorView(own.data, own.dtype,
                            Shape{n / PreferenceLoss::kFigures, PreferenceLoss::kFigures})};
  if (preference_.spare) pairs.reference = preference_.losses.slice_rows(cell * n, n);
  return pairs;
}

/// Final norm, logits, loss and their backward in one visit: full logits never exist.
void Schedule::head(const BatchLease& batch, int pass) {
  const UnitId unit = walk_.head();
  const Tag unit_tag{"head", pass, unit.value(), -1};
  const UnitLease weights = acquire(unit, {.phase = "head", .pass = pass});
  GradientLease gradients = s_.gradients.acquire(unit, compute_, unit_tag);
  LossStore::LossLease losses = s_.losses.acquire(compute_);
  if (preference_.spare) reference_head(weights.views.head, batch, unit_tag);
  for (int cell = 0; cell < walk_.cells; ++cell) {
    const Tag tag{"head", pass, unit.value(), cell};
    const CellBatch& tokens = batch.cells[static_cast<std::size_t>(cell)];
    const std::int64_t n = tokens.ids.elements();
    const ActivationLease x = s_.activations.acquire(walk_.layers, cell, compute_, tag);
    s_.activations.prefetch(tag);
    s_.kept.prefetch(tag);
    const TensorView& d = d_[static_cast<std::size_t>(cell)];
    if (preference_.pairs) {
      s_.model.head_preference(compute_, weights.views.head, gradients.views.head, tokens,
                               batch.grad_scale, x.x, d, pair_outputs(losses.loss, cell), tag);
      continue;
    }
    s_.model.head_forward_backward(compute_, weights.views.head, gradients.views.head, tokens,
                                   batch.grad_scale, x.x, d, losses.loss.slice_rows(cell * n, n),
                                   tag);
  }
  // Forward has loaded what it needed. Updates that no load has asked for are due before the loss,
  // because the host lane goes on to the numbers of this step with it.
  s_.optimizer.submit_updates({.phase = "update"});
  s_.losses.deliver(std::move(losses), unit_tag, [&optimizer = s_.optimizer](const LossSums& sums) {
    optimizer.add_loss(sums);
  });
  offload(std::move(gradients), pass);
}

/// What was not kept is computed again from the boundary activation, then backward; gradients of
/// all sub-batches add up on the device and leave once.
void Schedule::layer_backward(int layer, const BatchLease& batch, int pass) {
  const UnitId unit = Walk::unit_of(layer);
  UnitLease weights = acquire(unit, {.phase = "backward", .pass = pass});
  const Tag unit_tag{"backward", pass, unit.value(), -1};
  GradientLease gradients = s_.gradients.acquire(unit, compute_, unit_tag);
  s_.model.begin_layer_backward(compute_, layer, weights.views.layer, gradients.views.layer,
                                unit_tag);
  for (int cell = 0; cell < walk_.cells; ++cell) {
    const Tag tag{"backward", pass, unit.value(), cell};
    const CellBatch& tokens = batch.cells[static_cast<std::size_t>(cell)];
    const ActivationLease x = s_.activations.acquire(layer, cell, compute_, tag);
    const KeptLease kept = s_.kept.acquire(layer, cell, compute_, tag);
    s_.kept.prefetch(tag);
    s_.activations.prefetch(tag);
    s_.model.layer_backward(compute_, layer, weights.views.layer, gradients.views.layer, tokens,
                            x.x, kept.activations, d_[static_cast<std::size_t>(cell)], tag);
  }
  weights = {};  // the next load into this slot needs not wait for sums of gradients
  offload(std::move(gradients), pass);
}

void Schedule::embedding_backward(const BatchLease& batch, int pass) {
  if (!s_.gradients.trains(Walk::embedding())) return;
  GradientLease gradients =
      s_.gradients.acquire(Walk::embedding(), compute_, {"backward", pass, 0, -1});
  for (int cell = 0; cell < walk_.cells; ++cell) {
    const CellBatch& tokens = batch.cells[static_cast<std::size_t>(cell)];
    s_.model.embedding_backward(compute_, gradients.views.embedding, tokens,
                                d_[static_cast<std::size_t>(cell)], {"backward", pass, 0, cell});
  }
  offload(std::move(gradients), pass);
}

/// Sends a unit's gradients home; blocks that are complete with them go on to the optimizer.
void Schedule::offload(GradientLease gradients, int pass) {
  const Tag tag{"offload", pass, gradients.unit.value(), -1};
  for (Arrival& arrival : s_.gradients.offload(std::move(gradients), tag)) {
    s_.optimizer.arrived(std::move(arrival), {.phase = "update", .pass = pass});
  }
}

void Schedule::evaluate(int slot, std::function<void(const LossSums&)> receive) {
  const Tag pass_tag{.phase = "evaluate", .pass = 0};
  announce(Extent::kForward);
  const BatchLease batch = s_.batches.upload(slot, compute_, pass_tag);
  embedding_forward(batch, 0);
  for (int layer = 0; layer < walk_.layers; ++layer) layer_forward(layer, batch, 0);
  const UnitLease weights = acquire(walk_.head(), pass_tag);
  LossStore::LossLease losses = s_.losses.acquire(compute_);
  evaluate_head(batch, weights, losses.loss);
  s_.losses.deliver(std::move(losses), pass_tag, std::move(receive));
}

void Schedule::evaluate_head(const BatchLease& batch, const UnitLease& weights,
                             const TensorView& losses) {
  if (preference_.spare) {
    reference_head(weights.views.head, batch, {"evaluate", 0, walk_.head().value(), -1});
  }
  for (int cell = 0; cell < walk_.cells; ++cell) {
    const Tag tag{"evaluate", 0, walk_.head().value(), cell};
    const CellBatch& tokens = batch.cells[static_cast<std::size_t>(cell)];
    const std::int64_t n = tokens.ids.elements();
    const ActivationLease x = s_.activations.acquire(walk_.layers, cell, compute_, tag);
    if (preference_.pairs) {
      s_.model.head_preference_forward(compute_, weights.views.head, tokens, x.x,
                                       pair_outputs(losses, cell), tag);
      continue;
    }
    s_.model.head_forward(compute_, weights.views.head, tokens, x.x, losses.slice_rows(cell * n, n),
                          tag);
  }
}

}  // namespace strata
