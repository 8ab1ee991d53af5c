// Sums the losses of a pass. They go over the out lane to the host lane, which adds them one after
// another in f64. The slots on both sides are leased until the next lane has read them.

#include "strata/store/loss_store.h"

#include <utility>

#include "strata/ops/preference.h"

namespace strata {

namespace {

std::size_t loss_bytes(std::int64_t tokens, DType dtype) {
  return static_cast<std::size_t>(tokens) * size_of(dtype);
}

template <class T>
double sum_in_order(const T* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(values[i]);
  return sum;
}

/// Returns the sums of columns of figures, in the order of pairs.
template <class T>
LossSums sum_of_pairs(const T* figures, std::int64_t count) {
  LossSums sums;
  for (const T* row = figures; row + PreferenceLoss::kFigures <= figures + count;
       row += PreferenceLoss::kFigures) {
    sums += {.loss = static_cast<double>(row[0]),
             .chosen_reward = static_cast<double>(row[1]),
             .rejected_reward = static_cast<double>(row[2]),
             .preferred = static_cast<double>(row[3])};
  }
  return sums;
}

template <class T>
LossSums sums_of(LossKind kind, const ConstTensorView& losses) {
  if (kind == LossKind::kPairs) return sum_of_pairs(losses.as<T>(), losses.elements());
  return {.loss = sum_in_order(losses.as<T>(), losses.elements())};
}

}  // namespace

LossStore::Memory::Memory(std::int64_t tokens, DType dtype, Allocator& memory)
    : device(memory, Space::kDevice, "loss", kSlots, loss_bytes(tokens, dtype)),
      host(memory, Space::kPinned, "loss", kSlots, loss_bytes(tokens, dtype)) {}

LossStore::LossStore(std::int64_t tokens, DType dtype, Arenas& arenas, LossKind kind)
    : tokens_(tokens),
      dtype_(dtype),
      kind_(kind),
      device_(arenas.device()),
      memory_(tokens, dtype, arenas) {}

LossStore::LossLease LossStore::acquire(Stream& compute) {
  Lease lease = memory_.device.fill(memory_.device.oldest(), 0, compute);
  const TensorView loss(lease.data(), dtype_, Shape{tokens_});
  return {std::move(lease), loss};
}

void LossStore::deliver(LossLease from, const Tag& tag,
                        std::function<void(const LossSums&)> receive) {
  Stream& out = device_.stream(Lane::kOut);
  Stream& host = device_.stream(Lane::kHost);
  from.lease.filled();
  from.lease.use(out);
  Lease landed = memory_.host.fill(memory_.host.oldest(), 0, out);
  const ConstTensorView loss(landed.data(), dtype_, Shape{tokens_});
  out.copy(landed.data(), from.lease.data(), loss.bytes().bytes, tag);
  landed.filled();
  landed.use(host);
  host.host_task(
      "sum_loss", [&] { return Accesses({loss.bytes()}, {}); }, tag,
      [loss, kind = kind_, receive = std::move(receive)] {
        receive(loss.dtype == DType::kF64 ? sums_of<double>(kind, loss)
                                          : sums_of<float>(kind, loss));
      });
}

}  // namespace strata
