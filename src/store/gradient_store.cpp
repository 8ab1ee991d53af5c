// Takes gradients home. The way of a gradient is this: accumulator on compute, reduction over ranks
// on comm, sum of contributions where the block's row says, rounding and norms on the out lane,
// home. The table of blocks decides between the ways; offload() follows it. gradient_memory.cpp
// takes the memory of all of them.

#include "strata/store/gradient_store.h"

#include <algorithm>
#include <stdexcept>

#include "store/gradient_sizes.h"
#include "strata/store/chunks.h"

namespace strata {

GradientStore::GradientStore(TrainingState& state, GroupCollectives& collectives, Kernels& kernels,
                             Kernels& host_kernels, Arenas& arenas, int layer_slots)
    : state_(state),
      collectives_(collectives),
      kernels_(kernels),
      host_kernels_(host_kernels),
      device_(arenas.device()),
      memory_(state.layout(), state.plan(), layer_slots, arenas),
      open_sums_(state.blocks()),
      arrivals_(state.blocks()) {}

SlotRing& GradientStore::ring_of(BlockId block) {
  switch (state_.layout().blocks[block].kind) {
    case UnitKind::kEmbedding: return memory_.embedding;
    case UnitKind::kHead: return memory_.head;
    default: return memory_.layers;
  }
}

void GradientStore::begin_step() { std::fill(arrivals_.begin(), arrivals_.end(), 0); }

bool GradientStore::trains(UnitId unit) const {
  return std::ranges::any_of(state_.layout().units[unit].blocks,
                             [&](BlockId b) { return state_.plan(b).is_trained(); });
}

GradientLease GradientStore::acquire(UnitId unit, Stream& compute, const Tag& tag) {
  GradientLease result;
  result.unit = unit;
  const Unit& u = state_.layout().units[unit];
  std::vector<std::byte*> blocks;
  for (const BlockId block : u.blocks) {
    if (!state_.plan(block).is_trained()) {
      blocks.push_back(nullptr);
      result.leases.emplace_back();
      continue;
    }
    const bool begins_sum = arrivals_[block] == 0 && state_.plan(block).sums == SumPlace::kDevice;
    // With several ranks the sum is that of a shard, after the reduction.
    const bool in_place = begins_sum && state_.plan().ranks == 1;
    SlotRing& ring = in_place ? memory_.sums[block] : ring_of(block);
    Lease lease = ring.fill(ring.oldest(), block.value(), compute);
    compute.set(lease.data(), 0, accumulator_bytes(state_.layout().blocks[block], state_.plan()),
                tag);
    blocks.push_back(lease.data());
    result.leases.push_back(std::move(lease));
  }
  result.views =
      unit_views<TensorView>(state_.layout(), u, blocks, accumulator_of(state_.plan().compute));
  return result;
}

std::vector<Arrival> GradientStore::offload(GradientLease lease, const Tag& tag) {
  std::vector<Arrival> complete;
  const std::vector<BlockId>& blocks = state_.layout().units[lease.unit].blocks;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const BlockId block = blocks[i];
    if (!state_.plan(block).is_trained()) continue;
    const int expected = state_.plan(block).contributions;
    const int arrived = ++arrivals_[block];
    lease.leases[i].filled();
    reduce(lease.leases[i], block, tag);
    const SumPlace sum = state_.plan(block).sums;
    Arrival arrival;
    arrival.block = block;
    Lease norms;
    if (sum == SumPlace::kDevice) {
      add_on_device(std::move(lease.leases[i]), block, tag);
      Lease& whole = open_sums_[block];
      if (arrived == expected) sum_over_replicas(whole, sum_in(whole, block), tag);
    }
    if (sum != SumPlace::kHost && arrived == expected) {
      const bool summed = sum == SumPlace::kDevice;
      Lease whole = std::move(summed ? open_sums_[block] : lease.leases[i]);
      whole.use(device_.stream(Lane::kOut));
      const TensorView home = landing_place(block, arrival.slot);
      norms = send_home(summed ? sum_in(whole, block) : shard_of(whole, block), block, home, tag);
      if (arrival.slot) arrival.slot.filled();
      arrival.gradient = home;
    } else if (sum == SumPlace::kHost) {
      add_on_host(lease.leases[i], block, arrived, tag);
      if (arrived == expected) round_home(block, tag);
      arrival.gradient = state_.block(block).grad;
    }
    if (arrived < expected) continue;
    const Lane last = sum == SumPlace::kHost ? Lane::kHost : Lane::kOut;
    arrival.event = device_.stream(last).record();
    if (norms) {
      const std::int64_t count = norm_count(state_.layout(), block, state_.plan());
      arrival.norms = ConstTensorView(norms.data(), DType::kF64, Shape{count});
      arrival.norms_lease = std::move(norms);
    }
    complete.push_back(std::move(arrival));
  }
  return complete;
}

/// Returns this rank's part of an accumulator, [n] A.
TensorView GradientStore::shard_of(const Lease& lease, BlockId block) const {
  const BlockState& s = state_.block(block);
  const DType a = accumulator_of(state_.plan().compute);
  return {lease.data() + static_cast<std::size_t>(s.begin) * size_of(a), a, s.weight.shape};
}

/// Returns the sum that a slot of memory_.sums holds, [n] A.
TensorView GradientStore::sum_in(const Lease& lease, BlockId block) const {
  return {lease.data(), accumulator_of(state_.plan().compute), state_.block(block).weight.shape};
}

/// Adds a contribution to the block's sum on the device. With one rank the first contribution was
/// made in the sum's own place, and the compute lane adds the others: another lane would have to
/// wait for its kernels again and again. With several ranks contributions come from the reduction,
/// for which compute does not wait, so the out lane adds them.
void GradientStore::add_on_device(Lease contribution, BlockId block, const Tag& tag) {
  Lease& sum = open_sums_[block];
  const bool in_place = state_.plan().ranks == 1;
  if (!sum && in_place) {
    sum = std::move(contribution);
    return;
  }
  Stream& lane = device_.stream(in_place ? Lane::kCompute : Lane::kOut);
  contribution.use(lane);
  const ConstTensorView shard = shard_of(contribution, block);
  if (!sum) {
    sum = memory_.sums[block].fill(0, block.value(), lane);
    lane.copy(sum.data(), shard.data, shard.bytes().bytes, tag);
  } else {
    kernels_.run(lane, Accumulate{.x = shard, .sum = sum_in(sum, block)}, tag);
  }
  sum.filled();
}

/// Sums the accumulator over the ranks that shard the state, and over replicas unless the device
/// first adds other contributions. The own shard of the result stays in its place in the
/// accumulator.
void GradientStore::reduce(Lease& lease, BlockId block, const Tag& tag) {
  const StatePlan& plan = state_.plan();
  if (plan.ranks > 1) {
    Stream& comm = device_.stream(Lane::kComm);
    const Shape padded{state_.layout().blocks[block].padded_elements(plan.ranks)};
    lease.use(comm, WaitFor::kGathered);
    collectives_.shard->reduce_scatter(
        comm, TensorView(lease.data(), accumulator_of(plan.compute), padded), tag);
    lease.filled(comm);
  }
  if (state_.plan(block).sums != SumPlace::kDevice) {
    sum_over_replicas(lease, shard_of(lease, block), tag);
  }
}

/// Adds the shards of all replicas, in place; `lease` is of the memory that they are in.
void GradientStore::sum_over_replicas(Lease& lease, const TensorView& shard, const Tag& tag) {
  if (state_.plan().replicas == 1) return;
  Stream& comm = device_.stream(Lane::kComm);
  lease.use(comm, WaitFor::kGathered);
  collectives_.replicas->all_reduce(comm, shard, tag);
  lease.filled(comm);
}

/// Returns where a complete gradient goes: the block's home, or the next slot of the ring, which is
/// then leased to `slot`. A resident layer without a home gets a place that the next one
/// overwrites: its update reads it before that, on the same lane.
TensorView GradientStore::landing_place(BlockId block, Lease& slot) {
  const BlockState& state = state_.block(block);
  if (state.grad) return state.grad;
  const DType storage = state_.plan(block).gradient_dtype;
  if (state_.plan(block).gradient == Home::kPassing)
    return {memory_.passing, storage, state.weight.shape};
  const int free = memory_.ring.oldest();
  if (free < 0) throw std::logic_error("every slot of the gradient ring is in use");
  slot = memory_.ring.fill(free, block.value(), device_.stream(Lane::kOut));
  return {slot.data(), storage, state.weight.shape};
}

/// Writes a complete shard to its home on the out lane, rounded and measured on the way. Returns
/// the slot on the host to which its norms go.
Lease GradientStore::send_home(const ConstTensorView& shard, BlockId block, const TensorView& home,
                               const Tag& tag) {
  Stream& out = device_.stream(Lane::kOut);
  const TensorView norms =
      memory_.norms.slice_rows(0, norm_count(state_.layout(), block, state_.plan()));
  const bool stays = state_.plan(block).updated_on_device();
  if (home.dtype == shard.dtype) {
    kernels_.run(out, SquaredNorm{.x = shard, .partial = norms}, tag);
    copy_in_chunks(out, static_cast<std::byte*>(home.data),
                   static_cast<const std::byte*>(shard.data), home.bytes().bytes, tag,
                   state_.plan().chunk_bytes());
  } else if (stays) {
    kernels_.run(out, CastSquaredNorm{.x = shard, .y = home, .partial = norms}, tag);
  } else {
    round_away(shard, home, norms, tag);
  }
  if (!stays) offloaded_bytes_ += home.bytes().bytes;
  Lease lease = memory_.home_norms[block].fill(0, block.value(), out);
  out.copy(lease.data(), norms.data, norms.bytes().bytes, tag);
  lease.filled();
  offloaded_bytes_ += norms.bytes().bytes;
  return lease;
}

/// Rounds a shard, takes its norms and sends it home on the out lane, chunk by chunk.
void GradientStore::round_away(const ConstTensorView& shard, const TensorView& home,
                               const TensorView& norms, const Tag& tag) {
  Stream& out = device_.stream(Lane::kOut);
  // A chunk holds whole runs of SquaredNorm::kBlock elements, so its partials are the shard's.
  static_assert(kChunkBytes % (SquaredNorm::kBlock * sizeof(double)) == 0);
  const auto chunk = static_cast<std::int64_t>(state_.plan().chunk_bytes() / size_of(home.dtype));
  const auto send = [&](std::int64_t begin, std::int64_t count, const Tag& of_chunk) {
    const TensorView part(memory_.rounded, home.dtype, Shape{count});
    kernels_.run(out,
                 CastSquaredNorm{.x = shard.slice_rows(begin, count),
                                 .y = part,
                                 .partial = norms.slice_rows(begin / SquaredNorm::kBlock,
                                                             SquaredNorm::partials(count))},
                 of_chunk);
    out.copy(home.slice_rows(begin, count).data, part.data, part.bytes().bytes, of_chunk);
  };
  for_each_chunk(home.elements(), chunk, tag, send);
}

/// Adds a contribution to the sum at home. The first one is copied there; later ones land chunk by
/// chunk and are added by the host lane.
void GradientStore::add_on_host(Lease& lease, BlockId block, int arrived, const Tag& tag) {
  const TensorView& home = state_.block(block).grad;
  Stream& out = device_.stream(Lane::kOut);
  Stream& host = device_.stream(Lane::kHost);
  lease.use(out);
  const ConstTensorView shard = shard_of(lease, block);
  offloaded_bytes_ += home.bytes().bytes;
  if (arrived == 1) {
    return copy_in_chunks(out, static_cast<std::byte*>(home.data),
                          static_cast<const std::byte*>(shard.data), home.bytes().bytes, tag,
                          state_.plan().chunk_bytes());
  }
  const auto chunk = static_cast<std::int64_t>(state_.plan().chunk_bytes() / size_of(home.dtype));
  const auto add = [&](std::int64_t begin, std::int64_t count, const Tag& of_chunk) {
    const int slot = memory_.landing.oldest();
    Lease landed = memory_.landing.fill(slot, block.value(), out);
    const TensorView part(landed.data(), home.dtype, Shape{count});
    out.copy(part.data, shard.slice_rows(begin, count).data, part.bytes().bytes, of_chunk);
    landed.filled();
    landed.use(host);
    host_kernels_.run(host, Accumulate{.x = part, .sum = home.slice_rows(begin, count)}, of_chunk);
  };
  for_each_chunk(home.elements(), chunk, tag, add);
}

/// Rounds a finished sum at home to the gradient dtype, through the landing slots. It stays stored
/// in A.
void GradientStore::round_home(BlockId block, const Tag& tag) {
  const StatePlan& plan = state_.plan();
  const TensorView& home = state_.block(block).grad;
  if (!rounds(plan)) return;
  Stream& host = device_.stream(Lane::kHost);
  const auto chunk = static_cast<std::int64_t>(plan.chunk_bytes() / size_of(plan.gradient));
  const auto round = [&](std::int64_t begin, std::int64_t count, const Tag& of_chunk) {
    const int slot = memory_.landing.oldest();
    Lease lease = memory_.landing.fill(slot, block.value(), host);
    const TensorView narrow(lease.data(), plan.gradient, Shape{count});
    const TensorView wide = home.slice_rows(begin, count);
    host_kernels_.run(host, Cast{.x = wide, .y = narrow}, of_chunk);
    host_kernels_.run(host, Cast{.x = narrow, .y = wide}, of_chunk);
    lease.filled();
  };
  for_each_chunk(home.elements(), chunk, tag, round);
}

}  // namespace strata
