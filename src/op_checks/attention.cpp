// Checks of attention, compared with its formulas in f64, or with the bits of its parts.

#include <algorithm>
#include <cmath>
#include <utility>

#include "op_checks/attention_reference.h"
#include "op_checks/texts.h"
#include "strata/op_checks/checks.h"
#include "strata/ops/heads.h"

namespace strata {

namespace {

using Values = std::vector<double>;

/// q, k and v, or dq, dk and dv: three tensors, or the columns of one.
struct Qkv {
  TensorView q, k, v;
};

Qkv split_columns(const TensorView& all, const AttentionCase& c) {
  const std::int64_t q_width = c.heads * c.head_dim;
  const std::int64_t k_width = c.kv_heads * c.head_dim;
  return {heads_of(all, 0, c.heads, c.head_dim), heads_of(all, q_width, c.kv_heads, c.head_dim),
          heads_of(all, q_width + k_width, c.kv_heads, c.head_dim)};
}

Qkv upload_qkv(OpRunner& runner, const AttentionInputs& in, const AttentionCase& c, DType dtype) {
  const Shape q_shape{c.queries, c.heads, c.head_dim};
  const Shape k_shape{c.keys, c.kv_heads, c.head_dim};
  if (!c.packed) {
    return {runner.upload(in.q, dtype, q_shape), runner.upload(in.k, dtype, k_shape),
            runner.upload(in.v, dtype, k_shape)};
  }
  Values rows;
  for (std::int64_t n = 0; n < c.queries; ++n) {
    for (const auto& [values, heads] :
         {std::pair{&in.q, c.heads}, std::pair{&in.k, c.kv_heads}, std::pair{&in.v, c.kv_heads}}) {
      const std::int64_t width = heads * c.head_dim;
      rows.insert(rows.end(), values->begin() + n * width, values->begin() + (n + 1) * width);
    }
  }
  const std::int64_t width = (c.heads + 2 * c.kv_heads) * c.head_dim;
  return split_columns(runner.upload(rows, dtype, {c.queries, width}), c);
}

Qkv output_qkv(OpRunner& runner, const AttentionCase& c, DType dtype) {
  const Shape k_shape{c.keys, c.kv_heads, c.head_dim};
  if (!c.packed) {
    return {runner.output(dtype, {c.queries, c.heads, c.head_dim}), runner.output(dtype, k_shape),
            runner.output(dtype, k_shape)};
  }
  const std::int64_t width = (c.heads + 2 * c.kv_heads) * c.head_dim;
  return split_columns(runner.output(dtype, {c.queries, width}), c);
}

/// Whether the segments keep AttentionSegments::self_attention.
bool attends_to_itself(const AttentionCase& c) {
  if (c.uniform_length > 0) return true;
  std::int64_t row = 0;
  for (const auto& [q_begin, k_begin, q_length, k_length, q_offset] : c.segments) {
    if (q_length == 0) continue;
    if (q_begin != row || k_begin != row || k_length != q_length || q_offset != 0) return false;
    row += q_length;
  }
  return row == c.queries && row == c.keys;
}

AttentionSegments upload_segments(OpRunner& runner, const AttentionCase& c) {
  Values entries;
  for (const SegmentEntry& s : c.segments) entries.insert(entries.end(), s.begin(), s.end());
  const auto count = static_cast<std::int64_t>(c.segments.size());
  AttentionSegments segments;
  segments.uniform_length = c.uniform_length;
  if (c.uniform_length == 0) segments.table = runner.upload(entries, DType::kI32, {count, 5});
  segments.self_attention = attends_to_itself(c);
  return segments;
}

RopeAngles upload_rotation(OpRunner& runner, const AttentionInputs& in, const AttentionCase& c,
                           DType accumulator) {
  if (!c.turned) return {};
  const Shape table{AttentionInputs::kPositions, c.head_dim / 2};
  return {.positions = runner.upload(in.positions, DType::kI32, {c.queries}),
          .cos = runner.upload(in.cos, accumulator, table),
          .sin = runner.upload(in.sin, accumulator, table)};
}

/// Returns the scratch for the parts of keys, if the case has any.
TensorView upload_parts(OpRunner& runner, const AttentionCase& c, DType accumulator) {
  if (c.parts == 0) return {};
  return runner.output(accumulator, {c.queries, c.parts, c.heads * (c.head_dim + 2)});
}

}  // namespace

Outputs check_attention_forward(OpRunner& runner, DType dtype, const AttentionCase& c,
                                DType intermediate) {
  runner.reset(text_of(dtype, c));
  const DType accumulator = accumulator_of(dtype);
  const AttentionInputs in(c, dtype);
  const AttentionForwardExpected expected = forward_expected(in, c);
  const Qkv inputs = upload_qkv(runner, in, c, dtype);
  const AttentionForward op{.q = inputs.q,
                            .k = inputs.k,
                            .v = inputs.v,
                            .segments = upload_segments(runner, c),
                            .o = runner.output(dtype, {c.queries, c.heads, c.head_dim}),
                            .lse = runner.output(accumulator, {c.heads, c.queries}),
                            .parts = upload_parts(runner, c, accumulator),
                            .scale = in.scale,
                            .window = c.window,
                            .score_cap = c.score_cap};
  runner.run(op);
  runner.require_close("o", op.o, expected.o, accumulator, intermediate);
  runner.require_close("lse", op.lse, expected.lse, accumulator);
  return runner.outputs();
}

Outputs check_fused_attend(OpRunner& runner, DType dtype, const AttentionCase& c) {
  const DType a = accumulator_of(dtype);
  const std::int64_t turned = c.heads + c.kv_heads;
  const std::int64_t width = (turned + c.kv_heads) * c.head_dim;
  constexpr std::int64_t kPositions = 37;
  const Shape table{kPositions, c.head_dim / 2};
  const Shape cached{c.keys, c.kv_heads, c.head_dim};
  const auto qkv = random_values(21, c.queries * width, dtype);
  const auto cos = random_values(22, table.elements(), a);
  const auto sin = random_values(23, table.elements(), a);
  const auto positions = random_integers(24, c.queries, kPositions);
  const auto old_k = random_values(25, cached.elements(), dtype);
  const auto old_v = random_values(26, cached.elements(), dtype);
  Values last;  // rows
  for (const SegmentEntry& s : c.segments) last.push_back(s[1] + std::min(s[3], s[4] + 1) - 1);
  const auto run = [&](bool fused) {
    runner.reset(text_of(dtype, c));
    const TensorView all = runner.upload(qkv, dtype, {c.queries, width});
    const auto heads = [&](std::int64_t begin, std::int64_t count) {
      return heads_of(all, begin * c.head_dim, count, c.head_dim);
    };
    const FusedAttend op{
        .added = {.rope = {.x = heads(0, turned),
                           .positions = runner.upload(positions, DType::kI32, {c.queries}),
                           .cos = runner.upload(cos, a, table),
                           .sin = runner.upload(sin, a, table)},
                  .append = {.k = heads(c.heads, c.kv_heads),
                             .v = heads(turned, c.kv_heads),
                             .rows = runner.upload(last, DType::kI32, {c.queries}),
                             .cache_k = runner.upload(old_k, dtype, cached),
                             .cache_v = runner.upload(old_v, dtype, cached)}},
        .segments = upload_segments(runner, c).table,
        .o = runner.output(dtype, {c.queries, c.heads, c.head_dim}),
        .lse = runner.output(a, {c.heads, c.queries}),
        .parts = upload_parts(runner, c, a),
        .scale = 1 / std::sqrt(static_cast<double>(c.head_dim)),
        .window = c.window,
        .score_cap = c.score_cap};
    if (fused) {
      runner.run(op);
    } else {
      runner.run(op.added);
      runner.run(op.attention());
    }
    const Outputs got{runner.download(op.o), runner.download(op.lse),
                      runner.download(op.added.append.cache_k),
                      runner.download(op.added.append.cache_v)};
    return got;
  };
  const Outputs alone = run(false);  // whose formulas the checks of the parts have
  const Outputs got = run(true);
  runner.require_equal("o", got[0], alone[0]);
  runner.require_equal("lse", got[1], alone[1]);
  runner.require_equal("cache_k", got[2], alone[2]);
  runner.require_equal("cache_v", got[3], alone[3]);
  return got;
}

Outputs check_attend_int8_kv(OpRunner& runner, DType dtype, const AttentionCase& c,
                             DType intermediate) {
  runner.reset(text_of(dtype, c));
  const DType accumulator = accumulator_of(dtype);
  AttentionInputs in(c, dtype);
  const std::int64_t rows = c.keys * c.kv_heads;
  const auto drawn = [&](std::uint64_t stream, Values& levels, Values& scales) {
    levels = random_integers(stream, rows * c.head_dim, 255);
    for (double& level : levels) level -= 127;
    scales = random_integers(stream + 1, rows, 40);
    for (double& scale : scales) scale = rounded_to(DType::kF32, scale / 1000.0);
    Values product(levels.size());
    for (std::size_t i = 0; i < levels.size(); ++i) {
      product[i] = levels[i] * scales[i / static_cast<std::size_t>(c.head_dim)];
    }
    return product;
  };
  Values k, k_scale, v, v_scale;
  in.k = drawn(7, k, k_scale);
  in.v = drawn(9, v, v_scale);
  const AttentionForwardExpected expected = forward_expected(in, c);
  // Rows as a store has them: both and their scales, in strides of 16 bytes.
  const std::int64_t stride = (2 * c.kv_heads * (c.head_dim + 4) + 15) / 16 * 16;
  const Shape levels{c.keys, c.kv_heads, c.head_dim};
  const Shape scales{c.keys, c.kv_heads};
  const AttendInt8Kv op{
      .q = runner.upload(in.q, dtype, {c.queries, c.heads, c.head_dim}),
      .cache = {.k = runner.upload(k, DType::kI8, levels, stride),
                .v = runner.upload(v, DType::kI8, levels, stride),
                .k_scale = runner.upload(k_scale, DType::kF32, scales, stride / 4),
                .v_scale = runner.upload(v_scale, DType::kF32, scales, stride / 4)},
      .segments = upload_segments(runner, c).table,
      .o = runner.output(dtype, {c.queries, c.heads, c.head_dim}),
      .parts = upload_parts(runner, c, accumulator),
      .scale = in.scale,
      .window = c.window,
      .score_cap = c.score_cap};
  runner.run(op);
  runner.require_close("o", op.o, expected.o, accumulator, intermediate);
  return runner.outputs();
}

Outputs check_attention_backward(OpRunner& runner, DType dtype, const AttentionCase& c,
                                 const AttentionRounding& rounding, bool adds_dq) {
  runner.reset(text_of(dtype, c));
  const DType accumulator = accumulator_of(dtype);
  const AttentionInputs in(c, dtype);
  AttentionForwardExpected forward = forward_expected(in, c);
  for (double& x : forward.o.values) x = rounded_to(dtype, x);
  for (double& x : forward.lse.values) x = rounded_to(accumulator, x);
  AttentionBackwardExpected expected = backward_expected(in, c, forward.o.values);
  if (c.turned) {
    const double units = unit_roundoff(rounding.unturned) / unit_roundoff(accumulator);
    turn_back(expected.dq, in, c.heads, units);
    turn_back(expected.dk, in, c.kv_heads, units);
  }
  const Shape shape{c.queries, c.heads, c.head_dim};
  const Qkv inputs = upload_qkv(runner, in, c, dtype);
  const Qkv outputs = output_qkv(runner, c, dtype);
  runner.run(
      AttentionBackward{.d_o = runner.upload(in.d_o, dtype, shape),
                        .q = inputs.q,
                        .k = inputs.k,
                        .v = inputs.v,
                        .o = runner.upload(forward.o.values, dtype, shape),
                        .lse = runner.upload(forward.lse.values, accumulator, {c.heads, c.queries}),
                        .segments = upload_segments(runner, c),
                        .dq = outputs.q,
                        .dk = outputs.k,
                        .dv = outputs.v,
                        .delta = runner.output(accumulator, {c.heads, c.queries}),
                        .dq_sum = adds_dq ? runner.output(accumulator, shape) : TensorView(),
                        .rotation = upload_rotation(runner, in, c, accumulator),
                        .scale = in.scale,
                        .window = c.window,
                        .score_cap = c.score_cap});
  runner.require_close("dq", outputs.q, expected.dq, accumulator, rounding.intermediate);
  runner.require_close("dk", outputs.k, expected.dk, accumulator, rounding.intermediate);
  runner.require_close("dv", outputs.v, expected.dv, accumulator, rounding.intermediate);
  return runner.outputs();
}

}  // namespace strata
