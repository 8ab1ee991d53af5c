// The host lane makes the direction of one matrix while the device works on the one before it. A
// matrix is sent once the one before the last was applied, so two places are enough, and what waits
// for the host lane may overwrite them. Both passes over the state are operators of SGD, so
// masters, moments and rounding have one definition:
// - m and u: SGD with Nesterov's momentum, whose weight is a scratch that decays to zero and then
//   takes one step upwards, which leaves u.
// - w: SGD without momentum, whose moment is the same scratch.

#include "strata/optimizer/muon_updater.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <numeric>
#include <type_traits>

namespace strata {

namespace {

/// An orthogonal matrix times this and the root of its larger extent has elements about as large as
/// AdamW's update has (Liu et al., 2025).
constexpr double kScale = 0.2;
/// Smaller norms count as this, so that a gradient of zeros changes nothing.
constexpr double kLeastNorm = 1e-7;

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

template <class X>
void scale_to(const TensorView& x, double factor, const TensorView& y, ThreadPool& pool) {
  using A = std::conditional_t<std::is_same_v<X, double>, double, float>;
  constexpr std::int64_t kPiece = 1 << 16;  // elements
  const A* from = x.as<A>();
  X* to = y.as<X>();
  const auto rounded_factor = static_cast<A>(factor);
  pool.parallel_for(x.elements(), kPiece, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = static_cast<X>(from[i] * rounded_factor);
  });
}

/// Writes x times a factor, both rounded to A, to y, [n] X.
void scale_to(const TensorView& x, double factor, const TensorView& y, ThreadPool& pool) {
  switch (y.dtype) {
    case DType::kF64: return scale_to<double>(x, factor, y, pool);
    case DType::kF32: return scale_to<float>(x, factor, y, pool);
    default: return scale_to<Bf16>(x, factor, y, pool);
  }
}

}  // namespace

MuonUpdater::Memory::Memory(const ModelLayout& layout, const StatePlan& plan, Allocator& memory) {
  const Extents most = largest(layout, plan);
  const auto take = [&](Space space, DType dtype, std::int64_t elements) {
    return memory.tensor(space, "optimizer.muon", dtype, {elements});
  };
  numbers = memory.allocate(Space::kPageable, "optimizer.muon", sizeof(Numbers));
  direction = take(Space::kPageable, accumulator_of(plan.compute), most.elements);
  partials = take(Space::kPageable, DType::kF64, SquaredNorm::partials(most.elements));
  for (TensorView& place : at_home) place = take(Space::kPinned, plan.compute, most.elements);
  for (TensorView& place : on_device) place = take(Space::kDevice, plan.compute, most.elements);
  gram = take(Space::kDevice, plan.compute, most.square);
  polynomial = take(Space::kDevice, plan.compute, most.square);
  copy = take(Space::kDevice, plan.compute, most.elements);
}

MuonUpdater::MuonUpdater(const UpdaterParts& parts, const Memory& memory, double momentum,
                         ThreadPool& pool)
    : Updater(parts),
      memory_(memory),
      momentum_(momentum),
      pool_(pool),
      numbers_(new(memory.numbers) Numbers) {
  // What decays to zero must be finite.
  const TensorView& u = memory_.direction;
  lane(Lane::kHost)
      .host_task(
          "clear_direction", [&] { return Accesses({}, {u.bytes()}); }, {.phase = "initialize"},
          [u] { std::memset(u.data, 0, u.bytes().bytes); });
}

bool MuonUpdater::settle(const AdamWScalars& actual) {
  numbers_->direct = actual;
  numbers_->direct.lr = 1;
  numbers_->direct.beta1 = momentum_;
  numbers_->apply = actual;
  numbers_->apply.beta1 = 0;
  numbers_->apply.grad_factor = kNewtonSchulzGain;
  return true;
}

std::optional<ByteRange> MuonUpdater::numbers() const {
  return ByteRange{reinterpret_cast<const std::byte*>(numbers_), sizeof(Numbers)};
}

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

/// Returns the operator of a matrix with what both passes have in common.
Momentum MuonUpdater::operator_of(BlockId block, const ParameterRun& run) const {
  Momentum op;
  op.rounding_stream = static_cast<std::uint64_t>(block.value());
  op.rounding_begin = run.begin;
  op.nonfinite = p_.nonfinite;
  return op;
}

/// Submits on the host lane what makes the direction x of a matrix, and its new moment.
void MuonUpdater::make_direction(BlockId block, const ParameterRun& run, const TensorView& to,
                                 const Tag& tag) const {
  Stream& host = lane(Lane::kHost);
  const BlockState& state = p_.state.block(block);
  const std::int64_t n = to.elements();
  const TensorView u = shaped(memory_.direction, {n});
  const TensorView partials = shaped(memory_.partials, {SquaredNorm::partials(n)});
  Momentum op = operator_of(block, run);
  op.formula = MomentumFormula::kNesterov;
  op.weight = u;
  op.m = state.m.slice_rows(run.begin, n);
  op.grad = state.grad.slice_rows(run.begin, n);
  op.scalars = &numbers_->direct;
  op.lr_factor = -1;     // upwards
  op.weight_decay = -1;  // times lr: all of it
  p_.host_kernels.run(host, op, tag);
  p_.host_kernels.run(host, SquaredNorm{.x = u, .partial = partials}, tag);
  host.host_task(
      "normalize", [&] { return Accesses({u.bytes(), partials.bytes()}, {to.bytes()}); }, tag,
      [u, partials, to, &pool = pool_] {
        const auto* sums = partials.as<double>();
        const double norm = std::sqrt(std::accumulate(sums, sums + partials.elements(), 0.0));
        scale_to(u, 1 / std::max(norm, kLeastNorm), to, pool);
      },
      {.kind = CostKind::kPooled});
}

/// Submits the way of a matrix to the device, its steps there and its way home.
MuonUpdater::Travel MuonUpdater::send(BlockId block, const ParameterRun& run, std::size_t place,
                                      const Tag& tag) const {
  const std::int64_t columns = run.segment->cols;
  const std::int64_t n = run.rows * columns;
  const std::int64_t smaller = std::min(run.rows, columns);
  const TensorView home = shaped(memory_.at_home[place], {n});
  const TensorView there = shaped(memory_.on_device[place], {run.rows, columns});
  make_direction(block, run, home, tag);
  Stream& in = lane(Lane::kActivationsIn);
  in.wait(lane(Lane::kHost).record(), WaitFor::kFilled);
  in.copy(there.data, home.data, home.bytes().bytes, tag);
  Stream& compute = lane(Lane::kCompute);
  compute.wait(in.record(), WaitFor::kFilled);
  submit_newton_schulz(p_.kernels, compute, there,
                       {.gram = shaped(memory_.gram, {smaller, smaller}),
                        .polynomial = shaped(memory_.polynomial, {smaller, smaller}),
                        .copy = shaped(memory_.copy, {run.rows, columns})},
                       tag);
  Stream& out = lane(Lane::kOut);
  out.wait(compute.record(), WaitFor::kFilled);
  out.copy(home.data, there.data, home.bytes().bytes, tag);
  return {.run = &run, .direction = home, .home = out.record()};
}

/// Submits on the host lane the step along a direction that is back.
void MuonUpdater::apply(BlockId block, const Travel& back, const Tag& tag) const {
  Stream& host = lane(Lane::kHost);
  host.wait(back.home, WaitFor::kArrived);
  const BlockState& state = p_.state.block(block);
  const ParameterRun& run = *back.run;
  const std::int64_t n = back.direction.elements();
  const double scale =
      kScale * std::sqrt(static_cast<double>(std::max(run.rows, run.segment->cols)));
  Momentum op = operator_of(block, run);
  op.formula = MomentumFormula::kSgd;
  op.weight = state.weight.slice_rows(run.begin, n);
  if (state.low) op.low = state.low.slice_rows(run.begin, n);
  op.m = shaped(memory_.direction, {n});
  op.grad = back.direction;
  op.scalars = &numbers_->apply;
  op.lr_factor = run.lr_factor * scale;
  op.weight_decay = run.weight_decay / scale;
  p_.host_kernels.run(host, op, tag);
}

}  // namespace strata
