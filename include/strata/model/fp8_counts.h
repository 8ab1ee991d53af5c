// What rounding the operands of products to e4m3 loses in a step, as counts (CountFp8): a row for
// each operand of each linear of each layer, those of absent ones included. The model adds to the
// rows on the device, a store takes them to the host, and reports read them.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "strata/base/tensor.h"
#include "strata/model/spec.h"

namespace strata {

/// What is rounded for the products of a linear (docs/fp8.md).
enum class Fp8Operand : std::uint8_t {
  kX,            ///< for forward, a scale for each token
  kW,            ///< for forward, a scale for each row
  kWTransposed,  ///< for gradients of x, one scale
  kDy,           ///< for the same, a scale for each token
  kXColumns,     ///< for gradients of W, a scale for each column
  kDyColumns,    ///< for the same, likewise
};
inline constexpr EnumName<Fp8Operand> kFp8OperandNames[] = {
    {Fp8Operand::kX, "x"},
    {Fp8Operand::kW, "w"},
    {Fp8Operand::kWTransposed, "w_transposed"},
    {Fp8Operand::kDy, "dy"},
    {Fp8Operand::kXColumns, "x_columns"},
    {Fp8Operand::kDyColumns, "dy_columns"}};
inline constexpr std::size_t kFp8Operands = std::size(kFp8OperandNames);

/// Returns the rows of so many layers.
[[nodiscard]] std::int64_t fp8_count_rows(std::int64_t layers);

/// The rows of one layer, as the model adds to them; absent where nobody counts.
struct Fp8Counters {
  TensorView rows;  ///< [kLinears * kFp8Operands, CountFp8::kCounts] f64

  /// Returns those of a layer among all, which may be absent.
  static Fp8Counters of_layer(const TensorView& all, std::int64_t layer);
  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(rows); }
  /// Returns the row of an operand, [CountFp8::kCounts].
  [[nodiscard]] TensorView of(LinearId id, Fp8Operand operand) const;
};

/// The counts of a step, over its passes and sub-batches and over all ranks.
struct Fp8StepCounts {
  std::int64_t step = 0;       ///< counted from 0
  std::vector<double> counts;  ///< all rows, one after the other

  [[nodiscard]] std::int64_t layers() const;
  /// Adds those of another rank.
  void add(std::span<const double> others);
};

/// What rounding an operand has lost. Shares are of its numbers that are not zero.
struct Fp8Loss {
  double amax = 0;       ///< the largest magnitude that was rounded
  double flushed = 0;    ///< share that became zero
  double subnormal = 0;  ///< share whose codes have fewer significant bits than others
};
/// Returns that of an operand; nothing if it was not rounded, or is zero throughout. Shares are 0
/// where a number is not finite.
[[nodiscard]] std::optional<Fp8Loss> fp8_loss(const Fp8StepCounts& step, std::int64_t layer,
                                              LinearId id, Fp8Operand operand);

}  // namespace strata
