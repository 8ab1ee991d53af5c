// Trials of matrix products and of what attention does with heads. Bounds of sums of products count
// each product and each addition as a rounding of the largest output.

#include <algorithm>
#include <cmath>

#include "doctor/operator_draws.h"

namespace strata {

namespace {

double root_of(std::int64_t n) { return std::sqrt(static_cast<double>(n)); }

/// Roundings of a dot product of so many terms; its terms together are larger than what is left of
/// them by about the root of their number.
double of_products(std::int64_t terms) { return static_cast<double>(terms) * root_of(terms) + 16; }

/// Sets which queries see which keys: rows, or documents with an unused entry.
void set_segments(AttentionSegments& segments, TrialTensors& t, const TrialShape& s) {
  const std::int64_t rows = s.tokens % 2 == 0 ? 2 : 1;
  const std::int64_t row_length = s.tokens / rows;
  const auto length = static_cast<double>(row_length);
  if (s.flavour < 3) {
    segments.uniform_length = row_length;
    segments.self_attention = true;
    segments.table = rows == 2
                         ? t.values({0, 0, length, length, 0, length, length, length, length, 0},
                                    DType::kI32, {2, 5})
                         : t.values({0, 0, length, length, 0}, DType::kI32, {1, 5});
    return;
  }
  const auto all = static_cast<double>(s.tokens);
  const double first = std::floor(all / 3);
  segments.self_attention = true;
  segments.table =
      t.values({0, 0, first, first, 0, first, first, all - first, all - first, 0, 0, 0, 0, 0, 0},
               DType::kI32, {3, 5});
}

/// Returns a window that hides keys, in every third trial.
std::int64_t window_of(const TrialShape& s) { return s.flavour % 3 == 2 ? 1 + s.tokens / 4 : 0; }

/// Returns angles for all tokens, of which both machines hold the same cosines.
RopeAngles angles_of(TrialTensors& t, const TrialShape& s) {
  constexpr std::int64_t kPositions = 50;
  const Shape shape{kPositions, s.head_dim / 2};
  std::vector<double> cosines = t.normal_a(11, shape.elements());
  std::vector<double> sines = cosines;
  for (double& angle : cosines) angle = static_cast<double>(static_cast<float>(std::cos(angle)));
  for (double& angle : sines) angle = static_cast<double>(static_cast<float>(std::sin(angle)));
  return {.positions = t.integers(12, s.tokens, kPositions),
          .cos = t.values(cosines, t.accumulator(), shape),
          .sin = t.values(sines, t.accumulator(), shape)};
}

/// Adds the cache, and the places of new rows in it. `of_keys` is what keys may be off by.
void draw_cache(AppendKv& op, TrialTensors& t, const TrialShape& s, const Allowed& of_keys) {
  const Shape cached{2 * s.tokens + 3, s.kv_heads, s.head_dim};
  std::vector<double> rows;  // every second one, from the last one down
  for (std::int64_t n = 0; n < s.tokens; ++n) {
    rows.push_back(static_cast<double>(2 * (s.tokens - n)));
  }
  op.rows = t.values(rows, DType::kI32, {s.tokens});
  op.cache_k = t.changed("cache_k", t.x(3, cached), of_keys);
  op.cache_v = t.changed("cache_v", t.x(4, cached), {.last = 0});
}

double scale_of(const TrialShape& s) { return 1 / root_of(s.head_dim); }

constexpr double kLargestLevel = QuantizeRows::kLevels;

/// Returns levels of int8 of all sizes.
std::vector<double> levels_of(TrialTensors& t, std::uint64_t stream, std::int64_t count) {
  std::vector<double> levels = t.normal_a(stream, count);
  for (double& level : levels) {
    level = std::clamp(std::floor(40 * level), -kLargestLevel, kLargestLevel);
  }
  return levels;
}

/// Returns keys and values as int8 [rows, K, D] that are there already.
ConstInt8Kv int8_kv(TrialTensors& t, const TrialShape& s, std::int64_t rows) {
  const Shape shape{rows, s.kv_heads, s.head_dim};
  const Shape heads{rows, s.kv_heads};
  const auto scales = [&](std::uint64_t stream) {
    std::vector<double> values = t.normal_a(stream, heads.elements());
    for (double& value : values) {  // such that a row is about of size 1
      value = static_cast<double>(static_cast<float>(std::abs(value) / 64));
    }
    return t.values(values, DType::kF32, heads);
  };
  return {.k = t.values(levels_of(t, 21, shape.elements()), DType::kI8, shape),
          .v = t.values(levels_of(t, 22, shape.elements()), DType::kI8, shape),
          .k_scale = scales(23),
          .v_scale = scales(24)};
}

}  // namespace

void draw(Matmul& op, TrialTensors& t, const TrialShape& s) {
  const std::int64_t m = s.tokens;
  const std::int64_t n = s.width;
  const std::int64_t k = s.heads * s.head_dim + 1 - s.flavour % 2;  // odd and even ones
  const auto layouts = {MatmulLayout::kNT, MatmulLayout::kNN, MatmulLayout::kTN};
  op.layout = *(layouts.begin() + s.flavour % 3);
  const Allowed allowed{.accumulator = of_products(k)};
  const Shape a = op.layout == MatmulLayout::kTN ? Shape{k, m} : Shape{m, k};
  const Shape b = op.layout == MatmulLayout::kNT ? Shape{n, k} : Shape{k, n};
  op.a = t.x(1, a, s.gap);
  op.b = t.x(2, b, 2 * s.gap);
  if (op.layout == MatmulLayout::kTN) {
    op.update = MatmulUpdate::kAccumulate;
    op.out = t.changed("out", t.a(3, {m, n}, s.gap), allowed);
  } else {
    op.out = t.out("out", t.compute(), {m, n}, allowed, s.gap);
  }
  op.batch_invariant = op.layout == MatmulLayout::kNT && s.flavour >= 3;
}

void draw(FusedLinear& op, TrialTensors& t, const TrialShape& s) {
  const std::int64_t m = std::min(s.tokens, FusedLinear::kMostRows);
  const std::int64_t n = 2 * s.width;
  const std::int64_t k = s.heads * s.head_dim;
  // What is read and what SwiGLU or the residual gets is rounded by either machine on its own.
  const Allowed allowed{.accumulator = 2 * of_products(k), .intermediate = root_of(k) + 4};
  op.product.a = t.x(1, {m, k}, s.gap);
  if (s.flavour % 2 == 0) {
    const TensorView y = t.scratch(t.compute(), {m, k});
    op.norm.x = op.product.a;
    op.norm.residual = t.x(2, {m, k}, s.gap);
    op.norm.weight = t.x(3, {k});
    op.norm.sum = t.out("sum", t.compute(), {m, k}, {.accumulator = 1}, s.gap);
    op.norm.y = y;
    op.norm.rstd = t.scratch(t.accumulator(), {m});
    op.product.a = y;
  }
  op.product.b = t.x(4, {n, k}, s.gap);
  op.product.batch_invariant = true;
  if (s.flavour % 3 == 1) {
    op.product.out = t.scratch(t.compute(), {m, n});
    op.gate = {.gate_up = op.product.out,
               .y = t.out("y", t.compute(), {m, s.width}, allowed, s.gap)};
    return;
  }
  op.product.out = t.out("out", t.compute(), {m, n}, allowed, s.gap);
  if (s.flavour % 3 == 2) {
    op.residual = {.a = t.x(5, {m, n}, 2 * s.gap), .b = op.product.out, .y = op.product.out};
  }
}

void draw(Rope& op, TrialTensors& t, const TrialShape& s) {
  const RopeAngles angles = angles_of(t, s);
  op.x = t.changed("x", t.x(2, {s.tokens, s.heads, s.head_dim}, 8 * s.gap), {.accumulator = 8});
  op.positions = angles.positions;
  op.cos = angles.cos;
  op.sin = angles.sin;
  op.direction = s.flavour % 2 == 0 ? RopeDirection::kForward : RopeDirection::kBackward;
  op.pairs = s.flavour % 3 == 0 ? RopePairs::kNeighbours : RopePairs::kHalves;
}

void draw(AttentionForward& op, TrialTensors& t, const TrialShape& s) {
  const Shape queries{s.tokens, s.heads, s.head_dim};
  const Shape keys{s.tokens, s.kv_heads, s.head_dim};
  const double scores = of_products(s.head_dim) + 2 * static_cast<double>(s.tokens);
  op.q = t.x(1, queries);
  op.k = t.x(2, keys);
  op.v = t.x(3, keys);
  set_segments(op.segments, t, s);
  // Tensor cores read probabilities in the compute dtype.
  op.o = t.out("o", t.compute(), queries, {.accumulator = scores, .intermediate = 4});
  op.lse = t.out("lse", t.accumulator(), {s.heads, s.tokens}, {.accumulator = scores});
  op.scale = scale_of(s);
  op.window = window_of(s);
}

// The formulas hold for any o and lse, so none of them has to come from a forward.
void draw(AttentionBackward& op, TrialTensors& t, const TrialShape& s) {
  const Shape queries{s.tokens, s.heads, s.head_dim};
  const Shape keys{s.tokens, s.kv_heads, s.head_dim};
  std::vector<double> lse = t.normal_a(5, s.heads * s.tokens);
  for (double& value : lse) value = static_cast<double>(static_cast<float>(4 + value / 8));
  const Allowed allowed{.accumulator = 2 * (of_products(s.head_dim) + of_products(s.tokens)),
                        .intermediate = 8};
  op.d_o = t.x(4, queries);
  op.q = t.x(1, queries);
  op.k = t.x(2, keys);
  op.v = t.x(3, keys);
  op.o = t.x(6, queries);
  op.lse = t.values(lse, t.accumulator(), {s.heads, s.tokens});
  set_segments(op.segments, t, s);
  op.dq = t.out("dq", t.compute(), queries, allowed);
  op.dk = t.out("dk", t.compute(), keys, allowed);
  op.dv = t.out("dv", t.compute(), keys, allowed);
  if (s.flavour % 2 == 1) op.rotation = angles_of(t, s);
  op.delta = t.scratch(t.accumulator(), {s.heads, s.tokens});
  op.scale = scale_of(s);
  op.window = window_of(s);
}

void draw(AppendKv& op, TrialTensors& t, const TrialShape& s) {
  const Shape added{s.tokens, s.kv_heads, s.head_dim};
  op.k = t.x(1, added);
  op.v = t.x(2, added);
  draw_cache(op, t, s, {.last = 0});
}

constexpr Allowed kOfTurned{.accumulator = 8};

/// Draws what does not depend on whether x is read afterwards, which is not turned yet.
void draw_append(FusedAppend& op, TrialTensors& t, const TrialShape& s, const TensorView& x) {
  const Shape keys{s.tokens, s.kv_heads, s.head_dim};
  const RopeAngles angles = angles_of(t, s);
  const auto before = static_cast<std::size_t>(s.heads * s.head_dim) * size_of(x.dtype);
  op.rope.x = x;
  op.rope.positions = angles.positions;
  op.rope.cos = angles.cos;
  op.rope.sin = angles.sin;
  op.append.k =
      ConstTensorView(static_cast<const std::byte*>(x.data) + before, x.dtype, keys, x.row_stride);
  op.append.v = t.x(2, keys);
  draw_cache(op.append, t, s, kOfTurned);
}

TensorView unturned(TrialTensors& t, const TrialShape& s) {
  return t.x(1, {s.tokens, s.heads + s.kv_heads, s.head_dim}, 8 * s.gap);
}

void draw(FusedAppend& op, TrialTensors& t, const TrialShape& s) {
  draw_append(op, t, s, t.changed("x", unturned(t, s), kOfTurned));
}

// Each token sees two keys: one of the cache, and its own, which goes to the row after that one.
void draw(FusedAttend& op, TrialTensors& t, const TrialShape& s) {
  const Shape queries{s.tokens, s.heads, s.head_dim};
  std::vector<double> segments;
  for (std::int64_t n = 0; n < s.tokens; ++n) {
    const auto last = static_cast<double>(2 * (s.tokens - n));
    segments.insert(segments.end(), {static_cast<double>(n), last - 1, 1, 2, 1});
  }
  const double scores = of_products(s.head_dim) + kOfTurned.accumulator;
  draw_append(op.added, t, s, t.consumed(unturned(t, s)));
  op.segments = t.values(segments, DType::kI32, {s.tokens, 5});
  op.o = t.out("o", t.compute(), queries, {.accumulator = scores, .intermediate = 8});
  op.lse = t.out("lse", t.accumulator(), {s.heads, s.tokens},
                 {.accumulator = scores, .intermediate = 4});
  op.parts = t.scratch(t.accumulator(), {s.tokens, 1, s.heads * (s.head_dim + 2)});
  op.scale = scale_of(s);
}

// As for QuantizeRows: in even trials scales are powers of two, so that levels are exact.
void draw(AppendInt8Kv& op, TrialTensors& t, const TrialShape& s) {
  const Shape added{s.tokens, s.kv_heads, s.head_dim};
  const bool exact = s.flavour % 2 == 0;
  constexpr double kLargest = kLargestLevel / 32;
  const auto drawn = [&](std::uint64_t stream) {
    std::vector<double> x = t.normal_x(stream, added.elements());
    for (std::size_t i = 0; exact && i < x.size(); ++i) {
      x[i] = i % static_cast<std::size_t>(s.head_dim) == 0 ? kLargest
                                                           : std::clamp(x[i], -kLargest, kLargest);
    }
    return t.values(x, t.compute(), added);
  };
  std::vector<double> rows;  // from the last one down
  for (std::int64_t n = 0; n < s.tokens; ++n) {
    rows.push_back(static_cast<double>(s.tokens - 1 - n));
  }
  const Allowed levels{.last = 0, .steps = exact ? 0.0 : 1.0};
  const Shape heads{s.tokens, s.kv_heads};
  op.k = drawn(1);
  op.v = drawn(2);
  op.rows = t.values(rows, DType::kI32, {s.tokens});
  op.cache = {.k = t.out("cache.k", DType::kI8, added, levels),
              .v = t.out("cache.v", DType::kI8, added, levels),
              .k_scale = t.out("cache.k_scale", DType::kF32, heads, {.last = 0}),
              .v_scale = t.out("cache.v_scale", DType::kF32, heads, {.last = 0})};
}

void draw(DequantizeKv& op, TrialTensors& t, const TrialShape& s) {
  const Shape shape{s.tokens, s.kv_heads, s.head_dim};
  const auto all = static_cast<double>(s.tokens);
  op.cache = int8_kv(t, s, s.tokens);
  op.segments = t.values({0, 0, all, all, 0}, DType::kI32, {1, 5});
  op.k = t.out("k", t.compute(), shape, {.accumulator = 1});
  op.v = t.out("v", t.compute(), shape, {.accumulator = 1});
}

void draw(AttendInt8Kv& op, TrialTensors& t, const TrialShape& s) {
  const Shape queries{s.tokens, s.heads, s.head_dim};
  std::vector<double> segments;  // each query sees one key more than the one before
  for (std::int64_t n = 0; n < s.tokens; ++n) {
    const auto at = static_cast<double>(n);
    segments.insert(segments.end(), {at, 0, 1, at + 1, at});
  }
  const double scores = of_products(s.head_dim) + 2 * static_cast<double>(s.tokens);
  op.q = t.x(1, queries);
  op.cache = int8_kv(t, s, s.tokens);
  op.segments = t.values(segments, DType::kI32, {s.tokens, 5});
  op.o = t.out("o", t.compute(), queries, {.accumulator = scores, .intermediate = 4});
  const std::int64_t parts =
      (s.tokens + AttentionForward::kPartKeys - 1) / AttentionForward::kPartKeys;
  op.parts = t.scratch(t.accumulator(), {s.tokens, parts, s.heads * (s.head_dim + 2)});
  op.scale = scale_of(s);
  op.window = window_of(s);
}

void draw(SampleTokens& op, TrialTensors& t, const TrialShape& s) {
  const std::int64_t tokens = std::min(s.tokens, kVocabularyRows);
  std::vector<SamplingRow> rows;
  std::vector<double> seen;
  for (std::int64_t n = 0; n < tokens; ++n) {
    const double part = static_cast<double>(n) / static_cast<double>(tokens);
    rows.push_back({.temperature = n % 4 == 0 ? 0 : 0.5 + part,
                    .top_p = n % 3 == 1 ? 0.7 : 1,
                    .min_p = n % 5 == 2 ? 0.1 : 0,
                    .repeat_penalty = n % 2 == 1 ? 1.25 : 1,
                    .uniform = part,
                    .top_k = n % 3 == 2 ? 7 : 0,
                    .seen_begin = static_cast<std::int32_t>(seen.size()),
                    .seen_count = 1});
    seen.push_back(static_cast<double>(n % s.vocabulary));
  }
  const auto row_bytes = static_cast<std::int64_t>(sizeof(SamplingRow));
  op.logits = t.x(1, {tokens, s.vocabulary}, s.gap);
  op.rows = {t.bytes(rows.data(), rows.size() * sizeof(SamplingRow)), DType::kU8,
             Shape{tokens, row_bytes}};
  op.seen = t.values(seen, DType::kI32, {tokens});
  op.token = t.out("token", DType::kI32, {tokens}, {.last = 0});
  op.logprob = t.out("logprob", t.accumulator(), {tokens}, {.accumulator = 8});
}

}  // namespace strata
