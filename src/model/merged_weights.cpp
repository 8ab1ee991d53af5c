// Adds products of small matrices to slices of large ones, row by row.

#include "strata/model/merged_weights.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "strata/base/dtype.h"
#include "strata/model/layout.h"
#include "strata/model/peft_config.h"
#include "strata/model/weights_check.h"

namespace strata {
namespace {

/// Reads a whole matrix [rows, cols] as f32.
std::vector<float> read_matrix(const SafetensorsFile& file, const std::string& name,
                               std::int64_t rows, std::int64_t cols) {
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  file.read(name, 0, std::span(values));
  require_finite(name, 0, std::span<const float>(values));
  return values;
}

}  // namespace

MergedWeights::MergedWeights(SafetensorsDirectory weights) : weights_(std::move(weights)) {}

void MergedWeights::add(const AdapterFiles& files, const ModelSpec& spec) {
  const ModelLayout layout = make_layout(spec);
  require_adapters(files, layout);
  require_one_embedding(files, layout);
  for (const Block& block : layout.blocks) {
    if (!block.whole) continue;
    for (const Segment& segment : block.segments) {
      for (const SourceTensor& source : segment.sources) {
        whole_.try_emplace(source.name, file_with(files, peft_name(source.name)).path());
      }
    }
  }
  const auto read = [&](const std::string& name, std::int64_t rows, std::int64_t cols) {
    return read_matrix(file_with(files, name), name, rows, cols);
  };
  for (int layer = 0; layer < spec.layers(); ++layer) {
    for (const Linear& linear : spec.layer(layer).linears) {
      for (const Adapter& adapter : linear.adapters) {
        const SourceTensor& source = linear.sources.at(adapter.source);
        const std::string tensor = spec.layer_prefix + std::to_string(layer) + "." + source.name;
        products_[tensor] = {.a = read(peft_name(tensor, "lora_A"), adapter.rank, linear.in),
                             .b = read(peft_name(tensor, "lora_B"), source.rows, adapter.rank),
                             .rank = adapter.rank,
                             .cols = linear.in,
                             .scale = adapter.scale};
      }
    }
  }
}

template <class Sum>
void MergedWeights::Product::add_to(std::int64_t first, std::span<Sum> sums) const {
  for (std::int64_t done = 0; done < std::ssize(sums);) {
    const std::int64_t row = (first + done) / cols;
    const std::int64_t col = (first + done) % cols;
    const std::int64_t count = std::min(cols - col, std::ssize(sums) - done);
    Sum* const to = sums.data() + done;
    for (std::int64_t r = 0; r < rank; ++r) {
      const auto factor = static_cast<Sum>(
          scale * static_cast<double>(b[static_cast<std::size_t>(row * rank + r)]));
      const float* const from = a.data() + r * cols + col;
      for (std::int64_t j = 0; j < count; ++j) to[j] += factor * static_cast<Sum>(from[j]);
    }
    done += count;
  }
}

template <class T>
void MergedWeights::read(std::string_view name, std::int64_t first_element,
                         std::span<T> out) const {
  using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
  constexpr std::size_t kPiece = std::size_t{1} << 16;
  if (const auto whole = whole_.find(name); whole != whole_.end()) {
    return whole->second.read(peft_name(name), first_element, out);
  }
  const auto found = products_.find(name);
  if (found == products_.end()) return weights_.read(name, first_element, out);
  std::vector<Sum> sums;
  while (!out.empty()) {
    sums.resize(std::min(kPiece, out.size()));
    weights_.read(name, first_element, std::span(sums));
    found->second.add_to(first_element, std::span(sums));
    std::ranges::transform(sums, out.begin(), [](Sum value) { return T(value); });
    first_element += std::ssize(sums);
    out = out.subspan(sums.size());
  }
}

template void MergedWeights::read(std::string_view, std::int64_t, std::span<double>) const;
template void MergedWeights::read(std::string_view, std::int64_t, std::span<float>) const;
template void MergedWeights::read(std::string_view, std::int64_t, std::span<Bf16>) const;

}  // namespace strata
