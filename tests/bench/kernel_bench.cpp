// Measures the speed of the cuda backend's memory-bound operators at the shapes of LLaMA models, in
// TB/s, and as a fraction of what a copy within device memory reaches in the same run.
//   kernel_bench [--only TEXT] [--json FILE]     (TEXT: part of an operator's name or of a shape)
// Bytes are those that must be read and written once. operator_timer.h says how they are timed.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "bench/llama_shapes.h"
#include "bench/operator_timer.h"
#include "bench/program.h"
#include "bench/times.h"
#include "strata/base/random.h"
#include "strata/ops/backend.h"

namespace {

using namespace strata;
using namespace bench;

constexpr std::int64_t kSequence = 4096;

/// Token ids as text has them: the share of the r-th most frequent falls as 1/r.
std::vector<std::int32_t> zipf_ids(const Model& m) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(m.tokens));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const double rank = std::pow(count(m.vocabulary), random_uniform(3, 3, i));  // in [1, V)
    ids[i] = static_cast<std::int32_t>(rank - 1);
  }
  return ids;
}

void measure_embedding(OperatorTimer& timer, const Model& m) {
  const std::vector<std::int32_t> ids = zipf_ids(m);
  std::vector<std::int32_t> order(ids.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return ids[static_cast<std::size_t>(a)] < ids[static_cast<std::size_t>(b)];
  });
  const auto distinct =
      static_cast<double>(std::unordered_set<std::int32_t>(ids.begin(), ids.end()).size());
  const std::string shape = text("%s [%lld, %lld]", m.name, number(m.tokens), number(m.hidden));
  const double row = count(m.hidden);
  const double n = count(m.tokens);
  timer.measure("embedding_forward", shape, (distinct + n) * row * kBf16 + 4 * n, [&] {
    return EmbeddingForward{.ids = timer.pool().upload(ids, DType::kI32),
                            .table = timer.bf16({m.vocabulary, m.hidden}),
                            .y = timer.bf16({m.tokens, m.hidden})};
  });
  timer.measure("embedding_backward", shape, n * row * kBf16 + 2 * distinct * row * kF32 + 8 * n,
                [&] {
                  return EmbeddingBackward{.ids = timer.pool().upload(ids, DType::kI32),
                                           .order = timer.pool().upload(order, DType::kI32),
                                           .dy = timer.bf16({m.tokens, m.hidden}),
                                           .d_table = timer.f32({m.vocabulary, m.hidden})};
                });
}

void measure_norm(OperatorTimer& timer, const Model& m) {
  const Shape rows{m.tokens, m.hidden};
  const std::string shape = text("%s [%lld, %lld]", m.name, number(m.tokens), number(m.hidden));
  const double matrix = count(rows.elements()) * kBf16;
  const double vector = count(m.tokens) * kF32;
  timer.measure("rmsnorm_forward", shape, 2 * matrix + vector, [&] {
    return RmsNormForward{.x = timer.bf16(rows),
                          .residual = {},
                          .weight = timer.bf16({m.hidden}),
                          .sum = {},
                          .y = timer.bf16(rows),
                          .rstd = timer.f32({m.tokens})};
  });
  timer.measure("rmsnorm_forward residual", shape, 4 * matrix + vector, [&] {
    const TensorView residual = timer.bf16(rows);
    return RmsNormForward{.x = timer.bf16(rows),
                          .residual = residual,
                          .weight = timer.bf16({m.hidden}),
                          .sum = residual,
                          .y = timer.bf16(rows),
                          .rstd = timer.f32({m.tokens})};
  });
  const auto backward = [&](bool residual) {
    const TensorView dy = timer.bf16(rows);
    return RmsNormBackward{.dy = dy,
                           .x = timer.bf16(rows),
                           .weight = timer.bf16({m.hidden}),
                           .rstd = timer.f32({m.tokens}),
                           .d_residual = residual ? timer.bf16(rows) : TensorView{},
                           .dx = dy,
                           .d_weight = timer.f32({m.hidden}),
                           .workspace = timer.f32({RmsNormBackward::kWorkspaceRows, m.hidden})};
  };
  const auto changed = [](const RmsNormBackward& op) { return OperatorTimer::Views{op.dx}; };
  timer.measure(
      "rmsnorm_backward", shape, 3 * matrix + vector, [&] { return backward(false); }, changed);
  timer.measure(
      "rmsnorm_backward residual", shape, 4 * matrix + vector, [&] { return backward(true); },
      changed);
}

/// Angles for the tokens of rows of kSequence.
RopeAngles angles_of(OperatorTimer& timer, const Model& m) {
  std::vector<std::int32_t> positions(static_cast<std::size_t>(m.tokens));
  for (std::size_t i = 0; i < positions.size(); ++i) {
    positions[i] = static_cast<std::int32_t>(i % kSequence);
  }
  // Any rotation by the same angle takes as long.
  const std::vector<float> cos(kSequence * Model::kHeadDim / 2, 0.8f);
  const std::vector<float> sin(kSequence * Model::kHeadDim / 2, 0.6f);
  const auto table = [&](const std::vector<float>& values) {
    TensorView view = timer.pool().upload(values, DType::kF32);
    view.shape = {kSequence, Model::kHeadDim / 2};
    view.row_stride = Model::kHeadDim / 2;
    return view;
  };
  return {.positions = timer.pool().upload(positions, DType::kI32),
          .cos = table(cos),
          .sin = table(sin)};
}

/// q and k within packed rows of q, k and v.
void measure_rope(OperatorTimer& timer, const Model& m) {
  const std::int64_t width = m.hidden + 2 * m.kv();
  const std::int64_t turned = m.hidden + m.kv();
  for (const RopeDirection direction : {RopeDirection::kForward, RopeDirection::kBackward}) {
    const bool forward = direction == RopeDirection::kForward;
    timer.measure(
        forward ? "rope forward" : "rope backward",
        text("%s [%lld, %lld] of %lld", m.name, number(m.tokens), number(turned), number(width)),
        2 * count(m.tokens * turned) * kBf16, [&] {
          const TensorView qkv = timer.bf16({m.tokens, width});
          const RopeAngles angles = angles_of(timer, m);
          return Rope{
              .x = {qkv.data, qkv.dtype, {m.tokens, m.heads + m.kv_heads, Model::kHeadDim}, width},
              .positions = angles.positions,
              .cos = angles.cos,
              .sin = angles.sin,
              .direction = direction};
        });
  }
}

/// Norms of `heads` heads, q's or k's, within packed rows of q, k and v. The 8B's are Qwen3-8B's.
void measure_head_norm(OperatorTimer& timer, const Model& m, std::int64_t heads) {
  const std::int64_t width = m.hidden + 2 * m.kv();
  const Shape shape{m.tokens, heads, Model::kHeadDim};
  const std::string name = text("%s [%lld, %lld] of %lld", m.name, number(m.tokens),
                                number(heads * Model::kHeadDim), number(width));
  const double matrix = count(shape.elements()) * kBf16;
  const double vector = count(m.tokens * heads) * kF32;
  const auto packed = [&] {
    const TensorView qkv = timer.bf16({m.tokens, width});
    return TensorView(qkv.data, qkv.dtype, shape, width);
  };
  for (const bool turns : {false, true}) {
    const std::string what = turns ? "head_norm_forward turned" : "head_norm_forward";
    timer.measure(what, name, 2 * matrix + vector, [&] {
      return HeadNormForward{.x = packed(),
                             .weight = timer.bf16({Model::kHeadDim}),
                             .y = packed(),
                             .rstd = timer.f32({m.tokens, heads}),
                             .rotation = turns ? angles_of(timer, m) : RopeAngles{}};
    });
  }
  timer.measure("head_norm_backward", name, 3 * matrix + vector, [&] {
    const TensorView dy = packed();
    return HeadNormBackward{
        .dy = dy,
        .x = packed(),
        .weight = timer.bf16({Model::kHeadDim}),
        .rstd = timer.f32({m.tokens, heads}),
        .dx = dy,
        .d_weight = timer.f32({Model::kHeadDim}),
        .workspace = timer.f32({HeadNormBackward::kWorkspaceRows, Model::kHeadDim})};
  });
}

void measure_swiglu(OperatorTimer& timer, const Model& m) {
  const std::string shape = text("%s [%lld, %lld]", m.name, number(m.tokens), number(m.ffn));
  const double matrix = count(m.tokens * m.ffn) * kBf16;
  const double codes = count(m.tokens * m.ffn);
  const auto q8 = [&](std::int64_t width) {
    return timer.pool().tensor(DType::kE4M3, {m.tokens, width});
  };
  timer.measure("swiglu_forward", shape, 3 * matrix, [&] {
    return SwigluForward{.gate_up = timer.bf16({m.tokens, 2 * m.ffn}),
                         .y = timer.bf16({m.tokens, m.ffn})};
  });
  timer.measure("swiglu_forward e4m3", shape, 3 * matrix + codes, [&] {
    return SwigluForward{.gate_up = timer.bf16({m.tokens, 2 * m.ffn}),
                         .y = timer.bf16({m.tokens, m.ffn}),
                         .y8 = q8(m.ffn),
                         .y_scale = timer.f32({m.tokens})};
  });
  const auto backward = [&] {
    const TensorView gate_up = timer.bf16({m.tokens, 2 * m.ffn});
    const TensorView y = timer.bf16({m.tokens, m.ffn});
    return SwigluBackward{.d_y = y, .gate_up = gate_up, .d_gate_up = gate_up, .y = y};
  };
  const auto changed = [](const SwigluBackward& op) {
    return OperatorTimer::Views{op.d_gate_up, op.y};
  };
  timer.measure("swiglu_backward", shape, 6 * matrix, backward, changed);
  timer.measure(
      "swiglu_backward e4m3", shape, 6 * matrix + 2 * codes,
      [&] {
        SwigluBackward op = backward();
        op.d_gate_up8 = q8(2 * m.ffn);
        op.d_gate_up_scale = timer.f32({m.tokens});
        return op;
      },
      changed);
}

void measure_residual_add(OperatorTimer& timer, const Model& m) {
  const Shape rows{m.tokens, m.hidden};
  timer.measure("residual_add", text("%s [%lld, %lld]", m.name, number(m.tokens), number(m.hidden)),
                3 * count(rows.elements()) * kBf16, [&] {
                  return ResidualAdd{
                      .a = timer.bf16(rows), .b = timer.bf16(rows), .y = timer.bf16(rows)};
                });
}

/// What the A of adapters read.
void measure_dropout(OperatorTimer& timer, const Model& m) {
  const Shape rows{m.tokens, m.hidden};
  timer.measure(
      "dropout", text("%s [%lld, %lld]", m.name, number(m.tokens), number(m.hidden)),
      2 * count(rows.elements()) * kBf16,
      [&] { return Dropout{.x = timer.bf16(rows), .y = timer.bf16(rows), .mask = {.rate = 0.1}}; });
}

/// The bias of q, k and v.
void measure_bias(OperatorTimer& timer, const Model& m) {
  const std::int64_t width = m.hidden + 2 * m.kv();
  const Shape rows{m.tokens, width};
  const std::string shape = text("%s [%lld, %lld]", m.name, number(m.tokens), number(width));
  const double matrix = count(rows.elements()) * kBf16;
  timer.measure("bias_add", shape, 2 * matrix, [&] {
    const TensorView y = timer.bf16(rows);
    return BiasAdd{.x = y, .bias = timer.bf16({width}), .y = y};
  });
  timer.measure("bias_backward", shape, matrix, [&] {
    return BiasBackward{.dy = timer.bf16(rows),
                        .d_bias = timer.f32({width}),
                        .workspace = timer.f32({BiasBackward::kWorkspaceRows, width})};
  });
}

void measure_quantize(OperatorTimer& timer, const Model& m) {
  const Shape rows{m.tokens, m.hidden};
  const std::string shape = text("%s [%lld, %lld]", m.name, number(m.tokens), number(m.hidden));
  const double bytes = count(rows.elements()) * (kBf16 + 1) + count(m.tokens) * kF32;
  const auto q = [&] { return timer.pool().tensor(DType::kI8, rows); };
  timer.measure("quantize_rows", shape, bytes, [&] {
    return QuantizeRows{.x = timer.bf16(rows), .q = q(), .scale = timer.f32({m.tokens})};
  });
  const double codes = count(rows.elements());
  const auto q8 = [&](const Shape& s) { return timer.pool().tensor(DType::kE4M3, s); };
  const Shape turned{m.hidden, m.tokens};
  for (const std::int64_t width : {m.hidden, m.hidden + 2 * m.kv()}) {
    timer.measure("quantize_fp8_rows",
                  text("%s [%lld, %lld]", m.name, number(m.tokens), number(width)),
                  count(m.tokens * width) * (kBf16 + 1), [&] {
                    return QuantizeFp8Rows{.x = timer.bf16({m.tokens, width}),
                                           .q = q8({m.tokens, width}),
                                           .scale = timer.f32({m.tokens})};
                  });
  }
  for (const std::int64_t width : {m.hidden, m.ffn, m.hidden + 2 * m.kv(), 2 * m.ffn}) {
    timer.measure("quantize_fp8_columns",
                  text("%s [%lld, %lld]", m.name, number(m.tokens), number(width)),
                  count(m.tokens * width) * (kBf16 + 1), [&] {
                    return QuantizeFp8Columns{.x = timer.bf16({m.tokens, width}),
                                              .q = q8({width, m.tokens}),
                                              .scale = timer.f32({width})};
                  });
  }
  timer.measure("transpose_fp8", shape, 2 * codes, [&] {
    return TransposeFp8{.w = q8(rows),
                        .scale = timer.f32({m.tokens}),
                        .t = q8(turned),
                        .t_scale = timer.f32({m.hidden})};
  });
  timer.measure("count_fp8", shape, codes * (kBf16 + 1), [&] {
    return CountFp8{.x = timer.bf16(rows),
                    .q = q8(rows),
                    .counts = timer.pool().tensor(DType::kF64, {CountFp8::kCounts})};
  });
  timer.measure("dequantize_rows", shape, bytes, [&] {
    return DequantizeRows{.q = q(), .scale = timer.f32({m.tokens}), .x = timer.bf16(rows)};
  });
}

void measure_cross_entropy(OperatorTimer& timer, const std::string& name, std::int64_t tokens,
                           std::int64_t vocabulary) {
  std::vector<std::int32_t> targets(static_cast<std::size_t>(tokens));
  for (std::size_t i = 0; i < targets.size(); ++i) {
    targets[i] = static_cast<std::int32_t>(mix64(i) % static_cast<std::uint64_t>(vocabulary));
  }
  const std::string shape =
      text("%s [%lld, %lld]", name.c_str(), number(tokens), number(vocabulary));
  const double matrix = count(tokens * vocabulary) * kBf16;
  const auto make = [&](bool backward) {
    const TensorView logits = timer.bf16({tokens, vocabulary});
    return CrossEntropy{.logits = logits,
                        .targets = timer.pool().upload(targets, DType::kI32),
                        .grad_scale = backward ? timer.f32({1}) : TensorView{},
                        .loss = timer.f32({tokens}),
                        .lse = timer.f32({tokens}),
                        .d_logits = backward ? logits : TensorView{}};
  };
  timer.measure("cross_entropy loss only", shape, matrix, [&] { return make(false); });
  timer.measure(
      "cross_entropy", shape, 2 * matrix, [&] { return make(true); },
      [](const CrossEntropy& op) { return OperatorTimer::Views{op.d_logits}; });
}

/// Caps of logits, in place, as models run them.
void measure_soft_cap(OperatorTimer& timer, const std::string& name, std::int64_t tokens,
                      std::int64_t vocabulary) {
  const std::string shape =
      text("%s [%lld, %lld]", name.c_str(), number(tokens), number(vocabulary));
  const double matrix = count(tokens * vocabulary) * kBf16;
  timer.measure("soft_cap_forward", shape, 2 * matrix, [&] {
    const TensorView logits = timer.bf16({tokens, vocabulary});
    return SoftCapForward{.x = logits, .y = logits, .cap = 30};
  });
  timer.measure(
      "soft_cap_backward", shape, 3 * matrix,
      [&] {
        const TensorView gradients = timer.bf16({tokens, vocabulary});
        return SoftCapBackward{
            .dy = gradients, .y = timer.bf16({tokens, vocabulary}), .dx = gradients, .cap = 30};
      },
      [](const SoftCapBackward& op) { return OperatorTimer::Views{op.dx}; });
}

/// Reads and writes the split master weight and the moments, and reads the gradient.
void measure_adamw(OperatorTimer& timer, const Model& m, DType grad, DType moments) {
  const std::int64_t n = m.layer_parameters();
  const auto bytes_each = static_cast<double>(2 * (2 + 2 + 2 * size_of(moments)) + size_of(grad));
  timer.measure(
      "adamw " + std::string(name_of(grad)) + " gradient, " + std::string(moment_name(moments)) +
          " moments",
      text("%s layer [%lld]", m.name, number(n)), count(n) * bytes_each, [&] {
        AdamW op;
        op.weight = timer.bf16({n});
        op.low = timer.pool().tensor(DType::kI16, {n});
        op.m = timer.pool().tensor(moments, {n});
        op.v = timer.pool().tensor(moments, {n});
        op.grad = timer.pool().tensor(grad, {n});
        const AdamWScalars scalars{.lr = 1e-4, .correction1 = 0.5, .correction2 = 0.5};
        const auto* bytes = reinterpret_cast<const std::uint8_t*>(&scalars);
        op.scalars = static_cast<const AdamWScalars*>(
            timer.pool()
                .upload(std::vector<std::uint8_t>(bytes, bytes + sizeof scalars), DType::kU8)
                .data);
        op.nonfinite = timer.pool().upload(std::vector<std::int32_t>{0}, DType::kI32);
        if (moments == kMomentCode) {
          const std::int64_t blocks = (n + kMomentBlock - 1) / kMomentBlock;
          const auto bytes_of_scales = static_cast<std::size_t>(blocks * kMomentScales);
          op.scale =
              timer.pool().upload(std::vector<std::uint8_t>(bytes_of_scales, 110), kMomentCode);
          op.scale.shape = {blocks, kMomentScales};
          op.scale.row_stride = kMomentScales;
        } else {  // a random v would be negative half of the time
          timer.backend().kernels->run(timer.compute(), Fill{.x = op.v, .value = 1}, {});
        }
        return op;
      });
}

/// All parameters of a layer in one run, as gradients are summed, rounded and measured.
void measure_flat(OperatorTimer& timer, const Model& m) {
  const std::int64_t n = m.layer_parameters();
  const std::string shape = text("%s layer [%lld]", m.name, number(n));
  const double elements = count(n);
  timer.measure("cast f32 to bf16", shape, elements * (kF32 + kBf16),
                [&] { return Cast{.x = timer.f32({n}), .y = timer.bf16({n})}; });
  timer.measure("fill f32", shape, elements * kF32,
                [&] { return Fill{.x = timer.f32({n}), .value = 1}; });
  timer.measure("accumulate f32", shape, elements * 3 * kF32,
                [&] { return Accumulate{.x = timer.f32({n}), .sum = timer.f32({n})}; });
  const std::int64_t blocks = SquaredNorm::partials(n);
  timer.measure("squared_norm f32", shape, elements * kF32, [&] {
    return SquaredNorm{.x = timer.f32({n}), .partial = timer.pool().tensor(DType::kF64, {blocks})};
  });
  timer.measure("squared_norm bf16", shape, elements * kBf16, [&] {
    return SquaredNorm{.x = timer.bf16({n}), .partial = timer.pool().tensor(DType::kF64, {blocks})};
  });
  for (const DType to : {DType::kBF16, DType::kF32}) {
    timer.measure("cast_squared_norm f32 to " + std::string(name_of(to)), shape,
                  elements * (kF32 + static_cast<double>(size_of(to))), [&] {
                    return CastSquaredNorm{.x = timer.f32({n}),
                                           .y = timer.pool().tensor(to, {n}),
                                           .partial = timer.pool().tensor(DType::kF64, {blocks})};
                  });
  }
  measure_adamw(timer, m, DType::kF32, DType::kF32);
  measure_adamw(timer, m, DType::kBF16, DType::kF32);
  measure_adamw(timer, m, DType::kBF16, DType::kBF16);
  measure_adamw(timer, m, DType::kBF16, kMomentCode);
}

/// What an offload rounds and measures at once: too little to fill the device.
void measure_chunk(OperatorTimer& timer) {
  constexpr std::int64_t kElements = std::int64_t{1} << 24;
  timer.measure("cast_squared_norm f32 to bf16", text("chunk [%lld]", number(kElements)),
                count(kElements) * (kF32 + kBf16), [&] {
                  return CastSquaredNorm{.x = timer.f32({kElements}),
                                         .y = timer.bf16({kElements}),
                                         .partial = timer.pool().tensor(
                                             DType::kF64, {SquaredNorm::partials(kElements)})};
                });
}

void run(const bench::Options& options) {
  bench::Times times;
  Backend backend = make_backend(BackendKind::kCuda, {.device = {.trace = &times}, .threads = 1});
  std::printf("%s; medians of %d groups of runs, device memory cold\n",
              backend.device->info().name.c_str(), OperatorTimer::kGroups);
  OperatorTimer timer(backend, times, options.only);
  for (const Model& m : kModels) {
    measure_embedding(timer, m);
    measure_norm(timer, m);
    measure_rope(timer, m);
    measure_swiglu(timer, m);
    measure_residual_add(timer, m);
    measure_dropout(timer, m);
    measure_bias(timer, m);
    measure_head_norm(timer, m, m.heads);
    if (m.kv_heads != m.heads) measure_head_norm(timer, m, m.kv_heads);
    measure_quantize(timer, m);
    measure_flat(timer, m);
  }
  measure_chunk(timer);
  measure_cross_entropy(timer, "7B", 8192, 32000);
  measure_cross_entropy(timer, "8B", 8192, 128256);
  measure_cross_entropy(timer, "largest", 4096, 262144);
  measure_soft_cap(timer, "Gemma 2", 4096, 256000);
  bench::write_json(options.json, timer.results());
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_program("kernel_bench",
                            [&] { run(bench::parse_options("kernel_bench", argc, argv)); });
}
