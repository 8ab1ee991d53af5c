// The host lane makes the direction of one matrix while the device works on the one before it. A
// matrix is sent once the one before the last was applied, so two places are enough, and what waits
// for the host lane may overwrite them.

#include "strata/optimizer/muon_updater.h"

#include <algorithm>

namespace strata {

namespace {

/// The extents of the largest matrices.
struct Extents {
  std::int64_t elements = 0;
  std::int64_t square = 0;  ///< elements of the largest Gram matrix
};

Extents largest(const ModelLayout& layout, const StatePlan& plan) {
  Extents all;
  for (const BlockId b : layout.blocks.ids()) {
    if (plan.blocks[b].updated_by != UpdatedBy::kMuon) continue;
    for (const Segment& segment : layout.blocks[b].segments) {
      if (!has_whole_matrices(layout.blocks[b], segment)) continue;
      for (const SourceTensor& source : segment.sources) {
        const std::int64_t smaller = std::min(source.rows, segment.cols);
        all.elements = std::max(all.elements, source.rows * segment.cols);
        all.square = std::max(all.square, smaller * smaller);
      }
    }
  }
  return all;
}

/// Returns the first elements of a view in another shape.
TensorView shaped(const TensorView& view, const Shape& shape) {
  return {view.data, view.dtype, shape};
}

}  // namespace

MuonUpdater::Memory::Memory(const ModelLayout& layout, const StatePlan& plan, Allocator& memory) {
  const Extents most = largest(layout, plan);
  const auto take = [&](Space space, DType dtype, std::int64_t elements) {
    return memory.tensor(space, "optimizer.muon", dtype, {elements});
  };
  passes = {plan.compute, most.elements, memory};
  partials = take(Space::kPageable, DType::kF64, SquaredNorm::partials(most.elements));
  for (TensorView& place : at_home) place = take(Space::kPinned, plan.compute, most.elements);
  for (TensorView& place : on_device) place = take(Space::kDevice, plan.compute, most.elements);
  scratch.gram = take(Space::kDevice, plan.compute, most.square);
  scratch.polynomial = take(Space::kDevice, plan.compute, most.square);
  scratch.copy = take(Space::kDevice, plan.compute, most.elements);
}

MuonUpdater::MuonUpdater(const UpdaterParts& parts, const Memory& memory, double momentum,
                         ThreadPool& pool)
    : Updater(parts), memory_(memory), passes_(parts, memory.passes, momentum, pool) {}

bool MuonUpdater::settle(const AdamWScalars& actual) {
  passes_.settle(actual);
  return true;
}

std::optional<ByteRange> MuonUpdater::numbers() const { return passes_.numbers(); }

// The host lane needs no wait: the decision was taken on it. Copies wait for the turn of the block.
void MuonUpdater::before_load(BlockId block, Event /*decided*/, const Tag& tag) {
  Stream& host = lane(Lane::kHost);
  begin(block, host);
  const BlockState& state = p_.state.block(block);
  p_.rule.submit(p_.host_kernels, host, block, state, state.grad,
                 {.scalars = p_.scalars, .nonfinite = p_.nonfinite}, tag);
  lane(Lane::kActivationsIn).wait(p_.weights.turn(), WaitFor::kTurn);
  std::optional<Travel> before;
  std::size_t place = 0;
  for (const ParameterRun& run : p_.rule.runs(block)) {
    if (run.rows == 0) continue;
    const Travel sent = send(block, run, place, tag);
    if (before) apply(block, *before, tag);
    before = sent;
    place = 1 - place;
  }
  if (before) apply(block, *before, tag);
  check_update(p_.nonfinite, block, tag);
  end(block, host.record());
}

/// Submits the way of a matrix to the device, its steps there and its way home.
MuonUpdater::Travel MuonUpdater::send(BlockId block, const ParameterRun& run, std::size_t place,
                                      const Tag& tag) const {
  const std::int64_t columns = run.segment->cols;
  const std::int64_t n = run.rows * columns;
  const TensorView home = shaped(memory_.at_home[place], {n});
  const TensorView there = shaped(memory_.on_device[place], {run.rows, columns});
  const TensorView u = passes_.make_direction(block, run.begin, n, tag);
  const TensorView partials = shaped(memory_.partials, {SquaredNorm::partials(n)});
  p_.host_kernels.run(lane(Lane::kHost), SquaredNorm{.x = u, .partial = partials}, tag);
  passes_.normalize(u, partials, home, tag);
  Stream& in = lane(Lane::kActivationsIn);
  in.wait(lane(Lane::kHost).record(), WaitFor::kFilled);
  in.copy(there.data, home.data, home.bytes().bytes, tag);
  Stream& compute = lane(Lane::kCompute);
  compute.wait(in.record(), WaitFor::kFilled);
  submit_newton_schulz(p_.kernels, compute, there, memory_.scratch, tag);
  Stream& out = lane(Lane::kOut);
  out.wait(compute.record(), WaitFor::kFilled);
  out.copy(home.data, there.data, home.bytes().bytes, tag);
  return {.run = &run, .direction = home, .home = out.record()};
}

/// Submits on the host lane the step along a direction that is back.
void MuonUpdater::apply(BlockId block, const Travel& back, const Tag& tag) const {
  lane(Lane::kHost).wait(back.home, WaitFor::kArrived);
  passes_.apply(block, *back.run, back.run->begin, back.direction, tag);
}

}  // namespace strata
