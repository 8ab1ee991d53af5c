#include "strata/store/training_state.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>

#include "strata/base/convert.h"
#include "strata/base/random.h"
#include "strata/store/chunks.h"

namespace strata {

namespace {

/// Random stream of a tensor: FNV-1a of its name, so that it depends on nothing else.
std::uint64_t stream_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

/// By all threads: this is also what first touches the memory.
void zero(const TensorView& view, ThreadPool& pool) {
  if (!view) return;
  constexpr std::size_t kPiece = kMiB;
  const std::size_t bytes = view.bytes().bytes;
  auto* data = static_cast<std::byte*>(view.data);
  pool.parallel_for(static_cast<std::int64_t>((bytes + kPiece - 1) / kPiece), 1,
                    [&](std::int64_t begin, std::int64_t end) {
                      const std::size_t from = static_cast<std::size_t>(begin) * kPiece;
                      const std::size_t to = static_cast<std::size_t>(end) * kPiece;
                      std::memset(data + from, 0, std::min(to, bytes) - from);
                    });
}

/// A norm is stored as a vector, everything else as a matrix. Throws IoError.
void require_shape(const SafetensorsDirectory& files, const Segment& segment,
                   const SourceTensor& source) {
  const bool vector = segment.initializer == Initializer::kOnes;
  const std::vector<std::int64_t> expected =
      vector ? std::vector{segment.cols} : std::vector{source.rows, segment.cols};
  const std::vector<std::int64_t>& found = files.info(source.name).shape;
  if (found == expected) return;
  const auto text = [](const std::vector<std::int64_t>& shape) {
    std::string t;
    for (const std::int64_t extent : shape) t += (t.empty() ? "[" : ", ") + std::to_string(extent);
    return t + "]";
  };
  throw IoError("weights: tensor " + source.name + " has shape " + text(found) +
                ", config.json asks for " + text(expected));
}

/// Stores master weights at `offset`.
void store_master(const TensorView& weight, const TensorView& low, std::int64_t offset,
                  const std::vector<double>& values) {
  const auto at = static_cast<std::size_t>(offset);
  for (std::size_t i = 0; i < values.size(); ++i) {
    switch (weight.dtype) {
      case DType::kF64: weight.as<double>()[at + i] = values[i]; break;
      case DType::kF32: weight.as<float>()[at + i] = static_cast<float>(values[i]); break;
      default: {
        const SplitF32 parts = split_f32(static_cast<float>(values[i]));
        weight.as<Bf16>()[at + i].bits = parts.high;
        low.as<std::int16_t>()[at + i] = parts.low;
      }
    }
  }
}

/// Where the tensors of a block live.
struct Home {
  Space weight;
  Space gradient;
  Space private_;  ///< what only the optimizer reads
};

Home home_of(const StateOptions& options, int block) {
  if (options.resident(block)) return {Space::kDevice, Space::kDevice, Space::kDevice};
  if (options.interleaved(block)) return {Space::kPinned, Space::kDevice, Space::kPinned};
  return {Space::kPinned, Space::kPinned, Space::kPageable};
}

/// Of each of two buffers: one chunk of a shard's weights, of which the device holds state.
std::size_t staging_bytes(const ModelLayout& layout, const StateOptions& options) {
  std::int64_t largest = 0;
  for (int b = 0; b < static_cast<int>(layout.blocks.size()); ++b) {
    if (!options.updated_on_device(b)) continue;
    const Block& block = layout.blocks[static_cast<std::size_t>(b)];
    largest = std::max(largest, block.shard_elements(options.ranks));
  }
  return std::min(kChunkBytes, static_cast<std::size_t>(largest) * size_of(options.compute));
}

}  // namespace

bool StateOptions::interleaved(int block) const {
  const int first = std::max(1, resident_blocks);
  if (block < first || block > layers) return false;
  const int i = block - first;
  return std::floor((i + 1) * interleave) > std::floor(i * interleave);
}

int TrainingState::gradient_contributions(const ModelLayout& layout, int block,
                                          const StateOptions& options) {
  return options.passes * layout.gradient_sources(block);
}

DType TrainingState::gradient_storage(const ModelLayout& layout, int block,
                                      const StateOptions& options) {
  if (options.compute == DType::kF64) return DType::kF64;
  const bool summed = gradient_contributions(layout, block, options) > 1;
  return summed && !options.sums_on_device(block) ? DType::kF32 : options.gradient;
}

bool TrainingState::has_gradient_home(const ModelLayout& layout, int block,
                                      const StateOptions& options) {
  const bool shares = block > 0 && block <= layout.layers() && !options.interleaved(block);
  const bool summed_there =
      gradient_contributions(layout, block, options) > 1 && !options.sums_on_device(block);
  return !shares || options.gradient_ring == 0 || summed_there;
}

DType TrainingState::moment_storage(const StateOptions& options) {
  return options.compute == DType::kF64 ? DType::kF64 : options.moment;
}

std::size_t TrainingState::updated_bytes(const StateOptions& options) {
  const std::size_t low = options.compute == DType::kBF16 ? size_of(DType::kI16) : 0;
  return size_of(options.compute) + low + 2 * size_of(moment_storage(options));
}

void TrainingState::plan(MemoryPlan& plan, const ModelLayout& layout, const StateOptions& options) {
  const DType moment = moment_storage(options);
  for (int b = 0; b < static_cast<int>(layout.blocks.size()); ++b) {
    const auto n = static_cast<std::size_t>(
        layout.blocks[static_cast<std::size_t>(b)].shard_elements(options.ranks));
    const Home home = home_of(options, b);
    plan.add(home.weight, "state.weight", n * size_of(options.compute));
    if (has_gradient_home(layout, b, options)) {
      plan.add(home.gradient, "state.gradient", n * size_of(gradient_storage(layout, b, options)));
    }
    if (options.compute == DType::kBF16) plan.add(home.private_, "state.low", n * 2);
    plan.add(home.private_, "state.m", n * size_of(moment));
    plan.add(home.private_, "state.v", n * size_of(moment));
  }
  plan.add_slots(Space::kPinned, "staging.state", 2, staging_bytes(layout, options));
}

TrainingState::TrainingState(const ModelLayout& layout, const StateOptions& options,
                             const StateArenas& arenas)
    : layout_(layout), options_(options), device_(arenas.device.device()) {
  const auto arena = [&](Space space) -> Arena& {
    if (space == Space::kDevice) return arenas.device;
    return space == Space::kPinned ? arenas.pinned : arenas.pageable;
  };
  const DType moment = moment_storage(options);
  for (int b = 0; b < static_cast<int>(layout.blocks.size()); ++b) {
    const std::int64_t n = layout.blocks[static_cast<std::size_t>(b)].shard_elements(options.ranks);
    const Home home = home_of(options, b);
    BlockState state;
    state.weight = arena(home.weight).allocate_tensor("state.weight", options.compute, {n});
    if (has_gradient_home(layout, b, options)) {
      state.grad =
          arena(home.gradient)
              .allocate_tensor("state.gradient", gradient_storage(layout, b, options), {n});
    }
    if (options.compute == DType::kBF16) {
      state.low = arena(home.private_).allocate_tensor("state.low", DType::kI16, {n});
    }
    state.m = arena(home.private_).allocate_tensor("state.m", moment, {n});
    state.v = arena(home.private_).allocate_tensor("state.v", moment, {n});
    state.begin = n * options.rank;
    blocks_.push_back(state);
  }
  staged_weight_ = arenas.pinned.allocate("staging.state", staging_bytes(layout, options));
  staged_low_ = arenas.pinned.allocate("staging.state", staging_bytes(layout, options));
}

void TrainingState::fill_masters(int block, const Masters& masters, ThreadPool& pool,
                                 const Source& source) {
  constexpr std::int64_t kRun = std::int64_t{1} << 16;
  zero(masters.weight, pool);  // gaps and padding belong to no run
  zero(masters.low, pool);
  const std::vector<SourceRun> runs =
      source_runs(layout_.blocks[static_cast<std::size_t>(block)], masters.begin,
                  masters.begin + masters.weight.elements(), kRun);
  pool.parallel_for(
      static_cast<std::int64_t>(runs.size()), 1, [&](std::int64_t begin, std::int64_t end) {
        std::vector<double> values;
        for (std::int64_t i = begin; i < end; ++i) {
          const SourceRun& run = runs[static_cast<std::size_t>(i)];
          values.resize(static_cast<std::size_t>(run.count));
          source(run, values);
          store_master(masters.weight, masters.low, run.block_begin - masters.begin, values);
        }
      });
}

void TrainingState::fill_on_device(int block, ThreadPool& pool, const Source& source) {
  const BlockState& s = blocks_[static_cast<std::size_t>(block)];
  Stream& in = device_.stream(Lane::kWeightsIn);
  const Tag tag{.phase = "initialize", .unit = block};
  for (const TensorView* view : {&s.m, &s.v, &s.grad}) {
    if (*view) in.set(view->data, 0, view->bytes().bytes, tag);
  }
  const auto chunk = static_cast<std::int64_t>(kChunkBytes / size_of(options_.compute));
  for (std::int64_t done = 0; done < s.weight.elements(); done += chunk) {
    const std::int64_t count = std::min(chunk, s.weight.elements() - done);
    const TensorView weight(staged_weight_, options_.compute, Shape{count});
    const TensorView low =
        s.low ? TensorView(staged_low_, DType::kI16, Shape{count}) : TensorView{};
    fill_masters(block, {weight, low, s.begin + done}, pool, source);
    in.copy(s.weight.slice_rows(done, count).data, weight.data, weight.bytes().bytes, tag);
    if (low) in.copy(s.low.slice_rows(done, count).data, low.data, low.bytes().bytes, tag);
    device_.synchronize();  // the next chunk is staged in the same place
  }
}

void TrainingState::fill(ThreadPool& pool, const Source& source) {
  for (int b = 0; b < blocks(); ++b) {
    if (options_.resident(b)) {
      fill_on_device(b, pool, source);
      continue;
    }
    const BlockState& s = blocks_[static_cast<std::size_t>(b)];
    for (const TensorView* view : {&s.m, &s.v}) zero(*view, pool);
    if (options_.interleaved(b)) {
      device_.stream(Lane::kOut)
          .set(s.grad.data, 0, s.grad.bytes().bytes, {.phase = "initialize", .unit = b});
    } else {
      zero(s.grad, pool);
    }
    fill_masters(b, {s.weight, s.low, s.begin}, pool, source);
  }
}

void TrainingState::initialize(std::uint64_t seed, double deviation, ThreadPool& pool) {
  fill(pool, [&](const SourceRun& run, std::vector<double>& values) {
    if (run.segment->initializer == Initializer::kOnes) {
      std::fill(values.begin(), values.end(), 1.0);
      return;
    }
    random_normals(seed, stream_of(run.source->name), static_cast<std::uint64_t>(run.source_begin),
                   values);
    for (double& value : values) value *= deviation;
  });
}

void TrainingState::load(const SafetensorsDirectory& files, ThreadPool& pool) {
  for (const Block& block : layout_.blocks) {
    for (const Segment& segment : block.segments) {
      for (const SourceTensor& source : segment.sources) {
        require_shape(files, segment, source);
      }
    }
  }
  fill(pool, [&](const SourceRun& run, std::vector<double>& values) {
    files.read(run.source->name, run.source_begin, std::span<double>(values));
  });
}

TensorView TrainingState::on_host(const TensorView& tensor, std::vector<std::byte>& copy) const {
  if (!tensor || device_.space_of(ConstTensorView(tensor).bytes()) != Space::kDevice) return tensor;
  const std::size_t bytes = tensor.bytes().bytes;
  copy.resize(bytes);
  Stream& out = device_.stream(Lane::kOut);
  const std::size_t most = staging_bytes(layout_, options_);
  for (std::size_t done = 0; done < bytes; done += most) {
    const std::size_t part = std::min(most, bytes - done);
    out.copy(staged_weight_, static_cast<const std::byte*>(tensor.data) + done, part,
             {.phase = "read"});
    device_.synchronize();
    std::memcpy(copy.data() + done, staged_weight_, part);
  }
  return {copy.data(), tensor.dtype, tensor.shape};
}

std::vector<double> TrainingState::master(int block_index) const {
  std::array<std::vector<std::byte>, 2> copies;
  const TensorView weight = on_host(block(block_index).weight, copies[0]);
  const TensorView lows = on_host(block(block_index).low, copies[1]);
  std::vector<double> values = load_as_double(weight);
  if (!lows) return values;
  const Bf16* high = weight.as<Bf16>();
  const std::int16_t* low = lows.as<std::int16_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>(join_f32({high[i].bits, low[i]}));
  }
  return values;
}

std::vector<double> TrainingState::gradient(int block_index) const {
  std::vector<std::byte> copy;
  return load_as_double(on_host(block(block_index).grad, copy));
}

}  // namespace strata
