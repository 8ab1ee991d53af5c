// Takes the batch of a pass to the device. The parts of a pass lie side by side in one buffer, so
// that one copy takes them all. Views of each sub-batch are made from the same offsets.

#include "strata/store/batch_store.h"

#include <algorithm>
#include <stdexcept>

#include "strata/base/bytes.h"
#include "strata/base/convert.h"
#include "strata/ops/preference.h"

namespace strata {

// What is loaded is what the operator reads, and its figures fit where a pass has losses of tokens.
static_assert(kPairColumns == PreferenceLoss::kPairColumns);
static_assert(kFewestPairTokens >= PreferenceLoss::kFigures);

namespace {

std::span<std::int32_t> ints(std::byte* base, std::size_t begin, std::size_t end) {
  return {reinterpret_cast<std::int32_t*>(base + begin), (end - begin) / sizeof(std::int32_t)};
}

}  // namespace

BatchStore::Offsets BatchStore::offsets(const BatchStoreShape& shape) {
  const auto tokens = static_cast<std::size_t>(shape.batch.pass_tokens());
  const auto segments = static_cast<std::size_t>(
      shape.batch.sub_batches * segment_entries(shape.batch, shape.mask) * kSegmentColumns);
  Offsets o{};
  o.targets = o.ids + tokens * 4;
  o.positions = o.targets + tokens * 4;
  o.segments = o.positions + tokens * 4;
  o.order = o.segments + segments * 4;
  o.pairs = o.order + tokens * 4;
  const std::int64_t pairs = shape.pairs ? shape.batch.sub_batches * pair_entries(shape.batch) : 0;
  o.reference_logs = round_up(o.pairs + static_cast<std::size_t>(pairs * kPairColumns) * 4, 8);
  const std::int64_t logs = shape.reference_logs ? 2 * pairs : 0;
  o.scale = o.reference_logs + static_cast<std::size_t>(logs) * sizeof(double);
  o.total = o.scale + 8;
  return o;
}

BatchStore::Memory::Memory(const BatchStoreShape& shape, Allocator& memory)
    : slots(memory, Space::kDevice, "batch", kDeviceSlots, offsets(shape).total) {
  memory.repeat(static_cast<std::size_t>(shape.host_slots), [&] {
    host.push_back(memory.allocate(Space::kPinned, "batch", offsets(shape).total));
  });
}

BatchStore::BatchStore(const BatchStoreShape& shape, Arenas& arenas)
    : shape_(shape),
      offsets_(offsets(shape)),
      device_(arenas.device()),
      memory_(shape, arenas),
      uploaded_(static_cast<std::size_t>(shape.host_slots)),
      segment_counts_(static_cast<std::size_t>(shape.host_slots),
                      std::vector<std::int64_t>(static_cast<std::size_t>(shape.batch.sub_batches))),
      draws_(static_cast<std::size_t>(shape.host_slots)) {
  if (shape.pairs) pair_counts_ = segment_counts_;
  for (std::vector<TokenDraws>& draws : draws_) {
    draws.reserve(static_cast<std::size_t>(shape.batch.sub_batches));
  }
}

PassBuffers BatchStore::host(int slot) {
  const auto s = static_cast<std::size_t>(slot);
  device_.wait(uploaded_.at(s));
  std::byte* base = memory_.host[s];
  device_.host_access("fill_batch", [&] { return Accesses({}, {{base, offsets_.total}}); },
                      {.phase = "data"});
  std::vector<std::int64_t>& counts = segment_counts_[s];
  std::ranges::fill(counts, segment_entries(shape_.batch, shape_.mask));
  if (shape_.pairs) std::ranges::fill(pair_counts_[s], 0);
  draws_[s].clear();
  PassBuffers buffers{.ids = ints(base, offsets_.ids, offsets_.targets),
                      .targets = ints(base, offsets_.targets, offsets_.positions),
                      .positions = ints(base, offsets_.positions, offsets_.segments),
                      .segments = ints(base, offsets_.segments, offsets_.order),
                      .order = ints(base, offsets_.order, offsets_.pairs),
                      .segment_counts = counts};
  if (!shape_.pairs) return buffers;
  const auto entries = static_cast<std::size_t>(shape_.batch.sub_batches *
                                                pair_entries(shape_.batch) * kPairColumns);
  buffers.pairs = ints(base, offsets_.pairs, offsets_.pairs + entries * 4);
  buffers.pair_counts = pair_counts_[s];
  buffers.reference_logs = {reinterpret_cast<double*>(base + offsets_.reference_logs),
                            (offsets_.scale - offsets_.reference_logs) / sizeof(double)};
  return buffers;
}

void BatchStore::set_grad_scale(int slot, double scale) {
  std::byte* base = memory_.host.at(static_cast<std::size_t>(slot));
  store_as({&scale, 1}, shape_.scale, {base + offsets_.scale, 8});
}

void BatchStore::set_draws(int slot, std::span<const TokenDraws> sub_batches) {
  draws_.at(static_cast<std::size_t>(slot)).assign(sub_batches.begin(), sub_batches.end());
}

BatchLease BatchStore::upload(int slot, Stream& compute, const Tag& tag) {
  Stream& in = device_.stream(Lane::kActivationsIn);
  const int device_slot = memory_.slots.oldest();
  if (device_slot < 0) throw std::logic_error("every batch slot is in use");
  Lease lease = memory_.slots.fill(device_slot, ++uploads_, in);
  const auto s = static_cast<std::size_t>(slot);
  in.copy(lease.data(), memory_.host.at(s), offsets_.total, tag);
  lease.filled();
  uploaded_[s] = in.record();
  lease.use(compute);
  return view(std::move(lease), s);
}

BatchLease BatchStore::view(Lease lease, std::size_t host_slot) const {
  const std::vector<std::int64_t>& segment_counts = segment_counts_[host_slot];
  const std::vector<TokenDraws>& draws = draws_[host_slot];
  const std::byte* base = lease.data();
  const std::int64_t n = shape_.batch.sub_batch_tokens();
  const std::int64_t entries = segment_entries(shape_.batch, shape_.mask);
  BatchLease batch;
  for (std::int64_t c = 0; c < shape_.batch.sub_batches; ++c) {
    const auto tokens = [&](std::size_t offset) {
      return ConstTensorView(base + offset + static_cast<std::size_t>(c * n) * 4, DType::kI32,
                             Shape{n});
    };
    CellBatch cell;
    cell.ids = tokens(offsets_.ids);
    cell.targets = tokens(offsets_.targets);
    cell.positions = tokens(offsets_.positions);
    cell.order = tokens(offsets_.order);
    cell.segments.table = ConstTensorView(
        base + offsets_.segments + static_cast<std::size_t>(c * entries * kSegmentColumns) * 4,
        DType::kI32, Shape{segment_counts[static_cast<std::size_t>(c)], kSegmentColumns});
    cell.segments.self_attention = true;
    cell.segments.uniform_length = shape_.mask == DocumentMask::kOff ? shape_.batch.tokens : 0;
    if (shape_.pairs) {
      const auto first = static_cast<std::size_t>(c * pair_entries(shape_.batch));
      const std::int64_t count = pair_counts_[host_slot][static_cast<std::size_t>(c)];
      cell.pairs = ConstTensorView(base + offsets_.pairs + first * kPairColumns * 4, DType::kI32,
                                   Shape{count, kPairColumns});
      if (shape_.reference_logs) {
        cell.reference_logs =
            ConstTensorView(base + offsets_.reference_logs + first * 2 * sizeof(double),
                            DType::kF64, Shape{count, 2});
      }
    }
    if (!draws.empty()) cell.draws = draws.at(static_cast<std::size_t>(c));
    batch.cells.push_back(cell);
  }
  batch.grad_scale = ConstTensorView(base + offsets_.scale, shape_.scale, Shape{1});
  batch.lease = std::move(lease);
  return batch;
}

}  // namespace strata
