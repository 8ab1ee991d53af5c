// Counts go over the out lane to the host lane, as losses do. The slots on both sides are leased
// until the next lane has read them.

#include "strata/store/fp8_count_store.h"

#include <cstddef>
#include <utility>

#include "strata/ops/fp8.h"

namespace strata {

namespace {

std::size_t count_bytes(std::int64_t rows) {
  return static_cast<std::size_t>(rows) * CountFp8::kCounts * sizeof(double);
}

TensorView counts_at(const Lease& lease, std::int64_t rows) {
  return {lease.data(), DType::kF64, Shape{rows, CountFp8::kCounts}};
}

}  // namespace

Fp8CountStore::Memory::Memory(std::int64_t rows, Allocator& memory)
    : device(memory, Space::kDevice, "fp8_counts", 1, count_bytes(rows)),
      host(memory, Space::kPinned, "fp8_counts", 1, count_bytes(rows)) {}

Fp8CountStore::Fp8CountStore(std::int64_t rows, Arenas& arenas)
    : rows_(rows), device_(arenas.device()), memory_(rows, arenas) {}

Fp8CountStore::CountLease Fp8CountStore::acquire(Stream& compute, const Tag& tag) {
  Lease lease = memory_.device.fill(memory_.device.oldest(), 0, compute);
  const TensorView counts = counts_at(lease, rows_);
  compute.set(counts.data, 0, counts.bytes().bytes, tag);
  return {std::move(lease), counts};
}

void Fp8CountStore::deliver(CountLease from, const Tag& tag,
                            std::function<void(std::span<const double>)> receive) {
  Stream& out = device_.stream(Lane::kOut);
  Stream& host = device_.stream(Lane::kHost);
  from.lease.filled();
  from.lease.use(out);
  Lease landed = memory_.host.fill(memory_.host.oldest(), 0, out);
  const ConstTensorView counts = counts_at(landed, rows_);
  out.copy(landed.data(), from.lease.data(), counts.bytes().bytes, tag);
  landed.filled();
  landed.use(host);
  host.host_task(
      "read_fp8_counts", [&] { return Accesses({counts.bytes()}, {}); }, tag,
      [counts, receive = std::move(receive)] {
        receive({counts.as<double>(), static_cast<std::size_t>(counts.elements())});
      });
}

}  // namespace strata
