// Loads units in the order of their plan. A load tells the observer, waits for the updates that
// were submitted, copies this rank's shards into the slot, and gathers the rest if there are other
// ranks. Packed weights are decoded when their unit is acquired.

#include "strata/store/weight_store.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "strata/base/bytes.h"
#include "strata/ops/elementwise.h"
#include "strata/store/chunks.h"

namespace strata {

namespace {

/// Returns the bytes of a block, whole and padded, in the form in which its weights travel.
std::size_t travelling_bytes(const ModelLayout& layout, BlockId block, const StatePlan& plan) {
  return weight_shape(layout.blocks[block], plan.blocks[block].form, plan).bytes() *
         static_cast<std::size_t>(plan.ranks);
}

/// Takes room for the largest block that is decoded, once it is; null if there is none.
std::byte* take_decoded(const ModelLayout& layout, const StatePlan& plan, Allocator& memory) {
  std::int64_t largest = 0;
  for (const BlockId b : layout.blocks.ids()) {
    if (plan.blocks[b].form == Form::kPlain) continue;
    largest = std::max(largest, layout.blocks[b].elements);
  }
  if (largest == 0) return nullptr;
  return memory.allocate(Space::kDevice, "weights.decoded",
                         static_cast<std::size_t>(largest) * size_of(plan.compute));
}

/// Returns the bytes of all blocks of a unit, likewise.
std::size_t unit_bytes(const ModelLayout& layout, UnitId unit, const StatePlan& plan) {
  std::size_t bytes = 0;
  for (const BlockId b : layout.units[unit].blocks) bytes += travelling_bytes(layout, b, plan);
  return bytes;
}

/// Returns true if a unit needs no slot: its weights are whole and are read where they live.
bool at_home(const ModelLayout& layout, UnitId unit, const StatePlan& plan) {
  if (plan.embedding_at_home && layout.units[unit].kind == UnitKind::kEmbedding) return true;
  return plan.ranks == 1 && std::ranges::all_of(layout.units[unit].blocks, [&](BlockId b) {
           return plan.blocks[b].weight == Home::kDevice;
         });
}

/// Returns the ring of the units of a kind, with at most `slots` slots, as large as the largest of
/// the units.
SlotRing ring(const ModelLayout& layout, UnitKind kind, const StatePlan& plan, const char* name,
              int slots, Allocator& memory) {
  int streamed = 0;
  std::size_t largest = 0;
  for (const UnitId unit : layout.units.ids()) {
    if (layout.units[unit].kind != kind) continue;
    streamed += at_home(layout, unit, plan) ? 0 : 1;
    largest = std::max(largest, unit_bytes(layout, unit, plan));
  }
  return {memory, Space::kDevice, name, std::min(slots, streamed), largest};
}

}  // namespace

WeightStore::Memory::Memory(const ModelLayout& layout, const StatePlan& plan, int layer_slots,
                            Allocator& memory)
    : embedding(ring(layout, UnitKind::kEmbedding, plan, "weights.embedding", 1, memory)),
      layers(ring(layout, UnitKind::kLayer, plan, "weights.layers", layer_slots, memory)),
      head(ring(layout, UnitKind::kHead, plan, "weights.head", 1, memory)),
      decoded(take_decoded(layout, plan, memory)) {}

WeightStore::WeightStore(TrainingState& state, Collectives& collectives, Kernels& kernels,
                         Arenas& arenas, int layer_slots)
    : state_(state),
      collectives_(collectives),
      kernels_(kernels),
      device_(arenas.device()),
      memory_(state.layout(), state.plan(), layer_slots, arenas),
      shards_(state.blocks()),
      packed_(state.blocks()),
      readers_(state.blocks()),
      updated_(state.blocks()) {
  for (const UnitId unit : state.layout().units.ids()) {
    for (const BlockId b : state.layout().units[unit].blocks) readers_[b].push_back(unit);
  }
  for (const BlockId b : state.ids()) {
    const Block& block = state.layout().blocks[b];
    const Form form = state.plan(b).form;
    shards_[b] = weight_shape(block, form, state.plan());
    if (form != Form::kPlain) packed_[b].emplace(block, form, state.plan().compute);
  }
}

void WeightStore::observe(LoadObserver& observer) {
  if (observer_ != nullptr) throw std::logic_error("the weight store has an observer");
  observer_ = &observer;
}

SlotRing& WeightStore::ring_of(UnitId unit) {
  switch (state_.layout().units[unit].kind) {
    case UnitKind::kEmbedding: return memory_.embedding;
    case UnitKind::kHead: return memory_.head;
    default: return memory_.layers;
  }
}

std::size_t WeightStore::block_bytes(BlockId block) const {
  return shards_[block].bytes() * static_cast<std::size_t>(state_.plan().ranks);
}

void WeightStore::begin_pass(const std::vector<UnitId>& units) {
  std::vector<std::int64_t> keys;
  for (const UnitId unit : units) keys.push_back(unit.value());
  plan_ = AccessPlan(std::move(keys));
  for (SlotRing* ring : {&memory_.embedding, &memory_.layers, &memory_.head}) renew_needs(*ring);
}

void WeightStore::renew_needs(SlotRing& ring) {
  for (int slot = 0; slot < ring.count(); ++slot) {
    const std::int64_t held = ring.key(slot);
    if (held != SlotRing::kNoKey) ring.needed_at(slot, plan_.next_use(held));
  }
}

bool WeightStore::load(UnitId unit, std::int64_t needed_at, const Tag& tag) {
  SlotRing& ring = ring_of(unit);
  const int slot = ring.victim();
  if (slot < 0) return false;
  const std::int64_t held = ring.key(slot);
  if (held != SlotRing::kNoKey && plan_.next_use(held) <= needed_at) return false;
  if (observer_ != nullptr) {
    for (const BlockId b : state_.layout().units[unit].blocks) observer_->before_load(b);
  }

  Stream& in = device_.stream(Lane::kWeightsIn);
  if (held != SlotRing::kNoKey) plan_.lost(held);
  Lease lease = ring.fill(slot, unit.value(), in);
  ring.needed_at(slot, plan_.next_use(unit.value()));
  const int ranks = state_.plan().ranks;
  std::byte* to = lease.data();
  for (const BlockId b : state_.layout().units[unit].blocks) {
    in.wait(updated_[b], WaitFor::kUpdated);
    const ByteRange shard = ConstTensorView(state_.block(b).weight).bytes();
    copy_in_chunks(in, to + shard.bytes * static_cast<std::size_t>(state_.plan().rank), shard.begin,
                   shard.bytes, tag, state_.plan().chunk_bytes());
    if (state_.plan(b).weight != Home::kDevice) loaded_bytes_ += shard.bytes;
    to += block_bytes(b);
  }
  lease.filled();
  loads_.pop_front();
  loads_.push_back(in.record());
  if (ranks > 1) {
    Stream& comm = device_.stream(Lane::kComm);
    lease.use(comm, WaitFor::kGathered);
    to = lease.data();
    for (const BlockId b : state_.layout().units[unit].blocks) {
      const WeightShape& shard = shards_[b];
      collectives_.all_gather(comm, TensorView(to, shard.dtype, Shape{shard.elements * ranks}),
                              tag);
      to += block_bytes(b);
    }
    lease.filled(comm);
  }
  return true;
}

std::byte* WeightStore::decode(BlockId block, std::byte* data, Stream& compute, const Tag& tag) {
  const std::optional<PackedBlock>& packed = packed_[block];
  if (!packed) return data;
  const DType dtype = state_.plan().compute;
  const auto place = [&](std::int64_t begin, std::int64_t elements) {
    return TensorView(memory_.decoded + static_cast<std::size_t>(begin) * size_of(dtype), dtype,
                      Shape{elements});
  };
  for (const PackedMatrix& m : packed->matrices) {
    std::visit([&](const auto& op) { kernels_.run(compute, op, tag); },
               packed->decoder(m, data, place(m.begin, m.elements())));
  }
  for (const UnpackedSegment& s : packed->segments) {
    const TensorView to = place(s.begin, s.elements);
    kernels_.run(compute, Cast{.x = ConstTensorView(data + s.at, dtype, to.shape), .y = to}, tag);
  }
  return memory_.decoded;
}

UnitLease WeightStore::use_at_home(UnitId unit, Stream& compute, const Tag& tag) {
  const Unit& u = state_.layout().units[unit];
  std::vector<std::byte*> blocks;
  for (const BlockId b : u.blocks) {
    compute.wait(updated_[b], WaitFor::kUpdated);
    auto* const home = static_cast<std::byte*>(state_.block(b).weight.data);
    blocks.push_back(decode(b, home, compute, tag));
  }
  return {.lease = {},
          .views = unit_views<ConstTensorView>(state_.layout(), u, blocks, state_.plan().compute)};
}

UnitLease WeightStore::acquire(UnitId unit, Stream& compute, const Tag& tag) {
  const Tag of_unit{tag.phase, tag.pass, unit.value(), -1};
  if (at_home(state_.layout(), unit, state_.plan())) {
    plan_.advance(unit.value());
    return use_at_home(unit, compute, of_unit);
  }
  SlotRing& ring = ring_of(unit);
  if (ring.find(unit.value()) < 0 && !load(unit, plan_.position(), of_unit)) {
    throw std::logic_error("no weight slot is free for unit " + std::to_string(unit.value()));
  }
  plan_.advance(unit.value());
  const Unit& u = state_.layout().units[unit];
  const int slot = ring.find(unit.value());
  ring.needed_at(slot, plan_.next_use(unit.value()));
  UnitLease result;
  result.lease = ring.use(slot, compute);
  std::vector<std::byte*> blocks;
  std::byte* at = result.lease.data();
  for (const BlockId b : u.blocks) {
    blocks.push_back(decode(b, at, compute, of_unit));
    at += block_bytes(b);
  }
  result.views = unit_views<ConstTensorView>(state_.layout(), u, blocks, state_.plan().compute);
  return result;
}

void WeightStore::prefetch(const Tag& tag) {
  for (std::int64_t p = plan_.first_absent(); p < plan_.size(); ++p, ++looks_) {
    const UnitId unit(static_cast<int>(plan_.key(p)));
    const bool there =
        at_home(state_.layout(), unit, state_.plan()) || ring_of(unit).find(unit.value()) >= 0;
    if (!there && !load(unit, p, {tag.phase, tag.pass, unit.value(), -1})) return;
    plan_.is_there();
  }
}

void WeightStore::updated(BlockId block, Event event) {
  updated_[block] = event;
  forget(block);
}

void WeightStore::will_update(BlockId block) { forget(block); }

void WeightStore::forget(BlockId block) {
  for (const UnitId u : readers_[block]) {
    const int slot = ring_of(u).find(u.value());
    if (slot < 0) continue;
    ring_of(u).forget(slot);
    plan_.lost(u.value());
  }
}

}  // namespace strata
