// Fetches layers of groups in the order of the sweep and sends home what was added, row by row. A
// slot that keeps its content from one sweep to the next needs no fetch: it was added to in place.

#include "strata/store/kv_store.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

#include "strata/device/device.h"

namespace strata {
namespace {

/// Returns the rows of both, apart and in order.
std::vector<KvRows> joined(std::vector<KvRows> rows, const std::vector<KvRows>& more) {
  rows.insert(rows.end(), more.begin(), more.end());
  std::ranges::sort(rows, {}, &KvRows::begin);
  std::vector<KvRows> apart;
  for (const KvRows& run : rows) {
    if (apart.empty() || run.begin > apart.back().begin + apart.back().count) {
      apart.push_back(run);
    } else {
      KvRows& last = apart.back();
      last.count = std::max(last.count, run.begin + run.count - last.begin);
    }
  }
  return apart;
}

}  // namespace

std::int64_t KvShape::most_rows() const {
  std::int64_t most = 0;
  for (int layer = 0; layer < layers; ++layer) most = std::max(most, rows_of(layer));
  return most;
}

std::size_t KvShape::bytes() const {
  std::size_t all = 0;
  for (int layer = 0; layer < layers; ++layer) all += layer_bytes(layer);
  return all * static_cast<std::size_t>(groups);
}

KvStore::Memory::Memory(const KvShape& shape, Allocator& memory)
    : slots(memory, Space::kDevice, "kv.slots", shape.slots,
            static_cast<std::size_t>(shape.most_rows()) * shape.row_bytes()) {
  const Space space = shape.slots == 0 ? Space::kDevice : Space::kPinned;
  for (int layer = 0; layer < shape.layers; ++layer) {
    memory.repeat(static_cast<std::size_t>(shape.groups),
                  [&] { homes.push_back(memory.allocate(space, "kv", shape.layer_bytes(layer))); });
  }
}

KvStore::KvStore(const KvShape& shape, Arenas& arenas)
    : shape_(shape),
      device_(arenas.device()),
      memory_(shape, arenas),
      sent_(memory_.homes.size()),
      fetched_(memory_.homes.size()),
      left_(memory_.homes.size()) {}

KvViews KvStore::views(std::byte* data, int layer) const {
  const bool int8 = shape_.kept == KvDType::kInt8;
  const DType dtype = int8 ? DType::kI8 : shape_.dtype;
  const auto width = static_cast<std::size_t>(shape_.heads * shape_.head_size) * size_of(dtype);
  const auto at = [&](std::size_t begin, DType of, Shape shape) {
    return TensorView(data + begin, of, shape,
                      static_cast<std::int64_t>(shape_.row_bytes() / size_of(of)));
  };
  const std::int64_t rows = shape_.rows_of(layer);
  const Shape shape{rows, shape_.heads, shape_.head_size};
  KvViews views{.k = at(0, dtype, shape), .v = at(width, dtype, shape)};
  if (!int8) return views;
  const std::size_t scales = static_cast<std::size_t>(shape_.heads) * sizeof(float);
  views.k_scale = at(2 * width, DType::kF32, {rows, shape_.heads});
  views.v_scale = at(2 * width + scales, DType::kF32, {rows, shape_.heads});
  return views;
}

std::size_t KvStore::copy_rows(Stream& stream, std::byte* to, const std::byte* from,
                               const std::vector<KvRows>& rows, const Tag& tag) const {
  std::size_t copied = 0;
  for (const KvRows& run : rows) {
    if (run.count == 0) continue;
    const std::size_t begin = static_cast<std::size_t>(run.begin) * shape_.row_bytes();
    const std::size_t bytes = static_cast<std::size_t>(run.count) * shape_.row_bytes();
    stream.copy(to + begin, from + begin, bytes, tag);
    copied += bytes;
  }
  return copied;
}

void KvStore::begin_sweep(std::vector<KvVisit> visits) {
  note_left_rows();
  visits_ = std::move(visits);
  if (at_home()) return;
  turns_.clear();
  std::vector<std::int64_t> things;
  for (int layer = 0; layer < shape_.layers; ++layer) {
    for (std::size_t visit = 0; visit < visits_.size(); ++visit) {
      if (!needs_slot(visits_[visit], layer)) continue;
      turns_.push_back(visit);
      things.push_back(thing(layer, visits_[visit].group));
    }
  }
  plan_ = AccessPlan(std::move(things));
  for (int slot = 0; slot < memory_.slots.count(); ++slot) {
    const std::int64_t held = memory_.slots.key(slot);
    if (held == SlotRing::kNoKey) continue;
    if (has_all(held)) {
      memory_.slots.needed_at(slot, plan_.next_use(held));
    } else {
      memory_.slots.forget(slot);
    }
  }
}

void KvStore::note_left_rows() {
  for (int slot = 0; slot < memory_.slots.count(); ++slot) {
    const std::int64_t held = memory_.slots.key(slot);
    if (held == SlotRing::kNoKey) continue;
    const auto layer = static_cast<int>(held / shape_.groups);
    const auto group = static_cast<int>(held % shape_.groups);
    const auto visit = std::ranges::find(visits_, group, &KvVisit::group);
    if (visit == visits_.end() || !needs_slot(*visit, layer)) continue;
    left_[static_cast<std::size_t>(held)] =
        joined(read_rows(*visit, layer), traffic(*visit, layer).added);
  }
}

bool KvStore::needs_slot(const KvVisit& visit, int layer) const {
  const KvTraffic& rows = traffic(visit, layer);
  return !rows.added.empty() || (!rows.kept_elsewhere.empty() && !shape_.attended_at_home(layer));
}

std::vector<KvRows> KvStore::read_rows(const KvVisit& visit, int layer) const {
  const KvTraffic& rows = traffic(visit, layer);
  std::vector<KvRows> read = rows.kept;
  if (!shape_.attended_at_home(layer)) {
    read.insert(read.end(), rows.kept_elsewhere.begin(), rows.kept_elsewhere.end());
  }
  return read;
}

bool KvStore::has_all(std::int64_t held) const {
  const auto layer = static_cast<int>(held / shape_.groups);
  const auto group = static_cast<int>(held % shape_.groups);
  const std::vector<KvRows>& left = left_[static_cast<std::size_t>(held)];
  return std::ranges::all_of(visits_, [&](const KvVisit& visit) {
    return visit.group != group ||
           std::ranges::all_of(read_rows(visit, layer), [&](const KvRows& run) {
             const auto after = std::ranges::upper_bound(left, run.begin, {}, &KvRows::begin);
             return run.count == 0 ||
                    (after != left.begin() &&
                     std::prev(after)->begin + std::prev(after)->count >= run.begin + run.count);
           });
  });
}

bool KvStore::load(std::int64_t needed_at, const Tag& tag) {
  SlotRing& slots = memory_.slots;
  const int slot = slots.victim();
  if (slot < 0) return false;
  const std::int64_t held = slots.key(slot);
  if (held != SlotRing::kNoKey) {
    if (plan_.next_use(held) <= needed_at) return false;
    plan_.lost(held);
  }
  const std::int64_t key = plan_.key(needed_at);
  const auto home = static_cast<std::size_t>(key);
  const auto layer = static_cast<int>(key / shape_.groups);
  const KvVisit& visit = visits_[turns_[static_cast<std::size_t>(needed_at)]];
  Stream& in = device_.stream(Lane::kActivationsIn);
  Lease lease = slots.fill(slot, key, in);
  slots.needed_at(slot, plan_.next_use(key));
  in.wait(sent_[home], WaitFor::kFilled);
  const Tag of_load{tag.phase, tag.pass, layer + 1, visit.group};
  fetched_bytes_ +=
      copy_rows(in, lease.data(), memory_.homes[home], read_rows(visit, layer), of_load);
  lease.filled();
  fetched_[home] = in.record();
  return true;
}

KvLease KvStore::acquire(int layer, std::size_t visit, Stream& compute, const Tag& tag) {
  const std::int64_t key = thing(layer, visits_.at(visit).group);
  const auto home = static_cast<std::size_t>(key);
  KvLease result{.lease = {}, .views = {}, .layer = layer, .thing = key, .visit = visit};
  if (at_home()) {
    result.views = views(memory_.homes[home], layer);
    return result;
  }
  SlotRing& slots = memory_.slots;
  if (slots.find(key) < 0 && !load(plan_.position(), tag)) {
    throw std::logic_error("no slot is free for keys and values " + std::to_string(key));
  }
  plan_.advance(key);
  const int slot = slots.find(key);
  slots.needed_at(slot, plan_.next_use(key));
  // The copy of what was added before has left.
  if (!shape_.attended_at_home()) compute.wait(sent_[home], WaitFor::kReuse);
  result.lease = slots.use(slot, compute);
  result.views = views(result.lease.data(), layer);
  return result;
}

void KvStore::keep(KvLease lease, Stream& compute, const Tag& tag) {
  if (at_home()) return;
  if (shape_.attended_at_home()) {
    lease.lease.filled(compute);
    return;
  }
  Stream& out = device_.stream(Lane::kOut);
  const auto home = static_cast<std::size_t>(lease.thing);
  lease.lease.filled(compute);
  lease.lease.use(out);
  sent_bytes_ += copy_rows(out, memory_.homes[home], lease.lease.data(),
                           traffic(visits_[lease.visit], lease.layer).added, tag);
  lease.lease.end();
  sent_[home] = out.record();
}

void KvStore::prefetch(const Tag& tag) {
  if (at_home()) return;
  const std::int64_t end = std::min(plan_.size(), plan_.position() + memory_.slots.count());
  for (std::int64_t p = plan_.first_absent(); p < end; ++p) {
    if (memory_.slots.find(plan_.key(p)) < 0 && !load(p, tag)) return;
    plan_.is_there();
  }
}

}  // namespace strata
