#include "strata/store/gradient_store.h"

#include <algorithm>
#include <stdexcept>

#include "strata/base/bytes.h"
#include "strata/store/chunks.h"

namespace strata {

namespace {

constexpr int kLandingSlots = 2;

std::size_t accumulator_bytes(const ModelLayout& layout, int block, const StateOptions& options) {
  return static_cast<std::size_t>(
             layout.blocks.at(static_cast<std::size_t>(block)).padded_elements(options.ranks)) *
         size_of(accumulator_of(options.compute));
}

enum class Sum : std::uint8_t { kNone, kOnDevice, kOnHost };

/// Where several contributions to a block are added up.
Sum sum_of(const ModelLayout& layout, int block, const StateOptions& options) {
  if (TrainingState::gradient_contributions(layout, block, options) == 1) return Sum::kNone;
  return options.sums_on_device(block) ? Sum::kOnDevice : Sum::kOnHost;
}

bool any_summed_on_host(const ModelLayout& layout, const StateOptions& options) {
  for (int b = 0; b < static_cast<int>(layout.blocks.size()); ++b) {
    if (sum_of(layout, b, options) == Sum::kOnHost) return true;
  }
  return false;
}

/// Elements of a block's sum on the device; 0 if it is not there.
std::int64_t sum_elements(const ModelLayout& layout, int block, const StateOptions& options) {
  if (sum_of(layout, block, options) != Sum::kOnDevice) return 0;
  return layout.blocks[static_cast<std::size_t>(block)].shard_elements(options.ranks);
}

/// Elements of a block's norms; 0 if the host takes them.
std::int64_t norm_count(const ModelLayout& layout, int block, const StateOptions& options) {
  if (!GradientStore::measures(layout, block, options)) return 0;
  const Block& b = layout.blocks[static_cast<std::size_t>(block)];
  return SquaredNorm::partials(b.shard_elements(options.ranks));
}

std::int64_t largest_norm_count(const ModelLayout& layout, const StateOptions& options) {
  std::int64_t largest = 0;
  for (int b = 0; b < static_cast<int>(layout.blocks.size()); ++b) {
    largest = std::max(largest, norm_count(layout, b, options));
  }
  return largest;
}

bool rounds(const StateOptions& options) {
  return options.gradient != accumulator_of(options.compute) && options.compute != DType::kF64;
}

std::size_t landing_bytes(const ModelLayout& layout, const StateOptions& options) {
  return any_summed_on_host(layout, options) ? kChunkBytes : 0;
}

/// Of a slot of the ring: a layer's shard.
std::size_t ring_bytes(const ModelLayout& layout, const StateOptions& options) {
  return static_cast<std::size_t>(layout.blocks.at(1).shard_elements(options.ranks)) *
         size_of(TrainingState::gradient_storage(layout, 1, options));
}

/// Of the place that gradients of resident layers pass through, if they have no homes.
std::size_t passing_bytes(const ModelLayout& layout, const StateOptions& options) {
  const bool shared = options.resident(1) && !TrainingState::has_gradient_home(layout, 1, options);
  return shared ? ring_bytes(layout, options) : 0;
}

std::size_t rounded_bytes(const StateOptions& options) { return rounds(options) ? kChunkBytes : 0; }

int head_block(const ModelLayout& layout) { return static_cast<int>(layout.blocks.size()) - 1; }

}  // namespace

bool GradientStore::measures(const ModelLayout& layout, int block, const StateOptions& options) {
  return sum_of(layout, block, options) != Sum::kOnHost;
}

std::size_t GradientStore::sum_bytes(const ModelLayout& layout, int block,
                                     const StateOptions& options) {
  return static_cast<std::size_t>(sum_elements(layout, block, options)) *
         size_of(accumulator_of(options.compute));
}

void GradientStore::plan(MemoryPlan& plan, const ModelLayout& layout, const StateOptions& options,
                         int layer_slots) {
  plan.add_slots(Space::kDevice, "gradients.embedding", 1, accumulator_bytes(layout, 0, options));
  plan.add_slots(Space::kDevice, "gradients.layers", static_cast<std::size_t>(layer_slots),
                 accumulator_bytes(layout, 1, options));
  plan.add_slots(Space::kDevice, "gradients.head", 1,
                 accumulator_bytes(layout, head_block(layout), options));
  plan.add(Space::kDevice, "gradients.rounded", rounded_bytes(options));
  plan.add(Space::kDevice, "gradients.passing", passing_bytes(layout, options));
  plan.add(Space::kDevice, "gradients.norms",
           static_cast<std::size_t>(largest_norm_count(layout, options)) * sizeof(double));
  for (int b = 0; b < static_cast<int>(layout.blocks.size()); ++b) {
    plan.add_slots(Space::kPinned, "gradients.norms", measures(layout, b, options) ? 1 : 0,
                   static_cast<std::size_t>(norm_count(layout, b, options)) * sizeof(double));
    const std::size_t sum = sum_bytes(layout, b, options);
    plan.add_slots(Space::kDevice, "gradients.sums", sum > 0 ? 1 : 0, sum);
  }
  plan.add_slots(Space::kPinned, "state.gradient_ring",
                 static_cast<std::size_t>(options.gradient_ring), ring_bytes(layout, options));
  plan.add_slots(Space::kPinned, "gradients.landing", kLandingSlots,
                 landing_bytes(layout, options));
}

GradientStore::GradientStore(TrainingState& state, Communicator& ranks, Kernels& kernels,
                             Kernels& host_kernels, Arena& device_arena, Arena& pinned_arena,
                             int layer_slots)
    : state_(state),
      ranks_(ranks),
      kernels_(kernels),
      host_kernels_(host_kernels),
      device_(device_arena.device()),
      embedding_(device_arena, "gradients.embedding", 1,
                 accumulator_bytes(state.layout(), 0, state.options())),
      layers_(device_arena, "gradients.layers", layer_slots,
              accumulator_bytes(state.layout(), 1, state.options())),
      head_(device_arena, "gradients.head", 1,
            accumulator_bytes(state.layout(), head_block(state.layout()), state.options())),
      rounded_(device_arena.allocate("gradients.rounded", rounded_bytes(state.options()))),
      passing_(device_arena.allocate("gradients.passing",
                                     passing_bytes(state.layout(), state.options()))),
      norms_(device_arena.allocate_tensor("gradients.norms", DType::kF64,
                                          {largest_norm_count(state.layout(), state.options())})),
      open_sums_(static_cast<std::size_t>(state.blocks())),
      ring_(pinned_arena, "state.gradient_ring", state.options().gradient_ring,
            ring_bytes(state.layout(), state.options())),
      landing_(pinned_arena, "gradients.landing", kLandingSlots,
               landing_bytes(state.layout(), state.options())),
      arrivals_(static_cast<std::size_t>(state.blocks())) {
  for (int b = 0; b < state.blocks(); ++b) {
    home_norms_.emplace_back(
        pinned_arena, "gradients.norms", measures(state.layout(), b, state.options()) ? 1 : 0,
        static_cast<std::size_t>(norm_count(state.layout(), b, state.options())) * sizeof(double));
    const std::size_t sum = sum_bytes(state.layout(), b, state.options());
    sums_.emplace_back(device_arena, "gradients.sums", sum > 0 ? 1 : 0, sum);
  }
}

SlotRing& GradientStore::ring_of(int block) {
  if (block == 0) return embedding_;
  return block == head_block(state_.layout()) ? head_ : layers_;
}

void GradientStore::begin_step() { std::fill(arrivals_.begin(), arrivals_.end(), 0); }

GradientLease GradientStore::acquire(int unit, Stream& compute, const Tag& tag) {
  GradientLease result;
  result.unit = unit;
  const Unit& u = state_.layout().units.at(static_cast<std::size_t>(unit));
  std::vector<std::byte*> blocks;
  for (const int block : u.blocks) {
    const bool begins_sum = arrivals_[static_cast<std::size_t>(block)] == 0 &&
                            sum_of(state_.layout(), block, state_.options()) == Sum::kOnDevice;
    // With several ranks the sum is that of a shard, behind the reduction.
    const bool in_place = begins_sum && state_.options().ranks == 1;
    SlotRing& ring = in_place ? sums_[static_cast<std::size_t>(block)] : ring_of(block);
    Lease lease = ring.fill(ring.oldest(), block, compute);
    compute.set(lease.data(), 0, accumulator_bytes(state_.layout(), block, state_.options()), tag);
    blocks.push_back(lease.data());
    result.leases.push_back(std::move(lease));
  }
  result.views =
      unit_views<TensorView>(state_.layout(), u, blocks, accumulator_of(state_.options().compute));
  return result;
}

std::vector<Arrival> GradientStore::offload(GradientLease lease, const Tag& tag) {
  std::vector<Arrival> complete;
  const std::vector<int>& blocks =
      state_.layout().units.at(static_cast<std::size_t>(lease.unit)).blocks;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const int block = blocks[i];
    const int expected =
        TrainingState::gradient_contributions(state_.layout(), block, state_.options());
    const int arrived = ++arrivals_[static_cast<std::size_t>(block)];
    lease.leases[i].filled();
    reduce(lease.leases[i], block, tag);
    const Sum sum = sum_of(state_.layout(), block, state_.options());
    Arrival arrival;
    arrival.block = block;
    Lease norms;
    if (sum == Sum::kOnDevice) add_on_device(std::move(lease.leases[i]), block, tag);
    if (sum != Sum::kOnHost && arrived == expected) {
      const bool summed = sum == Sum::kOnDevice;
      Lease whole =
          std::move(summed ? open_sums_[static_cast<std::size_t>(block)] : lease.leases[i]);
      whole.use(device_.stream(Lane::kOut));
      const TensorView home = landing_place(block, arrival.slot);
      norms = send_home(summed ? sum_in(whole, block) : shard_of(whole, block), block, home, tag);
      if (arrival.slot) arrival.slot.filled();
      arrival.gradient = home;
    } else if (sum == Sum::kOnHost) {
      add_on_host(lease.leases[i], block, arrived, tag);
      if (arrived == expected) round_home(block, tag);
      arrival.gradient = state_.block(block).grad;
    }
    if (arrived < expected) continue;
    const Lane last = sum == Sum::kOnHost ? Lane::kHost : Lane::kOut;
    arrival.event = device_.stream(last).record();
    if (norms) {
      const std::int64_t count = norm_count(state_.layout(), block, state_.options());
      arrival.norms = ConstTensorView(norms.data(), DType::kF64, Shape{count});
      arrival.norms_lease = std::move(norms);
    }
    complete.push_back(std::move(arrival));
  }
  return complete;
}

/// This rank's part of an accumulator.
ConstTensorView GradientStore::shard_of(const Lease& lease, int block) const {
  const BlockState& s = state_.block(block);
  const DType a = accumulator_of(state_.options().compute);
  return {lease.data() + static_cast<std::size_t>(s.begin) * size_of(a), a, s.weight.shape};
}

/// What a slot of sums_ holds.
TensorView GradientStore::sum_in(const Lease& lease, int block) const {
  return {lease.data(), accumulator_of(state_.options().compute), state_.block(block).weight.shape};
}

/// Adds a contribution to the block's sum on the device. With one rank the first contribution was
/// made in the sum's own place, and the others follow on the compute lane: on another one they
/// would wait for its kernels, again and again. With several ranks they come from the reduction,
/// and compute does not wait for that: the out-lane adds them.
void GradientStore::add_on_device(Lease contribution, int block, const Tag& tag) {
  Lease& sum = open_sums_[static_cast<std::size_t>(block)];
  const bool in_place = state_.options().ranks == 1;
  if (!sum && in_place) {
    sum = std::move(contribution);
    return;
  }
  Stream& lane = device_.stream(in_place ? Lane::kCompute : Lane::kOut);
  contribution.use(lane);
  const ConstTensorView shard = shard_of(contribution, block);
  if (!sum) {
    sum = sums_[static_cast<std::size_t>(block)].fill(0, block, lane);
    lane.copy(sum.data(), shard.data, shard.bytes().bytes, tag);
  } else {
    kernels_.run(lane, Accumulate{.x = shard, .sum = sum_in(sum, block)}, tag);
  }
  sum.filled();
}

/// Sum over ranks; the own shard stays in its place in the accumulator.
void GradientStore::reduce(Lease& lease, int block, const Tag& tag) {
  const StateOptions& options = state_.options();
  if (options.ranks == 1) return;
  Stream& comm = device_.stream(Lane::kComm);
  const Block& b = state_.layout().blocks[static_cast<std::size_t>(block)];
  lease.use(comm, WaitFor::kGathered);
  ranks_.reduce_scatter(comm,
                        TensorView(lease.data(), accumulator_of(options.compute),
                                   Shape{b.padded_elements(options.ranks)}),
                        tag);
  lease.filled(comm);
}

/// The block's home, or the next slot of the ring, which is then leased to `slot`. A resident layer
/// without a home gets a place that the next one overwrites: its update goes before that, on the
/// same lane.
TensorView GradientStore::landing_place(int block, Lease& slot) {
  const BlockState& state = state_.block(block);
  if (state.grad) return state.grad;
  const DType storage = TrainingState::gradient_storage(state_.layout(), block, state_.options());
  if (state_.options().resident(block)) return {passing_, storage, state.weight.shape};
  const int free = ring_.oldest();
  if (free < 0) throw std::logic_error("every slot of the gradient ring is in use");
  slot = ring_.fill(free, block, device_.stream(Lane::kOut));
  return {slot.data(), storage, state.weight.shape};
}

/// Out-lane: writes a complete shard to its home, rounded and measured on the way. Returns the
/// norms on the host.
Lease GradientStore::send_home(const ConstTensorView& shard, int block, const TensorView& home,
                               const Tag& tag) {
  Stream& out = device_.stream(Lane::kOut);
  const TensorView norms =
      norms_.slice_rows(0, norm_count(state_.layout(), block, state_.options()));
  const bool stays = state_.options().updated_on_device(block);
  if (home.dtype == shard.dtype) {
    kernels_.run(out, SquaredNorm{.x = shard, .partial = norms}, tag);
    copy_in_chunks(out, static_cast<std::byte*>(home.data),
                   static_cast<const std::byte*>(shard.data), home.bytes().bytes, tag);
  } else if (stays) {
    kernels_.run(out, CastSquaredNorm{.x = shard, .y = home, .partial = norms}, tag);
  } else {
    round_away(shard, home, norms, tag);
  }
  if (!stays) offloaded_bytes_ += home.bytes().bytes;
  Lease lease = home_norms_[static_cast<std::size_t>(block)].fill(0, block, out);
  out.copy(lease.data(), norms.data, norms.bytes().bytes, tag);
  lease.filled();
  offloaded_bytes_ += norms.bytes().bytes;
  return lease;
}

/// Out-lane: rounds a shard, takes its norms and sends it home, chunk by chunk.
void GradientStore::round_away(const ConstTensorView& shard, const TensorView& home,
                               const TensorView& norms, const Tag& tag) {
  Stream& out = device_.stream(Lane::kOut);
  // Chunks hold whole blocks of the norm: their partials are those of the shard.
  static_assert(kChunkBytes % (SquaredNorm::kBlock * sizeof(double)) == 0);
  const auto chunk = static_cast<std::int64_t>(kChunkBytes / size_of(home.dtype));
  for (std::int64_t done = 0; done < home.elements(); done += chunk) {
    const std::int64_t count = std::min(chunk, home.elements() - done);
    const TensorView part(rounded_, home.dtype, Shape{count});
    kernels_.run(out,
                 CastSquaredNorm{.x = shard.slice_rows(done, count),
                                 .y = part,
                                 .partial = norms.slice_rows(done / SquaredNorm::kBlock,
                                                             SquaredNorm::partials(count))},
                 tag);
    out.copy(home.slice_rows(done, count).data, part.data, part.bytes().bytes, tag);
  }
}

/// The first contribution is copied; later ones are landed chunk by chunk and added by the host
/// lane.
void GradientStore::add_on_host(Lease& lease, int block, int arrived, const Tag& tag) {
  const TensorView& home = state_.block(block).grad;
  Stream& out = device_.stream(Lane::kOut);
  Stream& host = device_.stream(Lane::kHost);
  lease.use(out);
  const ConstTensorView shard = shard_of(lease, block);
  offloaded_bytes_ += home.bytes().bytes;
  if (arrived == 1) {
    return copy_in_chunks(out, static_cast<std::byte*>(home.data),
                          static_cast<const std::byte*>(shard.data), home.bytes().bytes, tag);
  }
  const auto chunk = static_cast<std::int64_t>(kChunkBytes / size_of(home.dtype));
  for (std::int64_t done = 0; done < home.elements(); done += chunk) {
    const std::int64_t count = std::min(chunk, home.elements() - done);
    const int slot = landing_.oldest();
    Lease landed = landing_.fill(slot, block, out);
    const TensorView part(landed.data(), home.dtype, Shape{count});
    out.copy(part.data, shard.slice_rows(done, count).data, part.bytes().bytes, tag);
    landed.filled();
    landed.use(host);
    host_kernels_.run(host, Accumulate{.x = part, .sum = home.slice_rows(done, count)}, tag);
  }
}

/// Rounds a finished sum to the gradient dtype; it stays stored in A.
void GradientStore::round_home(int block, const Tag& tag) {
  const StateOptions& options = state_.options();
  const TensorView& home = state_.block(block).grad;
  if (!rounds(options)) return;
  Stream& host = device_.stream(Lane::kHost);
  const auto chunk = static_cast<std::int64_t>(kChunkBytes / size_of(options.gradient));
  for (std::int64_t done = 0; done < home.elements(); done += chunk) {
    const std::int64_t count = std::min(chunk, home.elements() - done);
    const int slot = landing_.oldest();
    Lease lease = landing_.fill(slot, block, host);
    const TensorView narrow(lease.data(), options.gradient, Shape{count});
    const TensorView wide = home.slice_rows(done, count);
    host_kernels_.run(host, Cast{.x = wide, .y = narrow}, tag);
    host_kernels_.run(host, Cast{.x = narrow, .y = wide}, tag);
    lease.filled();
  }
}

}  // namespace strata
