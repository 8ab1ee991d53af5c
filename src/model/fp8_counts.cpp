// Numbers the rows of counts: layer by layer, in a layer linear by linear.

#include "strata/model/fp8_counts.h"

#include <cmath>
#include <cstddef>

#include "strata/ops/fp8.h"

namespace strata {

namespace {

constexpr std::size_t kRowsOfLayer = kLinears * kFp8Operands;

/// Returns the row of an operand among those of its layer.
std::size_t row_of(LinearId id, Fp8Operand operand) {
  return static_cast<std::size_t>(id) * kFp8Operands + static_cast<std::size_t>(operand);
}

/// Returns the larger one, or NaN if one is.
double larger(double a, double b) { return a > b || std::isnan(a) ? a : b; }

}  // namespace

std::int64_t fp8_count_rows(std::int64_t layers) {
  return layers * static_cast<std::int64_t>(kRowsOfLayer);
}

Fp8Counters Fp8Counters::of_layer(const TensorView& all, std::int64_t layer) {
  if (!all) return {};
  return {all.slice_rows(fp8_count_rows(layer), fp8_count_rows(1))};
}

TensorView Fp8Counters::of(LinearId id, Fp8Operand operand) const {
  const TensorView row = rows.slice_rows(static_cast<std::int64_t>(row_of(id, operand)), 1);
  return {row.data, row.dtype, Shape{CountFp8::kCounts}};
}

std::int64_t Fp8StepCounts::layers() const {
  return static_cast<std::int64_t>(counts.size() / (kRowsOfLayer * CountFp8::kCounts));
}

void Fp8StepCounts::add(std::span<const double> others) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const bool largest = i % CountFp8::kCounts == CountFp8::kLargest;
    counts[i] = largest ? larger(counts[i], others[i]) : counts[i] + others[i];
  }
}

std::optional<Fp8Loss> fp8_loss(const Fp8StepCounts& step, std::int64_t layer, LinearId id,
                                Fp8Operand operand) {
  const std::size_t row = static_cast<std::size_t>(layer) * kRowsOfLayer + row_of(id, operand);
  const auto counts = std::span(step.counts).subspan(row * CountFp8::kCounts, CountFp8::kCounts);
  const double numbers = counts[CountFp8::kNumbers];
  if (numbers == 0) return std::nullopt;
  Fp8Loss loss{.amax = counts[CountFp8::kLargest]};
  if (!std::isfinite(loss.amax)) return loss;  // codes of its row are NaN, zeros included
  loss.flushed = (numbers - counts[CountFp8::kCodes]) / numbers;
  loss.subnormal = counts[CountFp8::kSubnormal] / numbers;
  return loss;
}

}  // namespace strata
