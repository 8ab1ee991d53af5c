// Lays out packed blocks, and rounds weights to them matrix by matrix. In 4 bits first the elements
// of all blocks of 64 are rounded, and then their scales, group by group; where rows have a scale
// each, one row after the other.

#include "strata/store/packed_block.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "strata/base/bytes.h"
#include "strata/base/convert.h"
#include "strata/ops/row_codes.h"

namespace strata {

namespace {

/// Where something begins in a packed block: a GPU reads whole lines of its cache.
constexpr std::size_t kAlignment = 128;

/// A form in which each row of a matrix has a scale: its codes, and what makes them.
struct RowForm {
  Form form;
  DType codes;
  float (*encode)(std::span<const double> row, std::span<std::uint8_t> codes);
};
constexpr RowForm kRowForms[] = {{Form::kFp8, DType::kE4M3, encode_fp8_row},
                                 {Form::kInt8, DType::kI8, encode_int8_row}};

/// Returns the row of a form in the table, or null if its scales are those of other parts.
const RowForm* row_form(Form form) {
  const auto* const found = std::ranges::find(kRowForms, form, &RowForm::form);
  return found == std::end(kRowForms) ? nullptr : found;
}

/// Takes places in a packed block, one after the other.
class Places {
 public:
  std::size_t take(std::int64_t count, std::size_t bytes_of_each) {
    const std::size_t at = end_;
    end_ += round_up(static_cast<std::size_t>(count) * bytes_of_each, kAlignment);
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

/// Takes the places of a matrix, which begins at `begin` of its block.
PackedMatrix take_matrix(Form form, std::int64_t begin, std::int64_t rows, std::int64_t cols,
                         Places& places) {
  PackedMatrix m{.begin = begin, .rows = rows, .cols = cols};
  const std::int64_t n = m.elements();
  if (row_form(form) != nullptr) {
    m.codes = places.take(n, 1);
    m.scales = places.take(rows, sizeof(float));
    return m;
  }
  m.codes = places.take(n / 2, 1);
  m.scales = places.take(n / kNf4Block, 1);
  m.groups = places.take(groups_of(n), sizeof(float));
  m.tables = places.take(kNf4Tables, sizeof(float));
  return m;
}

/// Elements of a matrix that a thread rounds at a time, unless a row is longer: whole groups.
constexpr std::int64_t kRun = 4 * kNf4Block * kNf4Group;

/// A part of a packed block as numbers of a type.
template <class T>
std::span<T> part(std::span<std::byte> packed, std::size_t at, std::int64_t count) {
  return {reinterpret_cast<T*>(packed.data() + at), static_cast<std::size_t>(count)};
}

/// Reads a matrix in runs of at most `longest` elements, and calls use(first element, values) for
/// each, by many threads.
template <class Use>
void for_each_run(const Block& block, const PackedMatrix& m, std::int64_t longest,
                  const WeightSource& source, ThreadPool& pool, const Use& use) {
  const std::vector<SourceRun> runs = source_runs(block, m.begin, m.begin + m.elements(), longest);
  const auto count = static_cast<std::int64_t>(runs.size());
  pool.parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> values;
    for (std::int64_t i = begin; i < end; ++i) {
      const SourceRun& run = runs[static_cast<std::size_t>(i)];
      values.resize(static_cast<std::size_t>(run.count));
      source.read(run, values);
      use(static_cast<std::size_t>(run.block_begin - m.begin), std::span<const double>(values));
    }
  });
}

/// The parts of a matrix in 4 bits.
Nf4Parts parts_of(const PackedMatrix& m, std::span<std::byte> packed) {
  return {.codes = part<std::uint8_t>(packed, m.codes, m.elements() / 2),
          .scales = part<std::uint8_t>(packed, m.scales, m.elements() / kNf4Block),
          .groups = part<float>(packed, m.groups, groups_of(m.elements())),
          .tables = part<float>(packed, m.tables, kNf4Tables)};
}

/// Returns the matrix where it comes from if that holds it in the form of a packed block in 4 bits,
/// else null.
const StoredNf4* stored_as_packed(const Block& block, const PackedMatrix& m,
                                  const WeightSource& source) {
  if (!source.in_4_bits) return nullptr;
  const std::string& name = source_runs(block, m.begin, m.begin + 1, 1).front().source->name;
  const StoredNf4* const stored = source.in_4_bits(name);
  return stored != nullptr && stored->has_parts() ? stored : nullptr;
}

/// Rounds a matrix row by row. It rounds the numbers that the model would compute with: codes in
/// e4m3 are then those of products in e4m3, and decoding them rounds nothing.
void pack_rows(const Block& block, const PackedMatrix& m, const RowForm& form, DType compute,
               const WeightSource& source, ThreadPool& pool, std::span<std::byte> packed) {
  const auto codes = part<std::uint8_t>(packed, m.codes, m.elements());
  const auto scales = part<float>(packed, m.scales, m.rows);
  const auto cols = static_cast<std::size_t>(m.cols);
  const auto encode = [&](std::size_t first, std::span<const double> values) {
    std::vector<std::byte> stored(values.size() * size_of(compute));
    store_as(values, compute, stored);
    const Shape shape{static_cast<std::int64_t>(values.size())};
    const auto rounded = load_as_double(ConstTensorView(stored.data(), compute, shape));
    for (std::size_t at = 0; at < rounded.size(); at += cols) {
      scales[(first + at) / cols] =
          form.encode(std::span(rounded).subspan(at, cols), codes.subspan(first + at, cols));
    }
  };
  const std::int64_t rows = std::max<std::int64_t>(kRun / m.cols, 1);
  for_each_run(block, m, rows * m.cols, source, pool, encode);
}

/// Rounds the elements of a matrix to 4 bits; returns the scales of its blocks.
std::vector<float> pack_elements(const Block& block, const PackedMatrix& m, const Nf4Values& nf4,
                                 const WeightSource& source, ThreadPool& pool,
                                 std::span<std::uint8_t> codes) {
  constexpr auto kInBlock = static_cast<std::size_t>(kNf4Block);
  std::vector<float> scales(static_cast<std::size_t>(m.elements()) / kInBlock);
  for_each_run(
      block, m, kRun, source, pool, [&](std::size_t first, std::span<const double> values) {
        std::array<float, kInBlock> numbers{};
        for (std::size_t at = 0; at < values.size(); at += kInBlock) {
          std::ranges::transform(values.subspan(at, kInBlock), numbers.begin(),
                                 [](double x) { return static_cast<float>(x); });
          scales[(first + at) / kInBlock] =
              quantize_nf4_block(nf4, numbers, codes.subspan((first + at) / 2, kInBlock / 2));
        }
      });
  return scales;
}

/// Rounds the scales of a matrix's blocks, and writes its tables.
void pack_scales(const std::vector<float>& scales, const Nf4Values& nf4, ThreadPool& pool,
                 const Nf4Parts& parts) {
  constexpr auto kInGroup = static_cast<std::size_t>(kNf4Group);
  const float offset = nf4_offset(scales);
  const auto count = static_cast<std::int64_t>(parts.groups.size());
  pool.parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto g = static_cast<std::size_t>(begin); g < static_cast<std::size_t>(end); ++g) {
      const std::size_t first = g * kInGroup;
      const std::size_t size = std::min(kInGroup, scales.size() - first);
      parts.groups[g] = quantize_nf4_scales(nf4, offset, std::span(scales).subspan(first, size),
                                            parts.scales.subspan(first, size));
    }
  });
  write_nf4_tables(nf4, offset, parts.tables);
}

/// Rounds a matrix to 4 bits, unless it is in them already.
void pack_nf4(const Block& block, const PackedMatrix& m, const WeightSource& source,
              ThreadPool& pool, std::span<std::byte> packed) {
  const Nf4Parts parts = parts_of(m, packed);
  if (const StoredNf4* const stored = stored_as_packed(block, m, source)) {
    stored->read_parts(parts);
    return;
  }
  const Nf4Values nf4 = nf4_values();
  pack_scales(pack_elements(block, m, nf4, source, pool, parts.codes), nf4, pool, parts);
}

}  // namespace

PackedBlock::PackedBlock(const Block& block, Form of_matrices, DType compute) : form(of_matrices) {
  Places places;
  for (const Segment& segment : block.segments) {
    std::int64_t begin = segment.offset;
    if (segment.initializer != Initializer::kNormal) {
      const std::int64_t n = segment.elements();
      segments.push_back({.begin = begin, .elements = n, .at = places.take(n, size_of(compute))});
      continue;
    }
    for (const SourceTensor& source : segment.sources) {
      matrices.push_back(take_matrix(form, begin, source.rows, segment.cols, places));
      begin += matrices.back().elements();
    }
  }
  bytes = places.end();
}

MatrixDecoder PackedBlock::decoder(const PackedMatrix& m, const std::byte* packed,
                                   const TensorView& y) const {
  const auto view = [&](std::size_t at, DType dtype, const Shape& shape) {
    return ConstTensorView(packed + at, dtype, shape);
  };
  if (const RowForm* const rows = row_form(form)) {
    const Shape shape{m.rows, m.cols};
    return DequantizeRows{.q = view(m.codes, rows->codes, shape),
                          .scale = view(m.scales, DType::kF32, {m.rows}),
                          .x = TensorView(y.data, y.dtype, shape)};
  }
  const std::int64_t n = m.elements();
  return DequantizeNf4{.codes = view(m.codes, DType::kU8, {n / 2}),
                       .scales = view(m.scales, DType::kU8, {n / kNf4Block}),
                       .groups = view(m.groups, DType::kF32, {groups_of(n)}),
                       .tables = view(m.tables, DType::kF32, {kNf4Tables}),
                       .y = y};
}

void pack_block(const Block& block, Form form, DType compute, const WeightSource& source,
                ThreadPool& pool, std::span<std::byte> packed) {
  const PackedBlock layout(block, form, compute);
  std::ranges::fill(packed, std::byte{0});
  const RowForm* const rows = row_form(form);
  for (const PackedMatrix& m : layout.matrices) {
    if (rows != nullptr) {
      pack_rows(block, m, *rows, compute, source, pool, packed);
    } else {
      pack_nf4(block, m, source, pool, packed);
    }
  }
  for (const UnpackedSegment& s : layout.segments) {
    std::vector<double> values;
    for (const SourceRun& run : source_runs(block, s.begin, s.begin + s.elements, s.elements)) {
      values.resize(static_cast<std::size_t>(run.count));
      source.read(run, values);
      const auto at = s.at + static_cast<std::size_t>(run.block_begin - s.begin) * size_of(compute);
      store_as(values, compute, packed.subspan(at));
    }
  }
}

WeightShape weight_shape(const Block& block, Form form, const StatePlan& plan) {
  if (form == Form::kPlain) return {plan.compute, block.shard_elements(plan.ranks)};
  const std::size_t all = PackedBlock(block, form, plan.compute).bytes;
  const auto ranks = static_cast<std::size_t>(plan.ranks);
  return {DType::kU8, static_cast<std::int64_t>(round_up((all + ranks - 1) / ranks, kAlignment))};
}

}  // namespace strata
