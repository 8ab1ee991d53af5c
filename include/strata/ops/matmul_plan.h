// Which algorithm of a library computes which matrix product. At start-up a session has
// products measured, or reads plans that an earlier run measured, and hands them to the backend, so
// that ranks agree and later runs repeat. Shapes and plans are values; a plan is kept as one line
// of text.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/ops/matmul.h"

namespace strata {

/// A product without its data: what its speed depends on. Strides are elements between rows.
struct MatmulShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t stride_a = 0, stride_b = 0, stride_out = 0;
  MatmulLayout layout = MatmulLayout::kNT;
  MatmulUpdate update = MatmulUpdate::kOverwrite;
  DType in = DType::kBF16, out = DType::kBF16;
  bool bias = false;  ///< whether one is added
  auto operator<=>(const MatmulShape&) const = default;

  [[nodiscard]] double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  [[nodiscard]] std::int64_t rows_a() const { return layout == MatmulLayout::kTN ? k : m; }
  [[nodiscard]] std::int64_t rows_b() const { return layout == MatmulLayout::kNT ? n : k; }
};

/// Returns the shape of a product; its views need no data.
[[nodiscard]] MatmulShape shape_of(const Matmul& op);
[[nodiscard]] std::string_view name_of(MatmulLayout layout);
[[nodiscard]] std::string_view name_of(MatmulUpdate update);
/// Returns text such as "NT bf16 bf16 overwrite m 8192 n 12288 k 4096 strides 4096 4096 12288", and
/// " bias" after it if one is added.
[[nodiscard]] std::string to_string(const MatmulShape& shape);

/// The algorithm that a product runs with.
struct MatmulPlan {
  MatmulShape shape;
  std::string algorithm;   ///< one word that means something to the platform it was made for
  double measured_us = 0;  ///< time when it was chosen; 0 if not measured
};

/// Returns one line: the shape, "us" and the time, "algorithm" and its word, "check" and a hash of
/// the rest.
[[nodiscard]] std::string to_line(const MatmulPlan& plan);
/// Reads a line that to_line wrote. Throws IoError that quotes the line if it is another or was
/// changed.
[[nodiscard]] MatmulPlan parse_matmul_plan(std::string_view line);

/// Median seconds of one product by three algorithms, measured side by side; 0 if there was not
/// enough memory to measure.
struct MatmulComparison {
  double planned_s = 0;  ///< with the algorithm that launches use
  double first_s = 0;    ///< the library's first proposal whose results repeat
  double best_s = 0;     ///< the best of all its proposals, also those whose results vary
};

/// Chooses algorithms in a backend that has a choice; owned by its Kernels. A product without a
/// plan runs with the library's first proposal whose results repeat bit for bit. Called by the
/// submitting thread.
class MatmulTuner {
 public:
  virtual ~MatmulTuner() = default;

  /// Names the device and library that plans are made for; plans of another platform mean nothing
  /// here.
  [[nodiscard]] virtual std::string platform() const = 0;
  /// Returns a plan for each shape, in order: of the proposals whose results repeat, the fastest
  /// one measured. Blocks for about half a second a shape (seconds for slow ones) while nothing
  /// else may run on the device; takes up to `memory_bytes` of device memory and gives them back,
  /// but for the code of the kernels that it tried. Shapes too large for that get a plan that was
  /// not measured.
  [[nodiscard]] virtual std::vector<MatmulPlan> tune(std::span<const MatmulShape> shapes,
                                                     std::size_t memory_bytes) = 0;
  /// Makes later launches of this shape run with this algorithm. Throws BackendError that says why
  /// if they cannot, or if results would not repeat.
  virtual void use(const MatmulPlan& plan) = 0;
  /// Measures for benchmarks. It blocks and takes memory as tune does, and changes nothing.
  [[nodiscard]] virtual std::vector<MatmulComparison> compare(std::span<const MatmulShape> shapes,
                                                              std::size_t memory_bytes) = 0;
};

}  // namespace strata
