// Checks of rows and columns as e4m3, compared bit by bit with the definitions of strata/ops/fp8.h.

#include <algorithm>
#include <cmath>
#include <limits>

#include "op_checks/fp8_reference.h"
#include "op_checks/texts.h"
#include "strata/op_checks/checks.h"
#include "strata/op_checks/reference.h"

namespace strata {

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

Outputs check_quantize_fp8(OpRunner& runner, DType dtype, const RowsCase& c) {
  runner.reset(text_of(dtype, c));
  const std::vector<double> rows = rows_of_all_kinds(dtype, c.tokens, c.width, true);
  const std::vector<double> columns =
      transposed(rows_of_all_kinds(dtype, c.width, c.tokens, true), c.width, c.tokens);
  const Shape shape{c.tokens, c.width};
  const QuantizeFp8Rows by_rows{.x = runner.upload(rows, dtype, shape, c.width + c.gap),
                                .q = runner.output(DType::kE4M3, shape, c.width + 2 * c.gap),
                                .scale = runner.output(DType::kF32, {c.tokens})};
  const QuantizeFp8Columns by_columns{
      .x = runner.upload(columns, dtype, shape, c.width + c.gap),
      .q = runner.output(DType::kE4M3, {c.width, c.tokens}, c.tokens + 2 * c.gap),
      .scale = runner.output(DType::kF32, {c.width})};
  runner.run(by_rows);
  runner.run(by_columns);
  const Fp8Rows of_rows = quantized(rows, c.tokens);
  const Fp8Rows of_columns = quantized(transposed(columns, c.tokens, c.width), c.width);
  runner.require_equal("q of rows", by_rows.q, of_rows.q);
  runner.require_equal("scale of rows", by_rows.scale, of_rows.scales);
  runner.require_equal("q of columns", by_columns.q, of_columns.q);
  runner.require_equal("scale of columns", by_columns.scale, of_columns.scales);
  return runner.outputs();
}

Outputs check_transpose_fp8(OpRunner& runner, const RowsCase& c, bool with_nan) {
  const DType dtype = DType::kF32;
  runner.reset(text_of(dtype, c));
  Fp8Rows w = quantized(rows_of_all_kinds(dtype, c.tokens, c.width, false), c.tokens);
  if (with_nan && c.tokens > 0) w.scales.back() = kNan;
  const Shape shape{c.tokens, c.width};
  const TransposeFp8 op{.w = runner.upload(w.q, DType::kE4M3, shape, c.width + c.gap),
                        .scale = runner.upload(w.scales, DType::kF32, {c.tokens}),
                        .t = runner.output(DType::kE4M3, {c.width, c.tokens}, c.tokens + 2 * c.gap),
                        .t_scale = runner.output(DType::kF32, {c.width})};
  runner.run(op);
  double largest = 0x1p-126;
  for (const double scale : w.scales) {
    largest = std::isnan(scale) ? kNan : std::max(largest, scale);
  }
  std::vector<double> moved = w.values();
  for (double& value : moved) value = nearest_e4m3(value / largest);
  const std::vector<double> scales(static_cast<std::size_t>(c.width), largest);
  runner.require_equal("t", op.t, transposed(moved, c.tokens, c.width));
  runner.require_equal("t_scale", op.t_scale, scales);
  return runner.outputs();
}

}  // namespace strata
