// Takes the homes of all blocks, and fills and reads them. State that lives on the device passes
// through two pinned buffers, chunk by chunk, with a synchronisation after each.

#include "strata/store/training_state.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include "strata/base/convert.h"
#include "strata/base/random.h"
#include "strata/model/weights_check.h"
#include "strata/store/chunks.h"
#include "strata/store/take_for_blocks.h"

namespace strata {

namespace {

/// Draws a run of elements, as their initializer says.
void draw_run(std::uint64_t seed, double deviation, const SourceRun& run,
              std::vector<double>& values) {
  const std::uint64_t stream = stream_of(run.source->name);
  const auto first = static_cast<std::uint64_t>(run.source_begin);
  switch (run.segment->initializer) {
    case Initializer::kOnes: std::fill(values.begin(), values.end(), 1.0); return;
    case Initializer::kZeros:
    case Initializer::kAdapterB: std::fill(values.begin(), values.end(), 0.0); return;
    case Initializer::kAdapterA: {
      const double bound = 1 / std::sqrt(static_cast<double>(run.segment->cols));
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = bound * (2 * random_uniform(seed, stream, first + i) - 1);
      }
      return;
    }
    case Initializer::kNormal: break;
  }
  random_normals(seed, stream, first, values);
  for (double& value : values) value *= deviation;
}

/// Sets a tensor to zero by all threads. This is also what touches the memory first.
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

/// Stores master weights from element `offset` on, split in two halves if the weight is bf16; the
/// low half is lost where nobody trains.
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
        if (low) low.as<std::int16_t>()[at + i] = parts.low;
      }
    }
  }
}

/// Returns the bytes of each staging buffer: those of a chunk, or of the largest shard of weights
/// that lives or is updated on the device if that is smaller; 0 if there is none.
std::size_t staging_bytes_of(const ModelLayout& layout, const StatePlan& plan) {
  std::int64_t largest = 0;
  for (const BlockId b : layout.blocks.ids()) {
    const BlockPlan& row = plan.blocks[b];
    if (!row.updated_on_device() && row.weight != Home::kDevice) continue;
    largest = std::max(largest, layout.blocks[b].shard_elements(plan.ranks));
  }
  return std::min(kChunkBytes, static_cast<std::size_t>(largest) * size_of(plan.compute));
}

}  // namespace

TrainingState::Memory::Memory(const ModelLayout& layout, const StatePlan& plan, Allocator& memory)
    : staging_bytes(staging_bytes_of(layout, plan)) {
  take_for_blocks(layout, plan, memory, [&](BlockId b) {
    const BlockPlan& row = plan.blocks[b];
    const Shape shape{layout.blocks[b].shard_elements(plan.ranks)};
    BlockState state;
    const WeightShape weight = weight_shape(layout.blocks[b], row.form, plan);
    state.weight =
        memory.tensor(space_of(row.weight), "state.weight", weight.dtype, Shape{weight.elements});
    state.begin = shape[0] * plan.rank;
    if (!row.is_trained()) {
      blocks.push_back(state);
      return;
    }
    if (row.gradient != Home::kRing && row.gradient != Home::kPassing) {
      state.grad =
          memory.tensor(space_of(row.gradient), "state.gradient", row.gradient_dtype, shape);
    }
    const Space moments = space_of(row.moments);
    if (plan.has_low()) {
      state.low = memory.tensor(moments, "state.low", DType::kI16, shape);
    }
    state.m = memory.tensor(moments, "state.m", plan.moment, shape);
    if (plan.moments > 1) state.v = memory.tensor(moments, "state.v", plan.moment, shape);
    if (plan.moment == kMomentCode) {
      state.scale = memory.tensor(moments, "state.scale", kMomentCode,
                                  {shape[0] / kMomentBlock, kMomentScales});
    }
    blocks.push_back(state);
  });
  staged_weight = memory.allocate(Space::kPinned, "staging.state", staging_bytes);
  staged_low = memory.allocate(Space::kPinned, "staging.state", staging_bytes);
}

std::uint64_t stream_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

TensorView slice_of(const BlockState& state, TensorView BlockState::*tensor, std::int64_t begin,
                    std::int64_t count) {
  const std::int64_t each = parameters_of_row(tensor);
  return (state.*tensor).slice_rows(begin / each, (count + each - 1) / each);
}

TrainingState::TrainingState(const ModelLayout& layout, const StatePlan& plan, Arenas& arenas)
    : layout_(layout), plan_(plan), device_(arenas.device()), memory_(layout, plan, arenas) {}

std::size_t TrainingState::weight_bytes() const {
  std::size_t bytes = 0;
  for (const BlockId b : ids()) bytes += memory_.blocks[b].weight.bytes().bytes;
  return bytes;
}

void TrainingState::fill_masters(BlockId block, const Masters& masters, ThreadPool& pool,
                                 const WeightSource& source, WorkProgress* work) {
  constexpr std::int64_t kRun = std::int64_t{1} << 16;
  zero(masters.weight, pool);  // gaps and padding belong to no run
  zero(masters.low, pool);
  const std::vector<SourceRun> runs = source_runs(layout_.blocks[block], masters.begin,
                                                  masters.begin + masters.weight.elements(), kRun);
  pool.parallel_for(
      static_cast<std::int64_t>(runs.size()), 1, [&](std::int64_t begin, std::int64_t end) {
        std::vector<double> values;
        for (std::int64_t i = begin; i < end; ++i) {
          const SourceRun& run = runs[static_cast<std::size_t>(i)];
          values.resize(static_cast<std::size_t>(run.count));
          source.read(run, values);
          store_master(masters.weight, masters.low, run.block_begin - masters.begin, values);
          count_work(work, values.size() * size_of(masters.weight.dtype));
        }
      });
}

/// A rank makes the whole block, since scales are made of whole matrices, and keeps its shard.
void TrainingState::fill_packed(BlockId block, ThreadPool& pool, const WeightSource& source,
                                WorkProgress* work) {
  const BlockState& s = memory_.blocks[block];
  const std::size_t shard = s.weight.bytes().bytes;
  std::vector<std::byte> packed(shard * static_cast<std::size_t>(plan_.ranks));
  pack_block(layout_.blocks[block], plan(block).form, plan_.compute, source, pool, packed);
  write(block, &BlockState::weight, 0,
        std::span(packed).subspan(shard * static_cast<std::size_t>(plan_.rank), shard));
  count_work(work, shard);
}

void TrainingState::fill_on_device(BlockId block, ThreadPool& pool, const WeightSource& source,
                                   WorkProgress* work) {
  const BlockState& s = memory_.blocks[block];
  Stream& in = device_.stream(Lane::kWeightsIn);
  const Tag tag{.phase = "initialize", .unit = block.value()};
  for (const TensorView* view : {&s.m, &s.v, &s.scale, &s.grad}) {
    if (*view) in.set(view->data, 0, view->bytes().bytes, tag);
  }
  const auto chunk = static_cast<std::int64_t>(kChunkBytes / size_of(plan_.compute));
  for (std::int64_t done = 0; done < s.weight.elements(); done += chunk) {
    const std::int64_t count = std::min(chunk, s.weight.elements() - done);
    const TensorView weight(memory_.staged_weight, plan_.compute, Shape{count});
    const TensorView low =
        s.low ? TensorView(memory_.staged_low, DType::kI16, Shape{count}) : TensorView{};
    fill_masters(block, {weight, low, s.begin + done}, pool, source, work);
    in.copy(s.weight.slice_rows(done, count).data, weight.data, weight.bytes().bytes, tag);
    if (low) in.copy(s.low.slice_rows(done, count).data, low.data, low.bytes().bytes, tag);
    device_.synchronize();  // the next chunk is staged in the same place
  }
}

void TrainingState::fill(ThreadPool& pool, const WeightSource& source, WorkProgress* work) {
  for (const BlockId b : ids()) {
    if (plan(b).form != Form::kPlain) {
      fill_packed(b, pool, source, work);
      continue;
    }
    if (plan(b).weight == Home::kDevice) {
      fill_on_device(b, pool, source, work);
      continue;
    }
    const BlockState& s = memory_.blocks[b];
    for (const TensorView* view : {&s.m, &s.v, &s.scale}) zero(*view, pool);
    if (plan(b).gradient == Home::kDevice) {
      device_.stream(Lane::kOut)
          .set(s.grad.data, 0, s.grad.bytes().bytes, {.phase = "initialize", .unit = b.value()});
    } else {
      zero(s.grad, pool);
    }
    fill_masters(b, {s.weight, s.low, s.begin}, pool, source, work);
  }
}

void TrainingState::initialize(std::uint64_t seed, double deviation, ThreadPool& pool,
                               WorkProgress* work) {
  const auto draw = [&](const SourceRun& run, std::vector<double>& values) {
    draw_run(seed, deviation, run, values);
  };
  fill(pool, {.read = draw, .in_4_bits = {}}, work);
}

void TrainingState::load(const SafetensorsDirectory& files, ThreadPool& pool, WorkProgress* work,
                         const AdapterStart& adapters) {
  require_shapes(files, layout_);
  if (adapters.files != nullptr) require_adapters(*adapters.files, layout_);
  const auto read = [&](const SourceRun& run, std::vector<double>& values) {
    const std::span<double> out(values);
    std::string name = run.source->name;
    if (run.block->is_beside_base() && adapters.files != nullptr) {
      name = adapter_tensor(*run.block, *run.source);
      file_with(*adapters.files, name).read(name, run.source_begin, out);
    } else if (run.block->adapter) {
      return draw_run(adapters.seed, 0, run, values);
    } else {
      files.read(name, run.source_begin, out);
    }
    require_finite(name, run.source_begin, std::span<const double>(values));
  };
  const auto in_4_bits = [&](const std::string& name) { return files.in_4_bits(name); };
  fill(pool, {.read = read, .in_4_bits = in_4_bits}, work);
}

void TrainingState::clear(ThreadPool& pool) {
  for (const BlockId b : ids()) {
    if (!plan(b).is_trained()) continue;
    const BlockState& s = memory_.blocks[b];
    const Tag tag{.phase = "initialize", .unit = b.value()};
    for (const TensorView* view : {&s.weight, &s.low, &s.m, &s.v, &s.scale, &s.grad}) {
      if (!*view) continue;
      const ByteRange range = ConstTensorView(*view).bytes();
      if (device_.space_of(range) == Space::kDevice) {
        device_.stream(Lane::kWeightsIn).set(view->data, 0, range.bytes, tag);
      } else {
        zero(*view, pool);
      }
    }
  }
  device_.synchronize();
}

void TrainingState::write(BlockId id, TensorView BlockState::*tensor, std::int64_t first,
                          std::span<const std::byte> bytes) {
  const TensorView& view = block(id).*tensor;
  auto* to = static_cast<std::byte*>(view.data) +
             static_cast<std::size_t>(first * view.shape.row_elements()) * size_of(view.dtype);
  if (device_.space_of({to, bytes.size()}) != Space::kDevice) {
    std::memcpy(to, bytes.data(), bytes.size());
    return;
  }
  Stream& in = device_.stream(Lane::kWeightsIn);
  const std::size_t most = memory_.staging_bytes;
  for (std::size_t done = 0; done < bytes.size(); done += most) {
    const std::size_t part = std::min(most, bytes.size() - done);
    std::memcpy(memory_.staged_weight, bytes.data() + done, part);
    in.copy(to + done, memory_.staged_weight, part, {.phase = "initialize", .unit = id.value()});
    device_.synchronize();  // the next part is staged in the same place
  }
}

TensorView TrainingState::on_host(const TensorView& tensor, std::vector<std::byte>& copy) const {
  if (!tensor || device_.space_of(ConstTensorView(tensor).bytes()) != Space::kDevice) return tensor;
  const std::size_t bytes = tensor.bytes().bytes;
  copy.resize(bytes);
  Stream& out = device_.stream(Lane::kOut);
  const std::size_t most = memory_.staging_bytes;
  for (std::size_t done = 0; done < bytes; done += most) {
    const std::size_t part = std::min(most, bytes - done);
    out.copy(memory_.staged_weight, static_cast<const std::byte*>(tensor.data) + done, part,
             {.phase = "read"});
    device_.synchronize();
    std::memcpy(copy.data() + done, memory_.staged_weight, part);
  }
  return {copy.data(), tensor.dtype, tensor.shape};
}

std::vector<double> TrainingState::master(BlockId id) const {
  std::array<std::vector<std::byte>, 2> copies;
  if (plan(id).form != Form::kPlain) return {};
  const TensorView weight = on_host(block(id).weight, copies[0]);
  const TensorView lows = on_host(block(id).low, copies[1]);
  std::vector<double> values = load_as_double(weight);
  if (!lows) return values;
  const Bf16* high = weight.as<Bf16>();
  const std::int16_t* low = lows.as<std::int16_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>(join_f32({high[i].bits, low[i]}));
  }
  return values;
}

std::vector<double> TrainingState::gradient(BlockId id) const {
  if (!block(id).grad) return {};
  std::vector<std::byte> copy;
  return load_as_double(on_host(block(id).grad, copy));
}

}  // namespace strata
