// Lays out blocks in 4 bits, and rounds weights to them matrix by matrix: first the elements of all
// blocks of 64, whose scales are then rounded group by group.

#include "strata/store/packed_block.h"

#include <algorithm>
#include <cstring>

#include "strata/base/bytes.h"
#include "strata/base/convert.h"

namespace strata {

namespace {

/// Where something begins in a packed block: a GPU reads whole lines of its cache.
constexpr std::size_t kAlignment = 128;

/// Takes places in a packed block, one after the other.
class Places {
 public:
  std::size_t take(std::size_t bytes) {
    const std::size_t at = end_;
    end_ += round_up(bytes, kAlignment);
    return at;
  }
  [[nodiscard]] std::size_t end() const { return end_; }

 private:
  std::size_t end_ = 0;
};

std::int64_t groups_of(std::int64_t elements) {
  constexpr std::int64_t kInGroup = kNf4Block * kNf4Group;
  return (elements + kInGroup - 1) / kInGroup;
}

/// Elements of a matrix that a thread rounds at a time: whole groups.
constexpr std::int64_t kRun = 4 * kNf4Block * kNf4Group;

/// A part of a packed block as numbers of a type.
template <class T>
std::span<T> part(std::span<std::byte> packed, std::size_t at, std::int64_t count) {
  return {reinterpret_cast<T*>(packed.data() + at), static_cast<std::size_t>(count)};
}

/// Rounds the elements of a matrix; returns the scales of its blocks.
std::vector<float> pack_elements(const Block& block, const PackedMatrix& m, const Nf4Values& nf4,
                                 const WeightSource& source, ThreadPool& pool,
                                 std::span<std::byte> packed) {
  constexpr auto kInBlock = static_cast<std::size_t>(kNf4Block);
  std::vector<float> scales(static_cast<std::size_t>(m.elements) / kInBlock);
  const auto codes = part<std::uint8_t>(packed, m.codes, m.elements / 2);
  const std::vector<SourceRun> runs = source_runs(block, m.begin, m.begin + m.elements, kRun);
  const auto count = static_cast<std::int64_t>(runs.size());
  pool.parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> values;
    std::vector<float> numbers;
    for (std::int64_t i = begin; i < end; ++i) {
      const SourceRun& run = runs[static_cast<std::size_t>(i)];
      values.resize(static_cast<std::size_t>(run.count));
      source(run, values);
      numbers.assign(values.begin(), values.end());
      const auto first = static_cast<std::size_t>(run.block_begin - m.begin);
      for (std::size_t at = 0; at < numbers.size(); at += kInBlock) {
        scales[(first + at) / kInBlock] =
            quantize_nf4_block(nf4, std::span(numbers).subspan(at, kInBlock),
                               codes.subspan((first + at) / 2, kInBlock / 2));
      }
    }
  });
  return scales;
}

/// Rounds the scales of a matrix's blocks, and writes its tables.
void pack_scales(const std::vector<float>& scales, const PackedMatrix& m, const Nf4Values& nf4,
                 ThreadPool& pool, std::span<std::byte> packed) {
  constexpr auto kInGroup = static_cast<std::size_t>(kNf4Group);
  const float offset = nf4_offset(scales);
  const auto codes = part<std::uint8_t>(packed, m.scales, static_cast<std::int64_t>(scales.size()));
  const auto groups = part<float>(packed, m.groups, groups_of(m.elements));
  const auto count = static_cast<std::int64_t>(groups.size());
  pool.parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto g = static_cast<std::size_t>(begin); g < static_cast<std::size_t>(end); ++g) {
      const std::size_t first = g * kInGroup;
      const std::size_t size = std::min(kInGroup, scales.size() - first);
      groups[g] = quantize_nf4_scales(nf4, offset, std::span(scales).subspan(first, size),
                                      codes.subspan(first, size));
    }
  });
  const auto tables = part<float>(packed, m.tables, kNf4Tables);
  tables[0] = offset;
  const auto levels = std::ranges::copy(nf4.levels, tables.begin() + 1).out;
  std::ranges::copy(nf4.scale_values, levels);
}

}  // namespace

DequantizeNf4 PackedMatrix::decode(const std::byte* packed, const TensorView& y) const {
  const auto view = [&](std::size_t at, DType dtype, std::int64_t count) {
    return ConstTensorView(packed + at, dtype, Shape{count});
  };
  return {.codes = view(codes, DType::kU8, elements / 2),
          .scales = view(scales, DType::kU8, elements / kNf4Block),
          .groups = view(groups, DType::kF32, groups_of(elements)),
          .tables = view(tables, DType::kF32, kNf4Tables),
          .y = y};
}

PackedBlock::PackedBlock(const Block& block, DType compute) {
  Places places;
  for (const Segment& segment : block.segments) {
    std::int64_t begin = segment.offset;
    if (segment.initializer != Initializer::kNormal) {
      const auto size = static_cast<std::size_t>(segment.elements()) * size_of(compute);
      segments.push_back({.begin = begin, .elements = segment.elements(), .at = places.take(size)});
      continue;
    }
    for (const SourceTensor& source : segment.sources) {
      const std::int64_t n = source.rows * segment.cols;
      const auto floats = [](std::int64_t count) {
        return static_cast<std::size_t>(count) * sizeof(float);
      };
      matrices.push_back({.begin = begin,
                          .elements = n,
                          .codes = places.take(static_cast<std::size_t>(n / 2)),
                          .scales = places.take(static_cast<std::size_t>(n / kNf4Block)),
                          .groups = places.take(floats(groups_of(n))),
                          .tables = places.take(floats(kNf4Tables))});
      begin += n;
    }
  }
  bytes = places.end();
}

void pack_block(const Block& block, DType compute, const WeightSource& source, ThreadPool& pool,
                std::span<std::byte> packed) {
  const PackedBlock layout(block, compute);
  const Nf4Values nf4 = nf4_values();
  std::ranges::fill(packed, std::byte{0});
  for (const PackedMatrix& m : layout.matrices) {
    pack_scales(pack_elements(block, m, nf4, source, pool, packed), m, nf4, pool, packed);
  }
  for (const UnpackedSegment& s : layout.segments) {
    std::vector<double> values;
    for (const SourceRun& run : source_runs(block, s.begin, s.begin + s.elements, s.elements)) {
      values.resize(static_cast<std::size_t>(run.count));
      source(run, values);
      const auto at = s.at + static_cast<std::size_t>(run.block_begin - s.begin) * size_of(compute);
      store_as(values, compute, packed.subspan(at));
    }
  }
}

WeightShape weight_shape(const Block& block, Form form, const StatePlan& plan) {
  if (form == Form::kPlain) return {plan.compute, block.shard_elements(plan.ranks)};
  const std::size_t all = PackedBlock(block, plan.compute).bytes;
  const auto ranks = static_cast<std::size_t>(plan.ranks);
  return {DType::kU8, static_cast<std::int64_t>(round_up((all + ranks - 1) / ranks, kAlignment))};
}

}  // namespace strata
