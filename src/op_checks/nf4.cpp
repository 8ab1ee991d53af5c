// The check of weights in 4 bits, compared bit by bit with the definition of strata/ops/nf4.h.

#include <cstddef>

#include "op_checks/texts.h"
#include "strata/op_checks/checks.h"
#include "strata/op_checks/reference.h"

namespace strata {

namespace {

/// Returns an f64 that is exact in f32, rounded to that.
double in_f32(double x) { return static_cast<double>(static_cast<float>(x)); }

/// Returns it as `dtype` has it.
double in(DType dtype, double x) {
  return dtype == DType::kBF16 ? double{Bf16(static_cast<float>(x))} : x;
}

}  // namespace

Outputs check_dequantize_nf4(OpRunner& runner, DType dtype, std::int64_t blocks) {
  runner.reset(fmt::format("{}, {} blocks", name_of(dtype), blocks));
  const std::int64_t n = 64 * blocks;
  const std::int64_t in_group = 256;
  const auto codes = random_integers(1, n / 2, 256);
  const auto scales = random_integers(2, blocks, 256);
  const auto groups = random_values(3, (blocks + in_group - 1) / in_group, DType::kF32);
  const auto tables = random_values(4, kNf4Tables, DType::kF32);
  const TensorView y = runner.output(dtype, Shape{n});
  runner.run(DequantizeNf4{
      .codes = runner.upload(codes, DType::kU8, Shape{n / 2}),
      .scales = runner.upload(scales, DType::kU8, Shape{blocks}),
      .groups = runner.upload(groups, DType::kF32, Shape{static_cast<std::int64_t>(groups.size())}),
      .tables = runner.upload(tables, DType::kF32, Shape{kNf4Tables}),
      .y = y});
  std::vector<double> expected;
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    const auto pair = static_cast<int>(codes[i / 2]);
    const int code = i % 2 == 0 ? pair / 16 : pair % 16;
    const std::size_t block = i / 64;
    const double value = tables[17 + static_cast<std::size_t>(scales[block])];
    const double scale = in_f32(in_f32(value * groups[block / 256]) + tables[0]);
    expected.push_back(in(dtype, in_f32(tables[1 + static_cast<std::size_t>(code)] * scale)));
  }
  runner.require_equal("y", y, expected);
  return runner.outputs();
}

}  // namespace strata
