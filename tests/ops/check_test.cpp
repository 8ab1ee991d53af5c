// Tests that operators refuse tensors that do not fit, by name, and indices that point nowhere.

#include <array>

#include "kernels/cpu/operators.h"
#include "support/catch.h"

namespace strata::test {
namespace {

/// Views that look real, each place with an address of its own; nothing is read behind them.
TensorView view(DType dtype, const Shape& shape, std::size_t place = 0) {
  static std::array<std::byte, 4> somewhere;
  return {&somewhere.at(place), dtype, shape};
}

constexpr DType kBF16 = DType::kBF16;
constexpr DType kF32 = DType::kF32;
constexpr DType kI32 = DType::kI32;
constexpr DType kE4M3 = DType::kE4M3;

RmsNormForward norm() {
  RmsNormForward op;
  op.x = view(kBF16, {4, 8});
  op.weight = view(kBF16, {8});
  op.y = view(kBF16, {4, 8});
  op.rstd = view(kF32, {4});
  return op;
}

AttentionForward attention() {
  AttentionForward op;
  op.q = view(kBF16, {6, 4, 8});
  op.k = view(kBF16, {5, 2, 8});
  op.v = op.k;
  op.segments.table = view(kI32, {1, 5});
  op.o = view(kBF16, {6, 4, 8});
  op.lse = view(kF32, {4, 6});
  return op;
}

AdamW adamw() {
  static const AdamWScalars scalars;
  return {.weight = view(kBF16, {9}),
          .low = view(DType::kI16, {9}),
          .m = view(kF32, {9}),
          .v = view(kF32, {9}),
          .grad = view(kBF16, {9}),
          .scalars = &scalars,
          .nonfinite = view(kI32, {1})};
}

#define REQUIRE_REFUSED(op, text) REQUIRE_THROWS_WITH((op).check(), ContainsSubstring(text))

TEST_CASE("operators that fit pass their checks", "[ops]") {
  REQUIRE_NOTHROW(norm().check());
  REQUIRE_NOTHROW(attention().check());
  REQUIRE_NOTHROW(adamw().check());
}

TEST_CASE("a missing tensor is named", "[ops]") {
  RmsNormForward op = norm();
  op.weight = {};
  REQUIRE_REFUSED(op, "rmsnorm_forward: weight is missing");
}

TEST_CASE("a wrong shape is named with what was expected", "[ops]") {
  RmsNormForward op = norm();
  op.weight = view(kBF16, {9});
  REQUIRE_REFUSED(op, "rmsnorm_forward: weight must have shape [8], but has [9]");
  op = norm();
  op.x = view(kBF16, {32});
  REQUIRE_REFUSED(op, "x must have 2 dimensions");
}

TEST_CASE("a wrong dtype is named with what was expected", "[ops]") {
  RmsNormForward op = norm();
  op.rstd = view(kBF16, {4});
  REQUIRE_REFUSED(op, "rstd must be f32, but is bf16");
  op = norm();
  op.x = view(kI32, {4, 8});
  REQUIRE_REFUSED(op, "x must be f64 or f32 or bf16, but is i32");
}

TEST_CASE("rows that overlap or must be contiguous are refused", "[ops]") {
  RmsNormForward op = norm();
  op.y.row_stride = 7;
  REQUIRE_REFUSED(op, "y has rows of 8 elements but a row stride of 7");
  AdamW update = adamw();
  update.m.row_stride = 2;
  REQUIRE_REFUSED(update, "m must be contiguous");
}

TEST_CASE("codes of moments have scales, begin a block and belong to f32", "[ops]") {
  AdamW op = adamw();
  op.scale = view(DType::kU8, {1, 2});
  REQUIRE_REFUSED(op, "adamw: scale must be absent: only codes have scales");
  op.m = op.v = view(DType::kU8, {9});
  REQUIRE_NOTHROW(op.check());
  op.rounding_begin = 65;
  REQUIRE_REFUSED(op, "rounding_begin must begin a block of codes");
  op.rounding_begin = 64;
  op.scale = view(DType::kU8, {2, 2});
  REQUIRE_REFUSED(op, "scale must have shape [1, 2], but has [2, 2]");
  op.scale = {};
  REQUIRE_REFUSED(op, "scale is missing");
  op.weight = view(DType::kF64, {9});
  op.low = {};
  REQUIRE_REFUSED(op, "m must be f64, but is u8");
}

TEST_CASE("a smooth cap is above 0, and its tensors are alike", "[ops]") {
  SoftCapForward op{.x = view(kBF16, {4, 8}), .y = view(kBF16, {4, 8})};
  REQUIRE_REFUSED(op, "soft_cap_forward: cap must be above 0");
  op.cap = 30;
  op.y = view(kBF16, {4, 7});
  REQUIRE_REFUSED(op, "soft_cap_forward: y must have shape [4, 8], but has [4, 7]");
  const SoftCapBackward backward{
      .dy = view(kBF16, {4, 8}), .y = view(kF32, {4, 8}), .dx = view(kBF16, {4, 8}), .cap = 30};
  REQUIRE_REFUSED(backward, "soft_cap_backward: y must be bf16, but is f32");
}

TEST_CASE("dropout drops less than all, of tensors that are alike", "[ops]") {
  Dropout op{.x = view(kBF16, {4, 8}), .y = view(kBF16, {4, 8}), .mask = {.rate = 1}};
  REQUIRE_REFUSED(op, "dropout: mask.rate must be from 0 to below 1");
  op.mask = {.rate = 0.5, .first = -1};
  REQUIRE_REFUSED(op, "dropout: mask.first must not be negative");
  op.mask.first = 0;
  op.added = view(kBF16, {4, 7});
  REQUIRE_REFUSED(op, "dropout: added must have shape [4, 8], but has [4, 7]");
}

TEST_CASE("a bias and its gradient have the width of the rows", "[ops]") {
  BiasAdd sum{.x = view(kBF16, {4, 8}), .bias = view(kBF16, {7}), .y = view(kBF16, {4, 8})};
  REQUIRE_REFUSED(sum, "bias_add: bias must have shape [8], but has [7]");
  BiasBackward gradient{.dy = view(kBF16, {4, 8}),
                        .d_bias = view(kBF16, {8}),
                        .workspace = view(kF32, {BiasBackward::kWorkspaceRows, 8})};
  REQUIRE_REFUSED(gradient, "bias_backward: d_bias must be f32, but is bf16");
  gradient.d_bias = view(kF32, {8});
  REQUIRE_NOTHROW(gradient.check());
  gradient.workspace = view(kF32, {4, 8});
  REQUIRE_REFUSED(gradient, "workspace must have shape [64, 8]");
}

TEST_CASE("norms of heads have one weight for all heads", "[ops]") {
  HeadNormForward op{.x = view(kBF16, {4, 3, 8}),
                     .weight = view(kBF16, {24}),
                     .y = view(kBF16, {4, 3, 8}),
                     .rstd = {}};
  REQUIRE_REFUSED(op, "head_norm_forward: weight must have shape [8], but has [24]");
  op.weight = view(kBF16, {8});
  REQUIRE_NOTHROW(op.check());
  op.rstd = view(kF32, {4});
  REQUIRE_REFUSED(op, "rstd must have");
  op.rstd = {};
  op.rotation = {view(kI32, {4}), view(kF32, {16, 4}), view(kF32, {16, 4})};
  REQUIRE_NOTHROW(op.check());
  op.rotation.cos = view(kF32, {16, 3});
  REQUIRE_REFUSED(op, "head_norm_forward: rotation.cos must have shape [16, 4]");
  op.rotation = {{}, view(kF32, {16, 4}), view(kF32, {16, 4})};
  REQUIRE_REFUSED(op, "rotation.positions is missing");
  HeadNormForward odd{.x = view(kBF16, {4, 3, 7}),
                      .weight = view(kBF16, {7}),
                      .y = view(kBF16, {4, 3, 7}),
                      .rstd = {},
                      .rotation = {view(kI32, {4}), view(kF32, {16, 3}), view(kF32, {16, 3})}};
  REQUIRE_REFUSED(odd, "x must have an even head dim to be turned");
  HeadNormBackward backward{.dy = op.x,
                            .x = op.x,
                            .weight = op.weight,
                            .rstd = {},
                            .dx = op.y,
                            .d_weight = view(kF32, {8}),
                            .workspace = view(kF32, {HeadNormBackward::kWorkspaceRows, 8})};
  REQUIRE_REFUSED(backward, "head_norm_backward: rstd is missing");
  backward.rstd = view(kF32, {4, 3});
  REQUIRE_NOTHROW(backward.check());
}

TEST_CASE("optional tensors come together or not at all", "[ops]") {
  RmsNormForward op = norm();
  op.residual = view(kBF16, {4, 8});
  REQUIRE_REFUSED(op, "sum is missing");
  op = norm();
  op.sum = view(kBF16, {4, 8});
  REQUIRE_REFUSED(op, "sum must be absent without a residual");
  AdamW update = adamw();
  update.weight = view(kF32, {9});
  REQUIRE_REFUSED(update, "low must be absent");
  update = adamw();
  update.low = {};
  REQUIRE_NOTHROW(update.check());  // the weight is rounded
}

TEST_CASE("attention refuses heads and rows that do not divide", "[ops]") {
  AttentionForward op = attention();
  op.k = op.v = view(kBF16, {5, 3, 8});
  REQUIRE_REFUSED(op, "k has 3 heads, which do not divide the 4 heads of q");
  op = attention();
  op.segments.uniform_length = 3;
  REQUIRE_REFUSED(op, "segments promise uniform rows of 3");
  op = attention();
  op.segments.table = {};
  REQUIRE_REFUSED(op, "segments.table is missing");
  op = attention();
  op.window = -1;
  REQUIRE_REFUSED(op, "window must be 0");
  op = attention();
  op.score_cap = -2;
  REQUIRE_REFUSED(op, "score_cap must be 0");
}

TEST_CASE("attention refuses a rotation that does not fit its rows", "[ops]") {
  AttentionBackward op;
  op.q = op.k = op.v = op.o = op.d_o = view(kBF16, {6, 2, 8});
  op.dq = op.dk = op.dv = view(kBF16, {6, 2, 8});
  op.lse = view(kF32, {2, 6});
  op.delta = view(kF32, {2, 6});
  op.segments.uniform_length = 3;
  REQUIRE_NOTHROW(op.check());
  op.rotation = {view(kI32, {6}), view(kF32, {16, 4}), view(kF32, {16, 4})};
  REQUIRE_NOTHROW(op.check());
  op.rotation.sin = {};
  REQUIRE_REFUSED(op, "rotation.sin is missing");
  op.rotation.sin = view(kF32, {15, 4});
  REQUIRE_REFUSED(op, "rotation.sin");
  op.rotation.positions = view(kI32, {5});
  REQUIRE_REFUSED(op, "rotation.positions");
}

TEST_CASE("each operator refuses what only it forbids", "[ops]") {
  Rope rope{.x = view(kBF16, {4, 2, 7}),
            .positions = view(kI32, {4}),
            .cos = view(kF32, {16, 3}),
            .sin = view(kF32, {16, 3})};
  REQUIRE_REFUSED(rope, "even head dim");
  rope.x = view(kBF16, {4, 2, 4});
  REQUIRE_REFUSED(rope, "rope: cos must have at most half as many pairs as x");
  const QuantizeRows quantize{
      .x = view(kBF16, {4, 8}), .q = view(DType::kI8, {4, 8}), .scale = view(kBF16, {4})};
  REQUIRE_REFUSED(quantize, "quantize_rows: scale must be f32");
  const DequantizeRows dequantize{
      .q = view(DType::kU8, {4, 8}), .scale = view(kF32, {4}), .x = view(kBF16, {4, 8})};
  REQUIRE_REFUSED(dequantize, "dequantize_rows: q must be i8 or e4m3, but is u8");
  const QuantizeFp8Rows codes{
      .x = view(kBF16, {4, 8}), .q = view(DType::kU8, {4, 8}), .scale = view(kF32, {4})};
  REQUIRE_REFUSED(codes, "quantize_fp8_rows: q must be e4m3, but is u8");
  const QuantizeFp8Columns columns{
      .x = view(kBF16, {4, 8}), .q = view(kE4M3, {4, 8}), .scale = view(kF32, {8})};
  REQUIRE_REFUSED(columns, "quantize_fp8_columns: q must have shape [8, 4]");
  const TransposeFp8 turned{.w = view(kE4M3, {4, 8}),
                            .scale = view(kF32, {4}),
                            .t = view(kE4M3, {8, 4}),
                            .t_scale = view(kF32, {4})};
  REQUIRE_REFUSED(turned, "transpose_fp8: t_scale must have shape [8]");
  const CountFp8 counted{
      .x = view(kBF16, {4, 8}), .q = view(kE4M3, {8, 5}), .counts = view(DType::kF64, {4})};
  REQUIRE_REFUSED(counted, "count_fp8: q must have shape [8, 4]");
  const AppendKv append{.k = view(kBF16, {3, 2, 4}),
                        .v = view(kBF16, {3, 2, 4}),
                        .rows = view(kI32, {3}),
                        .cache_k = view(kBF16, {9, 2, 5}),
                        .cache_v = view(kBF16, {9, 2, 5})};
  REQUIRE_REFUSED(append, "append_kv: cache_k must have shape [9, 2, 4]");
  const TensorView keys = view(kBF16, {3, 2, 4});
  const FusedAppend fused_append{.rope = {.x = view(kBF16, {3, 3, 4}),
                                          .positions = view(kI32, {3}),
                                          .cos = view(kF32, {9, 2}),
                                          .sin = view(kF32, {9, 2})},
                                 .append = {.k = keys,
                                            .v = keys,
                                            .rows = view(kI32, {3}),
                                            .cache_k = view(kBF16, {9, 2, 4}),
                                            .cache_v = view(kBF16, {9, 2, 4})}};
  REQUIRE_REFUSED(fused_append, "fused_append: k must be the last heads of what is turned");
  FusedAttend fused_attend{.added = fused_append,
                           .segments = view(kI32, {2, 5}),
                           .o = view(kBF16, {3, 1, 4}),
                           .lse = view(kF32, {1, 3})};
  fused_attend.added.append.k = ConstTensorView(
      static_cast<const std::byte*>(fused_append.rope.x.data) + 8, kBF16, Shape{3, 2, 4}, 12);
  REQUIRE_REFUSED(fused_attend, "attention_forward: k has 2 heads");
  FusedAppend apart = fused_append;
  apart.rope.pairs = RopePairs::kNeighbours;
  REQUIRE_REFUSED(apart, "fused_append: x must be turned as a whole, in halves");
  fused_attend.added.rope.x.shape = Shape{3, 4, 4};
  fused_attend.added.rope.x.row_stride = 16;
  fused_attend.added.append.k = ConstTensorView(
      static_cast<const std::byte*>(fused_append.rope.x.data) + 16, kBF16, Shape{3, 2, 4}, 16);
  fused_attend.o = view(kBF16, {3, 2, 4});
  fused_attend.lse = view(kF32, {2, 3});
  REQUIRE_REFUSED(fused_attend, "fused_attend: segments must be one for each token");
  const ConstInt8Kv kept{.k = view(DType::kI8, {9, 2, 4}),
                         .v = view(DType::kI8, {9, 2, 4}),
                         .k_scale = view(kF32, {9, 2}),
                         .v_scale = view(kF32, {9, 1})};
  REQUIRE_REFUSED((DequantizeKv{.cache = kept,
                                .segments = view(kI32, {1, 5}),
                                .k = view(kBF16, {9, 2, 4}),
                                .v = view(kBF16, {9, 2, 4})}),
                  "dequantize_kv: cache.v_scale must have shape [9, 2]");
  REQUIRE_REFUSED((AppendInt8Kv{.k = view(kBF16, {3, 2, 5}),
                                .v = view(kBF16, {3, 2, 5}),
                                .rows = view(kI32, {3}),
                                .cache = {.k = view(DType::kI8, {9, 2, 4}),
                                          .v = view(DType::kI8, {9, 2, 4}),
                                          .k_scale = view(kF32, {9, 2}),
                                          .v_scale = view(kF32, {9, 2})}}),
                  "append_int8_kv: cache.k must have shape [9, 2, 5]");
  AttendInt8Kv attend{.q = view(kBF16, {3, 3, 4}),
                      .cache = kept,
                      .segments = view(kI32, {3, 5}),
                      .o = view(kBF16, {3, 3, 4})};
  attend.cache.v_scale = kept.k_scale;
  REQUIRE_REFUSED(attend, "attend_int8_kv: cache.k has heads that do not divide those of q");
  attend.q = attend.o = TensorView(attend.o.data, kBF16, {3, 4, 4});
  REQUIRE_NOTHROW(attend.check());
  attend.segments = view(kI32, {2, 5});
  REQUIRE_REFUSED(attend, "attend_int8_kv: segments must have shape [3, 5]");
  const SampleTokens sample{.logits = view(kBF16, {3, 7}),
                            .rows = view(DType::kU8, {3, 8}),
                            .seen = {},
                            .token = view(kI32, {3}),
                            .logprob = view(kF32, {3})};
  REQUIRE_REFUSED(sample, "sample_tokens: rows must have shape");
  const TensorView row = view(kBF16, {4});
  Cast cast{.x = row, .y = TensorView(row.data, kF32, {4})};
  REQUIRE_REFUSED(cast, "y must not be x itself");
  Matmul matmul{.a = view(kBF16, {3, 4}),
                .b = view(kBF16, {5, 4}),
                .out = view(DType::kI16, {3, 5}),
                .update = MatmulUpdate::kAccumulate};
  REQUIRE_REFUSED(matmul, "matmul: out must be bf16 or f32");
  matmul.layout = MatmulLayout::kNN;
  REQUIRE_REFUSED(matmul, "b must have shape [4, 5]");
  matmul = {
      .a = view(kF32, {3, 4}), .b = view(kF32, {5, 4}), .out = view(kF32, {3, 5}), .alpha = 0};
  REQUIRE_REFUSED(matmul, "alpha must be finite and not 0");
  matmul.alpha = 1;
  matmul.bias = view(kF32, {3});
  REQUIRE_REFUSED(matmul, "matmul: bias must have shape [5], but has [3]");
  matmul.bias = view(kF32, {5});
  REQUIRE_NOTHROW(matmul.check());
  matmul.batch_invariant = true;
  REQUIRE_REFUSED(matmul, "bias is not added by batch-invariant products");
  matmul.batch_invariant = false;
  matmul.update = MatmulUpdate::kAccumulate;
  REQUIRE_REFUSED(matmul, "bias is added only in layout NT, overwritten");
  const TensorView read = view(kBF16, {3, 4});
  const TensorView out = view(kBF16, {3, 6}, 1);
  FusedLinear fused{.product = {.a = read, .b = view(kBF16, {6, 4}), .out = out},
                    .gate = {.gate_up = view(kBF16, {3, 6}), .y = view(kBF16, {3, 3}, 3)}};
  REQUIRE_REFUSED(fused, "fused_linear: product must be batch-invariant");
  fused.product.batch_invariant = true;
  REQUIRE_REFUSED(fused, "gate.gate_up must be what the product writes");
  fused.gate.gate_up = out;
  REQUIRE_NOTHROW(fused.check());
  fused.residual = {.a = view(kBF16, {3, 6}, 2), .b = out, .y = out};
  REQUIRE_REFUSED(fused, "residual must be absent with a gate");
  fused.gate = {};
  REQUIRE_NOTHROW(fused.check());
  fused.residual.y = view(kBF16, {3, 6}, 2);
  REQUIRE_REFUSED(fused, "residual must add to what the product writes");
  fused.residual = {};
  fused.norm.x = view(kBF16, {3, 4}, 1);
  fused.norm.weight = view(kBF16, {4});
  fused.norm.y = view(kBF16, {3, 4}, 2);
  fused.norm.rstd = view(kF32, {3});
  REQUIRE_REFUSED(fused, "norm.y must be what the product reads");
  fused.norm.y = read;
  REQUIRE_REFUSED(fused, "out must be apart from what is read");
  fused.norm.x = view(kBF16, {3, 4}, 2);
  REQUIRE_NOTHROW(fused.check());
  fused.norm.residual = read;
  fused.norm.sum = view(kBF16, {3, 4}, 2);
  REQUIRE_REFUSED(fused, "norm.sum must be apart from what is read");
  CrossEntropy loss{.logits = view(kBF16, {2, 3}),
                    .targets = view(kI32, {2}),
                    .grad_scale = {},
                    .loss = view(kF32, {2}),
                    .lse = view(kF32, {2}),
                    .d_logits = view(kBF16, {2, 3})};
  REQUIRE_REFUSED(loss, "grad_scale is missing");
  SquaredNorm squares{.x = view(kF32, {4097}), .partial = view(DType::kF64, {1})};
  REQUIRE_REFUSED(squares, "partial must have shape [2]");
  CastSquaredNorm measured{
      .x = view(kBF16, {4097}), .y = view(kBF16, {4097}), .partial = view(DType::kF64, {2})};
  REQUIRE_REFUSED(measured, "x must be");
  measured.x = view(kF32, {4097});
  REQUIRE_REFUSED(measured, "y must not be x itself");
  measured.y = view(kF32, {4097});
  measured.partial = view(DType::kF64, {1});
  REQUIRE_REFUSED(measured, "partial must have shape [2]");
  AdamW update = adamw();
  update.scalars = nullptr;
  REQUIRE_REFUSED(update, "scalars are missing");
}

TEST_CASE("an output in e4m3 needs its scales, and may stand alone", "[ops]") {
  RmsNormForward op = norm();
  op.y_scale = view(kF32, {4});
  REQUIRE_REFUSED(op, "rmsnorm_forward: y_scale must be absent without y8");
  op.y8 = view(DType::kU8, {4, 8});
  REQUIRE_REFUSED(op, "rmsnorm_forward: y8 must be e4m3, but is u8");
  op.y8 = view(kE4M3, {4, 8});
  op.y = {};
  REQUIRE_NOTHROW(op.check());
  op.y8 = {};
  REQUIRE_REFUSED(op, "rmsnorm_forward: y is missing");
  SwigluForward gate{.gate_up = view(kBF16, {4, 16}), .y = {}};
  REQUIRE_REFUSED(gate, "swiglu_forward: y is missing");
  gate.y8 = view(kE4M3, {4, 8});
  REQUIRE_REFUSED(gate, "swiglu_forward: y_scale is missing");
}

TEST_CASE("a product in e4m3 needs both scales, and no other has them", "[ops]") {
  Matmul op{.a = view(kBF16, {3, 4}), .b = view(kBF16, {5, 4}), .out = view(kBF16, {3, 5})};
  op.b_scale = view(kF32, {5});
  REQUIRE_REFUSED(op, "matmul: b_scale must be absent unless operands are in e4m3");
  op.a = view(kE4M3, {3, 4});
  REQUIRE_REFUSED(op, "matmul: b must be e4m3, but is bf16");
  op.b = view(kE4M3, {5, 4});
  REQUIRE_REFUSED(op, "matmul: a_scale is missing");
  op.a_scale = view(kF32, {4});
  REQUIRE_REFUSED(op, "matmul: a_scale must have shape [3]");
  op.a_scale = view(kF32, {3});
  REQUIRE_NOTHROW(op.check());
  op.out = view(kE4M3, {3, 5});
  REQUIRE_REFUSED(op, "matmul: out must be f64 or f32 or bf16, but is e4m3");
  op.out = view(kBF16, {3, 5});
  op.update = MatmulUpdate::kAccumulate;
  REQUIRE_REFUSED(op, "matmul: out must be f32, but is bf16");
  op.update = MatmulUpdate::kOverwrite;
  op.batch_invariant = true;
  REQUIRE_REFUSED(op, "matmul: out is not batch-invariant for operands in e4m3");
  op.batch_invariant = false;
  op.layout = MatmulLayout::kNN;
  op.b = view(kE4M3, {4, 5});
  REQUIRE_REFUSED(op, "matmul: a in e4m3 must be multiplied in layout NT");
}

TEST_CASE("an index that points nowhere is named when the operator runs", "[ops]") {
  ThreadPool pool(1);
  const cpu::Context context{pool, cpu::kPortable};
  std::vector<float> numbers(64);
  std::vector<std::int32_t> ids{0, 3, 1};
  const auto f32 = [&](const Shape& shape) { return TensorView(numbers.data(), kF32, shape); };
  const TensorView indices(ids.data(), kI32, {3});
  const EmbeddingForward gather{.ids = indices, .table = f32({3, 2}), .y = f32({3, 2})};
  REQUIRE_THROWS_WITH(cpu::execute(context, gather),
                      ContainsSubstring("embedding_forward: ids[1] is 3, outside of [0, 3)"));
  const AppendKv append{.k = f32({3, 1, 2}),
                        .v = f32({3, 1, 2}),
                        .rows = indices,
                        .cache_k = f32({3, 1, 2}),
                        .cache_v = f32({3, 1, 2})};
  REQUIRE_THROWS_WITH(cpu::execute(context, append), ContainsSubstring("rows[1] is 3"));
  std::vector<SamplingRow> sampling(1);
  sampling[0].seen_count = 3;
  sampling[0].repeat_penalty = 2;
  const SampleTokens sample{.logits = f32({1, 3}),
                            .rows = TensorView(sampling.data(), DType::kU8,
                                               {1, static_cast<std::int64_t>(sizeof(SamplingRow))}),
                            .seen = indices,
                            .token = TensorView(ids.data(), kI32, {1}),
                            .logprob = f32({1})};
  REQUIRE_THROWS_WITH(cpu::execute(context, sample), ContainsSubstring("seen[1] is 3"));
  sampling[0].seen_begin = 2;
  REQUIRE_THROWS_WITH(cpu::execute(context, sample), ContainsSubstring("rows[0] is 4"));
  const CrossEntropy loss{.logits = f32({3, 3}),
                          .targets = indices,
                          .grad_scale = {},
                          .loss = f32({3}),
                          .lse = f32({3}),
                          .d_logits = {}};
  REQUIRE_THROWS_WITH(cpu::execute(context, loss), ContainsSubstring("targets[1] is 3"));
  std::vector<std::int32_t> segment{0, 0, 4, 4, 0};
  AttentionForward op{.q = f32({3, 1, 2}),
                      .k = f32({3, 1, 2}),
                      .v = f32({3, 1, 2}),
                      .segments = {},
                      .o = f32({3, 1, 2}),
                      .lse = f32({1, 3})};
  op.segments.table = TensorView(segment.data(), kI32, {1, 5});
  REQUIRE_THROWS_WITH(cpu::execute(context, op), ContainsSubstring("segment 0 leaves q of 3"));
  std::vector<std::int8_t> levels(64);
  const TensorView level_view(levels.data(), DType::kI8, {3, 1, 2});
  const Int8Kv cache{
      .k = level_view, .v = level_view, .k_scale = f32({3, 1}), .v_scale = f32({3, 1})};
  REQUIRE_THROWS_WITH(
      cpu::execute(context,
                   AppendInt8Kv{.k = append.k, .v = append.v, .rows = indices, .cache = cache}),
      ContainsSubstring("rows[1] is 3"));
  std::vector<std::int32_t> two{0, 0, 1, 2, 0, 1, 0, 2, 3, 0};
  AttendInt8Kv attend{.q = f32({2, 1, 2}),
                      .cache = cache,
                      .segments = TensorView(two.data(), kI32, {2, 5}),
                      .o = f32({2, 1, 2})};
  REQUIRE_THROWS_WITH(cpu::execute(context, attend),
                      ContainsSubstring("attend_int8_kv: segment 1 leaves q of 2"));
  two = {0, 0, 2, 2, 0, 0, 0, 0, 0, 0};
  REQUIRE_THROWS_WITH(cpu::execute(context, attend),
                      ContainsSubstring("segment 0 is not of query 0 alone"));
  const DequantizeKv bring{.cache = cache,
                           .segments = TensorView(two.data(), kI32, {2, 5}),
                           .k = f32({3, 1, 2}),
                           .v = f32({3, 1, 2})};
  two = {0, 2, 2, 2, 0, 0, 0, 0, 0, 0};
  REQUIRE_THROWS_WITH(cpu::execute(context, bring),
                      ContainsSubstring("dequantize_kv: segment 0 leaves"));
}

}  // namespace
}  // namespace strata::test
