#include "strata/store/weight_store.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/store/chunks.h"

namespace strata {

namespace {

std::size_t unit_bytes(const ModelLayout& layout, const Unit& unit, const StateOptions& options) {
  std::int64_t elements = 0;
  for (const int b : unit.blocks) {
    elements += layout.blocks[static_cast<std::size_t>(b)].padded_elements(options.ranks);
  }
  return static_cast<std::size_t>(elements) * size_of(options.compute);
}

std::size_t layer_bytes(const ModelLayout& layout, const StateOptions& options) {
  return unit_bytes(layout, layout.units.at(1), options);
}

/// True if a unit needs no slot: its weights are read where they live.
bool at_home(const ModelLayout& layout, int unit, const StateOptions& options) {
  const std::vector<int>& blocks = layout.units.at(static_cast<std::size_t>(unit)).blocks;
  return options.ranks == 1 &&
         std::ranges::all_of(blocks, [&](int b) { return options.resident(b); });
}

/// Slots of each ring: none that nothing passes.
struct SlotCounts {
  int embedding, layers, head;
};

SlotCounts slot_counts(const ModelLayout& layout, const StateOptions& options, int layer_slots) {
  int streamed = 0;
  for (int unit = 1; unit < layout.head(); ++unit)
    streamed += at_home(layout, unit, options) ? 0 : 1;
  return {.embedding = at_home(layout, 0, options) ? 0 : 1,
          .layers = std::min(layer_slots, streamed),
          .head = at_home(layout, layout.head(), options) ? 0 : 1};
}

}  // namespace

void WeightStore::plan(MemoryPlan& plan, const ModelLayout& layout, const StateOptions& options,
                       int layer_slots) {
  const SlotCounts slots = slot_counts(layout, options, layer_slots);
  const auto add = [&](const char* name, int count, std::size_t bytes) {
    plan.add_slots(Space::kDevice, name, static_cast<std::size_t>(count), bytes);
  };
  add("weights.embedding", slots.embedding, unit_bytes(layout, layout.units.front(), options));
  add("weights.layers", slots.layers, layer_bytes(layout, options));
  add("weights.head", slots.head, unit_bytes(layout, layout.units.back(), options));
}

WeightStore::WeightStore(TrainingState& state, Communicator& ranks, Arena& device_arena,
                         int layer_slots)
    : state_(state),
      ranks_(ranks),
      device_(device_arena.device()),
      embedding_(device_arena, "weights.embedding",
                 slot_counts(state.layout(), state.options(), layer_slots).embedding,
                 unit_bytes(state.layout(), state.layout().units.front(), state.options())),
      layers_(device_arena, "weights.layers",
              slot_counts(state.layout(), state.options(), layer_slots).layers,
              layer_bytes(state.layout(), state.options())),
      head_(device_arena, "weights.head",
            slot_counts(state.layout(), state.options(), layer_slots).head,
            unit_bytes(state.layout(), state.layout().units.back(), state.options())),
      updated_(static_cast<std::size_t>(state.blocks())),
      pending_(static_cast<std::size_t>(state.blocks())) {}

SlotRing& WeightStore::ring_of(int unit) {
  switch (state_.layout().units.at(static_cast<std::size_t>(unit)).kind) {
    case UnitKind::kEmbedding: return embedding_;
    case UnitKind::kHead: return head_;
    default: return layers_;
  }
}

std::size_t WeightStore::block_bytes(int block) const {
  const Block& b = state_.layout().blocks[static_cast<std::size_t>(block)];
  return static_cast<std::size_t>(b.padded_elements(state_.options().ranks)) *
         size_of(state_.options().compute);
}

void WeightStore::begin_pass(std::vector<int> units) {
  plan_ = AccessPlan({units.begin(), units.end()});
}

bool WeightStore::load(int unit, std::int64_t needed_at, const Tag& tag) {
  SlotRing& ring = ring_of(unit);
  const int slot = ring.victim([&](std::int64_t key) { return plan_.next_use(key); });
  if (slot < 0) return false;
  const std::int64_t held = ring.key(slot);
  if (held != SlotRing::kNoKey && plan_.next_use(held) <= needed_at) return false;
  for (const int b : state_.layout().units[static_cast<std::size_t>(unit)].blocks) {
    submit_update(b);
  }

  Stream& in = device_.stream(Lane::kWeightsIn);
  Lease lease = ring.fill(slot, unit, in);
  const int ranks = state_.options().ranks;
  std::byte* to = lease.data();
  for (const int b : state_.layout().units[static_cast<std::size_t>(unit)].blocks) {
    in.wait(updated_[static_cast<std::size_t>(b)], WaitFor::kUpdated);
    const ByteRange shard = ConstTensorView(state_.block(b).weight).bytes();
    copy_in_chunks(in, to + shard.bytes * static_cast<std::size_t>(state_.options().rank),
                   shard.begin, shard.bytes, tag);
    if (!state_.options().resident(b)) loaded_bytes_ += shard.bytes;
    to += block_bytes(b);
  }
  lease.filled();
  loads_.pop_front();
  loads_.push_back(in.record());
  if (ranks > 1) {
    Stream& comm = device_.stream(Lane::kComm);
    lease.use(comm, WaitFor::kGathered);
    to = lease.data();
    for (const int b : state_.layout().units[static_cast<std::size_t>(unit)].blocks) {
      const Block& block = state_.layout().blocks[static_cast<std::size_t>(b)];
      ranks_.all_gather(
          comm, TensorView(to, state_.options().compute, Shape{block.padded_elements(ranks)}), tag);
      to += block_bytes(b);
    }
    lease.filled(comm);
  }
  return true;
}

UnitLease WeightStore::use_at_home(int unit, Stream& compute) {
  const Unit& u = state_.layout().units[static_cast<std::size_t>(unit)];
  std::vector<std::byte*> blocks;
  for (const int b : u.blocks) {
    compute.wait(updated_[static_cast<std::size_t>(b)], WaitFor::kUpdated);
    blocks.push_back(static_cast<std::byte*>(state_.block(b).weight.data));
  }
  return {
      .lease = {},
      .views = unit_views<ConstTensorView>(state_.layout(), u, blocks, state_.options().compute)};
}

UnitLease WeightStore::acquire(int unit, Stream& compute, const Tag& tag) {
  if (at_home(state_.layout(), unit, state_.options())) {
    plan_.advance(unit);
    return use_at_home(unit, compute);
  }
  SlotRing& ring = ring_of(unit);
  if (ring.find(unit) < 0 && !load(unit, plan_.position(), {tag.phase, tag.pass, unit, -1})) {
    throw std::logic_error("no weight slot is free for unit " + std::to_string(unit));
  }
  plan_.advance(unit);
  const Unit& u = state_.layout().units[static_cast<std::size_t>(unit)];
  UnitLease result;
  result.lease = ring.use(ring.find(unit), compute);
  std::vector<std::byte*> blocks;
  std::byte* at = result.lease.data();
  for (const int b : u.blocks) {
    blocks.push_back(at);
    at += block_bytes(b);
  }
  result.views = unit_views<ConstTensorView>(state_.layout(), u, blocks, state_.options().compute);
  return result;
}

void WeightStore::prefetch(const Tag& tag) {
  for (std::int64_t p = plan_.position(); p < plan_.size(); ++p) {
    const int unit = static_cast<int>(plan_.key(p));
    if (at_home(state_.layout(), unit, state_.options())) continue;
    if (ring_of(unit).find(unit) >= 0) continue;
    if (!load(unit, p, {tag.phase, tag.pass, unit, -1})) return;
  }
}

void WeightStore::updated(int block, Event event) {
  updated_[static_cast<std::size_t>(block)] = event;
  forget(block);
}

void WeightStore::update_later(int block, std::function<void(Event turn)> submit) {
  pending_[static_cast<std::size_t>(block)] = std::move(submit);
  forget(block);
}

void WeightStore::submit_update(int block) {
  const auto submit = std::exchange(pending_[static_cast<std::size_t>(block)], nullptr);
  if (submit) submit(loads_.front());
}

void WeightStore::submit_updates() {
  for (int b = 0; b < state_.blocks(); ++b) submit_update(b);
}

void WeightStore::forget(int block) {
  const ModelLayout& layout = state_.layout();
  for (int u = 0; u < static_cast<int>(layout.units.size()); ++u) {
    const std::vector<int>& blocks = layout.units[static_cast<std::size_t>(u)].blocks;
    if (std::find(blocks.begin(), blocks.end(), block) == blocks.end()) continue;
    const int slot = ring_of(u).find(u);
    if (slot >= 0) ring_of(u).forget(slot);
  }
}

}  // namespace strata
