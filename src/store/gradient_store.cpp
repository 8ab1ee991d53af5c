#include "strata/store/gradient_store.h"

#include <algorithm>

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

/// True if some block's gradient is summed on the host rather than written there once.
bool any_summed(const ModelLayout& layout, const StateOptions& options) {
  for (int b = 0; b < static_cast<int>(layout.blocks.size()); ++b) {
    if (HostState::gradient_contributions(layout, b, options) > 1) return true;
  }
  return false;
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
  return any_summed(layout, options) ? kChunkBytes : 0;
}

std::size_t rounded_bytes(const StateOptions& options) { return rounds(options) ? kChunkBytes : 0; }

int head_block(const ModelLayout& layout) { return static_cast<int>(layout.blocks.size()) - 1; }

}  // namespace

bool GradientStore::measures(const ModelLayout& layout, int block, const StateOptions& options) {
  return HostState::gradient_contributions(layout, block, options) == 1;
}

void GradientStore::plan(MemoryPlan& plan, const ModelLayout& layout, const StateOptions& options,
                         int layer_slots) {
  plan.add_slots(Space::kDevice, "gradients.embedding", 1, accumulator_bytes(layout, 0, options));
  plan.add_slots(Space::kDevice, "gradients.layers", static_cast<std::size_t>(layer_slots),
                 accumulator_bytes(layout, 1, options));
  plan.add_slots(Space::kDevice, "gradients.head", 1,
                 accumulator_bytes(layout, head_block(layout), options));
  plan.add(Space::kDevice, "gradients.rounded", rounded_bytes(options));
  plan.add(Space::kDevice, "gradients.norms",
           static_cast<std::size_t>(largest_norm_count(layout, options)) * sizeof(double));
  for (int b = 0; b < static_cast<int>(layout.blocks.size()); ++b) {
    plan.add(Space::kPinned, "gradients.norms",
             static_cast<std::size_t>(norm_count(layout, b, options)) * sizeof(double));
  }
  plan.add_slots(Space::kPinned, "gradients.landing", kLandingSlots,
                 landing_bytes(layout, options));
}

GradientStore::GradientStore(HostState& state, Communicator& ranks, Kernels& kernels,
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
      norms_(device_arena.allocate_tensor("gradients.norms", DType::kF64,
                                          {largest_norm_count(state.layout(), state.options())})),
      landing_(pinned_arena, "gradients.landing", kLandingSlots,
               landing_bytes(state.layout(), state.options())),
      arrivals_(static_cast<std::size_t>(state.blocks())) {
  for (int b = 0; b < state.blocks(); ++b) {
    const std::int64_t count = norm_count(state.layout(), b, state.options());
    home_norms_.push_back(
        count > 0 ? pinned_arena.allocate_tensor("gradients.norms", DType::kF64, {count})
                  : TensorView{});
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
  for (const int block : state_.layout().units.at(static_cast<std::size_t>(unit)).blocks) {
    SlotRing& ring = ring_of(block);
    const int slot = ring.oldest();
    Lease lease = ring.fill(slot, block, compute);
    compute.set(lease.data(), 0, accumulator_bytes(state_.layout(), block, state_.options()), tag);
    result.blocks.push_back(lease.data());
    result.leases.push_back(std::move(lease));
  }
  return result;
}

std::vector<Arrival> GradientStore::offload(GradientLease lease, const Tag& tag) {
  std::vector<Arrival> complete;
  const std::vector<int>& blocks =
      state_.layout().units.at(static_cast<std::size_t>(lease.unit)).blocks;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const int block = blocks[i];
    const int expected =
        HostState::gradient_contributions(state_.layout(), block, state_.options());
    const int arrived = ++arrivals_[static_cast<std::size_t>(block)];
    lease.leases[i].filled();
    reduce(lease.leases[i], block, tag);
    if (arrived == 1) {
      copy_home(lease.leases[i], block, tag);
    } else {
      add_home(lease.leases[i], block, tag);
    }
    if (arrived < expected) continue;
    if (expected > 1) round_home(block, tag);
    const Lane last = expected > 1 ? Lane::kHost : Lane::kOut;
    complete.push_back({.block = block,
                        .event = device_.stream(last).record(),
                        .norms = home_norms_[static_cast<std::size_t>(block)]});
  }
  return complete;
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

/// First (often only) contribution: written to the host shard, rounded and measured on the way if
/// it is the only one. Both run on the out-lane, so compute does not wait for ranks.
void GradientStore::copy_home(Lease& lease, int block, const Tag& tag) {
  const StateOptions& options = state_.options();
  const DType from = accumulator_of(options.compute);
  const TensorView& home = state_.block(block).grad;
  Stream& out = device_.stream(Lane::kOut);
  lease.use(out);
  const std::byte* data =
      lease.data() + static_cast<std::size_t>(state_.block(block).begin) * size_of(from);
  const ConstTensorView shard(data, from, home.shape);
  const TensorView& home_norms = home_norms_[static_cast<std::size_t>(block)];
  const TensorView norms = home_norms ? norms_.slice_rows(0, home_norms.elements()) : TensorView{};
  if (home.dtype == from) {
    if (norms) kernels_.run(out, SquaredNorm{.x = shard, .partial = norms}, tag);
    copy_in_chunks(out, static_cast<std::byte*>(home.data), data, home.bytes().bytes, tag);
  } else {
    round_away(shard, home, norms, tag);
  }
  offloaded_bytes_ += home.bytes().bytes;
  if (!norms) return;
  out.copy(home_norms.data, norms.data, norms.bytes().bytes, tag);
  offloaded_bytes_ += norms.bytes().bytes;
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

/// Later contributions: landed chunk by chunk and added by the host lane.
void GradientStore::add_home(Lease& lease, int block, const Tag& tag) {
  const TensorView& home = state_.block(block).grad;
  Stream& out = device_.stream(Lane::kOut);
  Stream& host = device_.stream(Lane::kHost);
  lease.use(out);
  const std::byte* shard =
      lease.data() + static_cast<std::size_t>(state_.block(block).begin) * size_of(home.dtype);
  offloaded_bytes_ += home.bytes().bytes;
  const auto chunk = static_cast<std::int64_t>(kChunkBytes / size_of(home.dtype));
  for (std::int64_t done = 0; done < home.elements(); done += chunk) {
    const std::int64_t count = std::min(chunk, home.elements() - done);
    const int slot = landing_.oldest();
    Lease landed = landing_.fill(slot, block, out);
    const TensorView part(landed.data(), home.dtype, Shape{count});
    out.copy(part.data, shard + static_cast<std::size_t>(done) * size_of(home.dtype),
             part.bytes().bytes, tag);
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
