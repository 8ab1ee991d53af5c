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
    if (options.passes * layout.gradient_sources(b) > 1) return true;
  }
  return false;
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

void GradientStore::plan(MemoryPlan& plan, const ModelLayout& layout, const StateOptions& options,
                         int layer_slots) {
  plan.add_slots(Space::kDevice, "gradients.embedding", 1, accumulator_bytes(layout, 0, options));
  plan.add_slots(Space::kDevice, "gradients.layers", static_cast<std::size_t>(layer_slots),
                 accumulator_bytes(layout, 1, options));
  plan.add_slots(Space::kDevice, "gradients.head", 1,
                 accumulator_bytes(layout, head_block(layout), options));
  plan.add(Space::kDevice, "gradients.rounded", rounded_bytes(options));
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
      landing_(pinned_arena, "gradients.landing", kLandingSlots,
               landing_bytes(state.layout(), state.options())),
      arrivals_(static_cast<std::size_t>(state.blocks())) {}

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
    const int expected = state_.options().passes * state_.layout().gradient_sources(block);
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
    complete.push_back({block, device_.stream(last).record()});
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

/// First (often only) contribution: written to the host shard, rounded on the way if it is the only
/// one. The rounding runs on the out-lane, chunk by chunk, so compute does not wait for ranks.
void GradientStore::copy_home(Lease& lease, int block, const Tag& tag) {
  const StateOptions& options = state_.options();
  const DType from = accumulator_of(options.compute);
  const TensorView& home = state_.block(block).grad;
  Stream& out = device_.stream(Lane::kOut);
  lease.use(out);
  const std::byte* shard =
      lease.data() + static_cast<std::size_t>(state_.block(block).begin) * size_of(from);
  offloaded_bytes_ += home.bytes().bytes;
  if (home.dtype == from) {
    copy_in_chunks(out, static_cast<std::byte*>(home.data), shard, home.bytes().bytes, tag);
    return;
  }
  const auto chunk = static_cast<std::int64_t>(kChunkBytes / size_of(home.dtype));
  for (std::int64_t done = 0; done < home.elements(); done += chunk) {
    const std::int64_t count = std::min(chunk, home.elements() - done);
    const auto offset = static_cast<std::size_t>(done);
    const TensorView part(rounded_, home.dtype, Shape{count});
    kernels_.run(
        out,
        Cast{.x = ConstTensorView(shard + offset * size_of(from), from, Shape{count}), .y = part},
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
