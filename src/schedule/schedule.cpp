#include "strata/schedule/schedule.h"

#include <utility>

namespace strata {

namespace {

enum class Extent { kForward, kForwardAndBackward };

/// The units whose weights a pass acquires, in order. Backward of the embedding needs none.
std::vector<int> unit_order(const Walk& walk, Extent extent) {
  std::vector<int> units;
  const auto append = [&](const Visit& visit) {
    units.insert(units.end(), visit.units.begin(), visit.units.end());
  };
  for (const Visit& visit : walk.forward) append(visit);
  append(walk.head);
  if (extent == Extent::kForward) return units;
  for (std::size_t i = 0; i + 1 < walk.backward.size(); ++i) append(walk.backward[i]);
  return units;
}

/// The boundary activations that a pass reads, in order: a layer reads boundary (unit - 1) in
/// forward and again in backward, the head reads boundary L.
std::vector<ActivationStore::Read> read_order(const Walk& walk, Extent extent) {
  std::vector<ActivationStore::Read> reads;
  const auto append = [&](const Visit& visit) {
    for (const int cell : visit.cells) {
      for (const int unit : visit.units) {
        if (unit > 0) reads.push_back({unit - 1, cell});
      }
    }
  };
  for (const Visit& visit : walk.forward) append(visit);
  append(walk.head);
  if (extent == Extent::kForward) return reads;
  for (const Visit& visit : walk.backward) append(visit);
  return reads;
}

/// The cells whose backward a pass runs, in order.
std::vector<KeptStore::Read> backward_order(const Walk& walk) {
  std::vector<KeptStore::Read> cells;
  for (const Visit& visit : walk.backward) {
    for (const int cell : visit.cells) {
      for (const int unit : visit.units) {
        if (unit > 0) cells.push_back({unit - 1, cell});
      }
    }
  }
  return cells;
}

}  // namespace

Schedule::Schedule(const Stores& stores, const WalkOptions& options, Stream& compute,
                   std::vector<TensorView> boundary_gradients)
    : s_(stores),
      walk_(make_walk(options)),
      layers_(options.layers),
      compute_(compute),
      d_(std::move(boundary_gradients)) {}

void Schedule::step(const StepPlan& plan, const std::vector<int>& slots) {
  s_.optimizer.begin_step(plan, {.phase = "update"});
  s_.gradients.begin_step();
  for (int pass = 0; pass < static_cast<int>(slots.size()); ++pass) {
    const Tag tag{.phase = "forward", .pass = pass};
    s_.weights.begin_pass(unit_order(walk_, Extent::kForwardAndBackward));
    s_.activations.begin_pass(read_order(walk_, Extent::kForwardAndBackward));
    s_.kept.begin_pass(backward_order(walk_));
    const BatchLease batch =
        s_.batches.upload(slots[static_cast<std::size_t>(pass)], compute_, tag);
    forward(batch, pass);
    loss(batch, pass);
    backward(batch, pass);
  }
  s_.optimizer.finish_step({.phase = "update"});
}

std::vector<UnitLease> Schedule::acquire(const Visit& visit, const Tag& tag) {
  std::vector<UnitLease> weights;
  for (const int unit : visit.units) weights.push_back(s_.weights.acquire(unit, compute_, tag));
  s_.weights.prefetch(tag);
  return weights;
}

/// Every sub-batch passes a visit's units while their weights are there.
void Schedule::forward(const BatchLease& batch, int pass) {
  for (const Visit& visit : walk_.forward) {
    const std::vector<UnitLease> weights = acquire(visit, {.phase = "forward", .pass = pass});
    for (const int cell : visit.cells) {
      const CellBatch& tokens = batch.cells[static_cast<std::size_t>(cell)];
      for (std::size_t i = 0; i < visit.units.size(); ++i) {
        const int unit = visit.units[i];
        const Tag tag{"forward", pass, unit, cell};
        if (unit == 0) {
          ActivationLease y = s_.activations.produce(0, cell, compute_);
          s_.model.embedding_forward(compute_, weights[i].views.embedding, tokens, y.x, tag);
          s_.activations.keep(std::move(y), tag);
          continue;
        }
        const ActivationLease x = s_.activations.acquire(unit - 1, cell, compute_, tag);
        s_.activations.prefetch(tag);
        ActivationLease y = s_.activations.produce(unit, cell, compute_);
        KeptLease kept = s_.kept.fill(unit - 1, cell, compute_);
        s_.model.layer_forward(compute_, weights[i].views.layer, tokens, x.x, kept.activations, y.x,
                               tag);
        s_.kept.keep(std::move(kept), tag);
        s_.activations.keep(std::move(y), tag);
      }
    }
  }
}

/// Final norm, logits, loss and their backward in one visit: full logits never exist.
void Schedule::loss(const BatchLease& batch, int pass) {
  const int head = layers_ + 1;
  const std::vector<UnitLease> weights = acquire(walk_.head, {.phase = "head", .pass = pass});
  GradientLease gradients = s_.gradients.acquire(head, compute_, {"head", pass, head, -1});
  LossStore::LossLease losses = s_.losses.acquire(compute_);
  for (const int cell : walk_.head.cells) {
    const Tag tag{"head", pass, head, cell};
    const CellBatch& tokens = batch.cells[static_cast<std::size_t>(cell)];
    const std::int64_t n = tokens.ids.elements();
    const ActivationLease x = s_.activations.acquire(layers_, cell, compute_, tag);
    s_.activations.prefetch(tag);
    s_.kept.prefetch(tag);
    s_.model.head_forward_backward(compute_, weights[0].views.head, gradients.views.head, tokens,
                                   batch.grad_scale, x.x, d_[static_cast<std::size_t>(cell)],
                                   losses.loss.slice_rows(cell * n, n), tag);
  }
  s_.losses.deliver(std::move(losses), {"head", pass, head, -1}, s_.optimizer.loss_receiver());
  offload(std::move(gradients), pass);
}

/// What was not kept is computed again from the boundary activation, then backward; gradients of
/// all sub-batches add up on the device and leave once.
void Schedule::backward(const BatchLease& batch, int pass) {
  for (const Visit& visit : walk_.backward) {
    const bool embedding = visit.units.front() == 0;
    std::vector<UnitLease> weights;
    if (!embedding) weights = acquire(visit, {.phase = "backward", .pass = pass});
    std::vector<GradientLease> gradients;
    for (const int unit : visit.units) {
      gradients.push_back(s_.gradients.acquire(unit, compute_, {"backward", pass, unit, -1}));
    }
    for (const int cell : visit.cells) {
      const CellBatch& tokens = batch.cells[static_cast<std::size_t>(cell)];
      const TensorView d = d_[static_cast<std::size_t>(cell)];
      for (std::size_t i = 0; i < visit.units.size(); ++i) {
        const int unit = visit.units[i];
        const Tag tag{"backward", pass, unit, cell};
        if (embedding) {
          s_.model.embedding_backward(compute_, gradients[i].views.embedding, tokens, d, tag);
          continue;
        }
        const ActivationLease x = s_.activations.acquire(unit - 1, cell, compute_, tag);
        const KeptLease kept = s_.kept.acquire(unit - 1, cell, compute_, tag);
        s_.kept.prefetch(tag);
        s_.activations.prefetch(tag);
        s_.model.layer_backward(compute_, weights[i].views.layer, gradients[i].views.layer, tokens,
                                x.x, kept.activations, d, tag);
      }
    }
    weights.clear();
    for (GradientLease& lease : gradients) offload(std::move(lease), pass);
  }
}

void Schedule::offload(GradientLease gradients, int pass) {
  const Tag tag{"offload", pass, gradients.unit, -1};
  for (Arrival& arrival : s_.gradients.offload(std::move(gradients), tag)) {
    s_.optimizer.arrived(std::move(arrival), {.phase = "update", .pass = pass});
  }
}

void Schedule::evaluate(int slot, std::function<void(double)> receive) {
  const Tag pass_tag{.phase = "evaluate", .pass = 0};
  s_.weights.begin_pass(unit_order(walk_, Extent::kForward));
  s_.activations.begin_pass(read_order(walk_, Extent::kForward));
  s_.kept.begin_pass({});
  const BatchLease batch = s_.batches.upload(slot, compute_, pass_tag);
  forward(batch, 0);
  const int head = layers_ + 1;
  const std::vector<UnitLease> weights = acquire(walk_.head, pass_tag);
  LossStore::LossLease losses = s_.losses.acquire(compute_);
  for (const int cell : walk_.head.cells) {
    const Tag tag{"evaluate", 0, head, cell};
    const CellBatch& tokens = batch.cells[static_cast<std::size_t>(cell)];
    const std::int64_t n = tokens.ids.elements();
    const ActivationLease x = s_.activations.acquire(layers_, cell, compute_, tag);
    s_.model.head_forward(compute_, weights[0].views.head, tokens, x.x,
                          losses.loss.slice_rows(cell * n, n), tag);
  }
  s_.losses.deliver(std::move(losses), pass_tag, std::move(receive));
}

}  // namespace strata
