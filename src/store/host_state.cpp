#include "strata/store/host_state.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "strata/base/convert.h"
#include "strata/base/random.h"

namespace strata {

namespace {

/// Random stream of a tensor: FNV-1a of its name, so that it depends on nothing else.
std::uint64_t stream_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

void zero(const TensorView& view) {
  if (view) std::memset(view.data, 0, view.bytes().bytes);
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

/// Stores master weights into a shard at `offset`.
void store_master(const BlockState& state, std::int64_t offset, const std::vector<double>& values) {
  const auto at = static_cast<std::size_t>(offset);
  for (std::size_t i = 0; i < values.size(); ++i) {
    switch (state.weight.dtype) {
      case DType::kF64: state.weight.as<double>()[at + i] = values[i]; break;
      case DType::kF32: state.weight.as<float>()[at + i] = static_cast<float>(values[i]); break;
      default: {
        const SplitF32 parts = split_f32(static_cast<float>(values[i]));
        state.weight.as<Bf16>()[at + i].bits = parts.high;
        state.low.as<std::int16_t>()[at + i] = parts.low;
      }
    }
  }
}

}  // namespace

int HostState::gradient_contributions(const ModelLayout& layout, int block,
                                      const StateOptions& options) {
  return options.passes * layout.gradient_sources(block);
}

DType HostState::gradient_storage(const ModelLayout& layout, int block,
                                  const StateOptions& options) {
  if (options.compute == DType::kF64) return DType::kF64;
  return gradient_contributions(layout, block, options) > 1 ? DType::kF32 : options.gradient;
}

void HostState::plan(MemoryPlan& plan, const ModelLayout& layout, const StateOptions& options) {
  const DType a = accumulator_of(options.compute);
  for (int b = 0; b < static_cast<int>(layout.blocks.size()); ++b) {
    const auto n = static_cast<std::size_t>(
        layout.blocks[static_cast<std::size_t>(b)].shard_elements(options.ranks));
    plan.add(Space::kPinned, "state.weight", n * size_of(options.compute));
    plan.add(Space::kPinned, "state.gradient", n * size_of(gradient_storage(layout, b, options)));
    if (options.compute == DType::kBF16) plan.add(Space::kPageable, "state.low", n * 2);
    plan.add(Space::kPageable, "state.m", n * size_of(a));
    plan.add(Space::kPageable, "state.v", n * size_of(a));
  }
}

HostState::HostState(const ModelLayout& layout, const StateOptions& options, Arena& pinned,
                     Arena& pageable)
    : layout_(layout), options_(options) {
  const DType a = accumulator_of(options.compute);
  for (int b = 0; b < static_cast<int>(layout.blocks.size()); ++b) {
    const std::int64_t n = layout.blocks[static_cast<std::size_t>(b)].shard_elements(options.ranks);
    BlockState state;
    state.weight = pinned.allocate_tensor("state.weight", options.compute, {n});
    state.grad =
        pinned.allocate_tensor("state.gradient", gradient_storage(layout, b, options), {n});
    if (options.compute == DType::kBF16) {
      state.low = pageable.allocate_tensor("state.low", DType::kI16, {n});
    }
    state.m = pageable.allocate_tensor("state.m", a, {n});
    state.v = pageable.allocate_tensor("state.v", a, {n});
    state.begin = n * options.rank;
    blocks_.push_back(state);
  }
}

void HostState::fill(ThreadPool& pool,
                     const std::function<void(const SourceRun&, std::vector<double>&)>& fn) {
  constexpr std::int64_t kRun = std::int64_t{1} << 16;
  struct Job {
    const BlockState* state;
    SourceRun run;
  };
  std::vector<Job> jobs;
  std::vector<const TensorView*> cleared;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    const BlockState& state = blocks_[b];
    for (const TensorView* view : {&state.weight, &state.low, &state.m, &state.v, &state.grad}) {
      cleared.push_back(view);
    }
    for (const SourceRun& run :
         source_runs(layout_.blocks[b], state.begin, state.begin + state.weight.elements(), kRun)) {
      jobs.push_back({&state, run});
    }
  }
  pool.parallel_for(static_cast<std::int64_t>(cleared.size()), 1,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t i = begin; i < end; ++i) {
                        zero(*cleared[static_cast<std::size_t>(i)]);
                      }
                    });
  pool.parallel_for(static_cast<std::int64_t>(jobs.size()), 1,
                    [&](std::int64_t begin, std::int64_t end) {
                      std::vector<double> values;
                      for (std::int64_t i = begin; i < end; ++i) {
                        const Job& job = jobs[static_cast<std::size_t>(i)];
                        values.resize(static_cast<std::size_t>(job.run.count));
                        fn(job.run, values);
                        store_master(*job.state, job.run.block_begin - job.state->begin, values);
                      }
                    });
}

void HostState::initialize(std::uint64_t seed, double deviation, ThreadPool& pool) {
  fill(pool, [&](const SourceRun& run, std::vector<double>& values) {
    if (run.segment->initializer == Initializer::kOnes) {
      std::fill(values.begin(), values.end(), 1.0);
      return;
    }
    const std::uint64_t stream = stream_of(run.source->name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto index = static_cast<std::uint64_t>(run.source_begin) + i;
      values[i] = deviation * random_normal(seed, stream, index);
    }
  });
}

void HostState::load(const SafetensorsDirectory& files, ThreadPool& pool) {
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

std::vector<double> HostState::master(int block_index) const {
  const BlockState& state = block(block_index);
  std::vector<double> values = load_as_double(state.weight);
  if (!state.low) return values;
  const Bf16* high = state.weight.as<Bf16>();
  const std::int16_t* low = state.low.as<std::int16_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>(join_f32({high[i].bits, low[i]}));
  }
  return values;
}

}  // namespace strata
