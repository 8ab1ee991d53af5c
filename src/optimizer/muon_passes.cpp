// Both passes over the state are operators of SGD, so masters, moments and rounding have one
// definition:
// - m and u: SGD with Nesterov's momentum, whose weight is a scratch that decays to zero and then
//   takes one step upwards, which leaves u.
// - w: SGD without momentum, whose moment is the same scratch.

#include "strata/optimizer/muon_passes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <numeric>
#include <type_traits>

#include "strata/optimizer/newton_schulz.h"

namespace strata {

namespace {

/// An orthogonal matrix times this and the root of its larger extent has elements about as large as
/// AdamW's update has (Liu et al., 2025).
constexpr double kScale = 0.2;
/// Smaller norms count as this, so that a gradient of zeros changes nothing.
constexpr double kLeastNorm = 1e-7;

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

MuonPasses::Memory::Memory(DType compute, std::int64_t most_elements, Allocator& memory)
    : numbers(memory.allocate(Space::kPageable, "optimizer.muon", sizeof(Numbers))),
      direction(memory.tensor(Space::kPageable, "optimizer.muon", accumulator_of(compute),
                              {most_elements})) {}

MuonPasses::MuonPasses(const UpdaterParts& parts, const Memory& memory, double momentum,
                       ThreadPool& pool)
    : p_(parts),
      direction_(memory.direction),
      momentum_(momentum),
      pool_(pool),
      numbers_(new(memory.numbers) Numbers) {
  // What decays to zero must be finite.
  const TensorView& u = direction_;
  p_.device.stream(Lane::kHost)
      .host_task(
          "clear_direction", [&] { return Accesses({}, {u.bytes()}); }, {.phase = "initialize"},
          [u] { std::memset(u.data, 0, u.bytes().bytes); });
}

void MuonPasses::settle(const AdamWScalars& actual) {
  numbers_->direct = actual;
  numbers_->direct.lr = 1;
  numbers_->direct.beta1 = momentum_;
  numbers_->apply = actual;
  numbers_->apply.beta1 = 0;
  numbers_->apply.grad_factor = kNewtonSchulzGain;
}

ByteRange MuonPasses::numbers() const {
  return {reinterpret_cast<const std::byte*>(numbers_), sizeof(Numbers)};
}

/// Returns the operator of elements of a block with what both passes have in common.
Momentum MuonPasses::operator_of(BlockId block, std::int64_t begin) const {
  Momentum op;
  op.rounding_stream = static_cast<std::uint64_t>(block.value());
  op.rounding_begin = begin;
  op.nonfinite = p_.nonfinite;
  return op;
}

TensorView MuonPasses::make_direction(BlockId block, std::int64_t begin, std::int64_t n,
                                      const Tag& tag) const {
  const BlockState& state = p_.state.block(block);
  const TensorView u = direction_.slice_rows(0, n);
  Momentum op = operator_of(block, begin);
  op.formula = MomentumFormula::kNesterov;
  op.weight = u;
  op.m = state.m.slice_rows(begin - state.begin, n);
  op.grad = state.grad.slice_rows(begin - state.begin, n);
  op.scalars = &numbers_->direct;
  op.lr_factor = -1;     // upwards
  op.weight_decay = -1;  // times lr: all of it
  p_.host_kernels.run(p_.device.stream(Lane::kHost), op, tag);
  return u;
}

void MuonPasses::normalize(const TensorView& u, const ConstTensorView& partials,
                           const TensorView& x, const Tag& tag) const {
  p_.device.stream(Lane::kHost)
      .host_task(
          "normalize", [&] { return Accesses({u.bytes(), partials.bytes()}, {x.bytes()}); }, tag,
          [u, partials, x, &pool = pool_] {
            const auto* sums = partials.as<double>();
            const double norm = std::sqrt(std::accumulate(sums, sums + partials.elements(), 0.0));
            scale_to(u, 1 / std::max(norm, kLeastNorm), x, pool);
          },
          {.kind = CostKind::kPooled});
}

void MuonPasses::apply(BlockId block, const ParameterRun& matrix, std::int64_t begin,
                       const ConstTensorView& o, const Tag& tag) const {
  const BlockState& state = p_.state.block(block);
  const std::int64_t n = o.elements();
  const double scale =
      kScale * std::sqrt(static_cast<double>(std::max(matrix.rows, matrix.segment->cols)));
  Momentum op = operator_of(block, begin);
  op.formula = MomentumFormula::kSgd;
  op.weight = state.weight.slice_rows(begin - state.begin, n);
  if (state.low) op.low = state.low.slice_rows(begin - state.begin, n);
  op.m = direction_.slice_rows(0, n);
  op.grad = o;
  op.scalars = &numbers_->apply;
  op.lr_factor = matrix.lr_factor * scale;
  op.weight_decay = matrix.weight_decay / scale;
  p_.host_kernels.run(p_.device.stream(Lane::kHost), op, tag);
}

}  // namespace strata
