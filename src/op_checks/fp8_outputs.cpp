// Checks of operators that write what they compute in e4m3 too: codes and scales are those of the
// rounded output, which has the bits that it has without them.

#include <cmath>

#include "op_checks/texts.h"
#include "strata/op_checks/checks.h"
#include "strata/op_checks/fp8_reference.h"
#include "strata/op_checks/reference.h"

namespace strata {

namespace {

/// Runs an operator that may write y8 beside y: first without, which is the reference, then with
/// it, and with y again or without. Both must have the bits of the reference.
template <class O>
Outputs check_fp8_output(OpRunner& runner, O op, DType dtype, const Shape& shape, std::int64_t gap,
                         bool with_y) {
  const std::int64_t stride = shape[1] + gap;
  op.y = runner.output(dtype, shape, stride);
  runner.run(op);
  const std::vector<double> y = runner.download(op.y);
  op.y = with_y ? runner.output(dtype, shape, stride) : TensorView{};
  op.y8 = runner.output(DType::kE4M3, shape, shape[1] + 2 * gap);
  op.y_scale = runner.output(DType::kF32, {shape[0]});
  runner.run(op);
  const Fp8Rows expected = quantized(y, shape[0]);
  runner.require_equal("y8", op.y8, expected.q);
  runner.require_equal("y_scale", op.y_scale, expected.scales);
  if (with_y) runner.require_equal("y", op.y, y);
  return runner.outputs();
}

}  // namespace

Outputs check_rmsnorm_fp8(OpRunner& runner, DType dtype, const RowsCase& c, bool with_y) {
  runner.reset(text_of(dtype, c));
  const Shape shape{c.tokens, c.width};
  const auto x = rows_of_all_kinds(dtype, c.tokens, c.width, true);
  RmsNormForward op;
  op.x = runner.upload(x, dtype, shape, c.width + c.gap);
  op.weight = runner.upload(random_values(4, c.width, dtype), dtype, {c.width});
  if (with_y) {
    const auto added = random_values(5, shape.elements(), dtype);
    op.residual = runner.upload(added, dtype, shape, c.width + c.gap);
    op.sum = runner.output(dtype, shape, c.width + c.gap);
  }
  op.rstd = runner.output(accumulator_of(dtype), {c.tokens});
  return check_fp8_output(runner, op, dtype, shape, c.gap, with_y);
}

Outputs check_swiglu_fp8(OpRunner& runner, DType dtype, const RowsCase& c, bool with_y) {
  runner.reset(text_of(dtype, c));
  const Shape wide{c.tokens, 2 * c.width};
  const auto gate_up = rows_of_all_kinds(dtype, c.tokens, 2 * c.width, true);
  const SwigluForward op{.gate_up = runner.upload(gate_up, dtype, wide, wide[1] + c.gap), .y = {}};
  return check_fp8_output(runner, op, dtype, {c.tokens, c.width}, c.gap, with_y);
}

namespace {

/// Requires that `codes` and `scales` are what `rows` is as e4m3.
Outputs require_fp8_of(OpRunner& runner, const TensorView& rows, const TensorView& codes,
                       const TensorView& scales) {
  const Fp8Rows expected = quantized(runner.download(rows), rows.shape[0]);
  runner.require_equal("codes", codes, expected.q);
  runner.require_equal("scales", scales, expected.scales);
  return runner.outputs();
}

}  // namespace

Outputs check_rmsnorm_backward_fp8(OpRunner& runner, DType dtype, const RowsCase& c,
                                   bool residual) {
  runner.reset(text_of(dtype, c));
  const Shape shape{c.tokens, c.width};
  const DType sums = accumulator_of(dtype);
  const auto in = [&](const std::vector<double>& values) {
    return runner.upload(values, dtype, shape, c.width + c.gap);
  };
  std::vector<double> rstd = random_values(6, c.tokens, sums);
  for (double& r : rstd) r = std::abs(r);
  RmsNormBackward op;
  op.dy = in(rows_of_all_kinds(dtype, c.tokens, c.width, true));
  op.x = in(random_values(4, shape.elements(), dtype));
  op.weight = runner.upload(random_values(5, c.width, dtype), dtype, {c.width});
  op.rstd = runner.upload(rstd, sums, {c.tokens});
  if (residual) op.d_residual = in(random_values(7, shape.elements(), dtype));
  op.d_weight = runner.upload(random_values(8, c.width, sums), sums, {c.width});
  op.workspace = runner.output(sums, {RmsNormBackward::kWorkspaceRows, c.width});
  op.dx = runner.output(dtype, shape, c.width + c.gap);
  runner.run(op);
  const std::vector<double> without = runner.download(op.dx);
  op.dx = runner.output(dtype, shape, c.width + c.gap);
  op.dx8 = runner.output(DType::kE4M3, shape, c.width + 2 * c.gap);
  op.dx_scale = runner.output(DType::kF32, {c.tokens});
  runner.run(op);
  runner.require_equal("dx", op.dx, without);
  return require_fp8_of(runner, op.dx, op.dx8, op.dx_scale);
}

Outputs check_swiglu_backward_fp8(OpRunner& runner, DType dtype, const RowsCase& c) {
  runner.reset(text_of(dtype, c));
  const Shape shape{c.tokens, c.width};
  const Shape wide{c.tokens, 2 * c.width};
  SwigluBackward op;
  op.d_y = runner.upload(random_values(4, shape.elements(), dtype), dtype, shape, c.width + c.gap);
  op.gate_up = runner.upload(rows_of_all_kinds(dtype, c.tokens, wide[1], true), dtype, wide,
                             wide[1] + c.gap);
  op.d_gate_up = runner.output(dtype, wide, wide[1] + c.gap);
  op.y = runner.output(dtype, shape, c.width + c.gap);
  runner.run(op);
  const Outputs without{runner.download(op.d_gate_up), runner.download(op.y)};
  op.y = runner.output(dtype, shape, c.width + c.gap);
  op.d_gate_up = c.in_place ? TensorView(const_cast<void*>(op.gate_up.data), dtype, wide,
                                         op.gate_up.row_stride)
                            : runner.output(dtype, wide, wide[1] + c.gap);
  op.d_gate_up8 = runner.output(DType::kE4M3, wide, wide[1] + 2 * c.gap);
  op.d_gate_up_scale = runner.output(DType::kF32, {c.tokens});
  runner.run(op);
  runner.require_equal("d_gate_up", op.d_gate_up, without[0]);
  runner.require_equal("y", op.y, without[1]);
  return require_fp8_of(runner, op.d_gate_up, op.d_gate_up8, op.d_gate_up_scale);
}

}  // namespace strata
