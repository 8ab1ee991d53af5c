// Checks of rows, and of keys and values, as int8 with a scale each, and back, compared bit by bit
// with the definitions of strata/ops/quantize.h and kv_cache.h.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "op_checks/texts.h"
#include "strata/op_checks/checks.h"
#include "strata/op_checks/reference.h"

namespace strata {

namespace {

/// Normal numbers, and from the second row on: zeros, a NaN, an infinity, subnormal numbers, one
/// number far above the others, and in f64 one beyond f32. The last row is normal again.
std::vector<double> rows_of_all_kinds(DType dtype, std::int64_t tokens, std::int64_t width) {
  std::vector<double> x = random_values(1, tokens * width, dtype);
  const auto row = [&](std::int64_t n) { return x.begin() + n * width; };
  if (tokens < 9) return x;
  const double smallest = dtype == DType::kBF16 ? 0x1p-133 : 0x1p-149;
  std::fill(row(1), row(2), 0.0);
  *(row(2) + width / 2) = kNan;
  *(row(3) + width - 1) = -std::numeric_limits<double>::infinity();
  std::transform(row(4), row(5), row(4), [&](double v) { return std::trunc(50 * v) * smallest; });
  *(row(4) + width / 3) = 200 * smallest;
  *(row(5) + width / 3) = -3072;
  if (dtype == DType::kF64) *(row(6)) = 0x1p130;
  return x;
}

/// QuantizeRows of one row, as the header has it.
struct Quantized {
  double scale = 0;
  std::vector<double> q;
};

Quantized quantized(const std::vector<double>& x, DType dtype) {
  double largest = 0;
  bool finite = true;
  for (const double v : x) {
    const auto magnitude = static_cast<double>(static_cast<float>(std::abs(v)));
    finite = finite && std::isfinite(magnitude);
    largest = std::max(largest, magnitude);
  }
  Quantized result{.scale = kNan, .q = std::vector<double>(x.size())};
  if (!finite) return result;
  result.scale = static_cast<double>(static_cast<float>(largest / 127));
  if (result.scale == 0) return result;
  for (std::size_t c = 0; c < x.size(); ++c) {
    double ratio = x[c] / result.scale;
    if (dtype != DType::kF64) ratio = static_cast<double>(static_cast<float>(ratio));
    result.q[c] = std::clamp(std::nearbyint(ratio), -127.0, 127.0) + 0.0;  // no -0
  }
  return result;
}

/// Returns DequantizeRows of one level: rounded in A, then once more.
double dequantized(double level, double scale, DType dtype) {
  const double product = level * scale;
  if (dtype == DType::kF64) return product;
  const auto in_f32 = static_cast<float>(product);
  return dtype == DType::kF32 ? double{in_f32} : double{Bf16(in_f32)};
}

/// What comes back is as near as half a level and the roundings on the way allow: of the scale, the
/// ratio and the product (A), and of the result (X).
void require_near(const OpRunner& runner, double back, double x, double scale, DType dtype) {
  const double a = unit_roundoff(accumulator_of(dtype));
  const double on_the_way = 127 * (unit_roundoff(DType::kF32) + 2 * a);
  const double allowed = scale * (0.5 + on_the_way) + unit_roundoff(dtype) * std::abs(back);
  if (!(std::abs(back - x) <= allowed)) {
    runner.fail(fmt::format("made {} of {}, with scale {}", back, x, scale));
  }
}

}  // namespace

Outputs check_quantize(OpRunner& runner, DType dtype, const RowsCase& c) {
  runner.reset(text_of(dtype, c));
  const Shape shape{c.tokens, c.width};
  const std::vector<double> x = rows_of_all_kinds(dtype, c.tokens, c.width);
  const TensorView from = runner.upload(x, dtype, shape, c.width + c.gap);
  const TensorView q = runner.output(DType::kI8, shape, c.width + 2 * c.gap);
  const TensorView scale = runner.output(DType::kF32, {c.tokens});
  const TensorView to = runner.output(dtype, shape, c.width + c.gap);
  std::vector<double> scales;
  std::vector<double> levels;
  std::vector<double> back;
  for (std::int64_t n = 0; n < c.tokens; ++n) {
    const auto begin = x.begin() + n * c.width;
    const Quantized row = quantized({begin, begin + c.width}, dtype);
    scales.push_back(row.scale);
    levels.insert(levels.end(), row.q.begin(), row.q.end());
    for (const double level : row.q) back.push_back(dequantized(level, row.scale, dtype));
  }
  runner.run(QuantizeRows{.x = from, .q = q, .scale = scale});
  runner.require_equal("q", q, levels);
  runner.require_equal("scale", scale, scales);
  runner.run(DequantizeRows{.q = q, .scale = scale, .x = to});
  runner.require_equal("x", to, back);
  for (std::size_t i = 0; i < back.size(); ++i) {
    const double row_scale = scales[i / static_cast<std::size_t>(c.width)];
    if (row_scale == 0 || row_scale >= 0x1p-126) {
      require_near(runner, back[i], x[i], row_scale, dtype);
    }
  }
  return runner.outputs();
}

namespace {

/// Levels and scales of a cache as the definition has them.
struct Int8Cache {
  std::vector<double> levels;
  std::vector<double> scales;

  /// Puts the heads of row `from` of x [any, heads, width] to row `to`.
  void append(const std::vector<double>& x, std::size_t from, std::size_t to, std::size_t heads,
              DType dtype) {
    const std::size_t width = levels.size() / scales.size();
    for (std::size_t head = 0; head < heads; ++head) {
      const auto begin = x.begin() + static_cast<std::ptrdiff_t>((from * heads + head) * width);
      const Quantized row = quantized({begin, begin + static_cast<std::ptrdiff_t>(width)}, dtype);
      scales[to * heads + head] = row.scale;
      std::copy(row.q.begin(), row.q.end(),
                levels.begin() + static_cast<std::ptrdiff_t>((to * heads + head) * width));
    }
  }
  /// Returns element i as `dtype` has it.
  [[nodiscard]] double element(std::size_t i, DType dtype) const {
    return dequantized(levels[i], scales[i / (levels.size() / scales.size())], dtype);
  }
};

}  // namespace

Outputs check_int8_kv(OpRunner& runner, DType dtype, const RopeCase& c) {
  runner.reset(text_of(dtype, c));
  const std::int64_t rows = 2 * c.tokens + 5;
  const Shape added{c.tokens, c.heads, c.head_dim};
  const Shape cached{rows, c.heads, c.head_dim};
  const std::int64_t width = c.heads * c.head_dim;
  const auto k = rows_of_all_kinds(dtype, c.tokens * c.heads, c.head_dim);
  const auto v = random_values(2, added.elements(), dtype);
  std::array<Int8Cache, 2> expected;
  for (std::size_t i = 0; i < 2; ++i) {
    expected[i].levels = random_integers(5 + i, cached.elements(), 255);
    for (double& level : expected[i].levels) level -= 127;
    expected[i].scales = random_values(7 + i, rows * c.heads, DType::kF32);
  }
  const std::int64_t gap = 4 * c.gap;  // scales stay aligned
  const auto levels = [&](std::size_t i) {
    return runner.upload(expected[i].levels, DType::kI8, cached, 2 * width + gap);
  };
  const auto scales = [&](std::size_t i) {
    return runner.upload(expected[i].scales, DType::kF32, {rows, c.heads}, c.heads + c.gap);
  };
  const Int8Kv cache{.k = levels(0), .v = levels(1), .k_scale = scales(0), .v_scale = scales(1)};
  std::vector<double> places;  // every second row, from the last one down
  for (std::int64_t n = 0; n < c.tokens; ++n) {
    places.push_back(static_cast<double>(rows - 1 - 2 * n));
  }
  const auto heads = static_cast<std::size_t>(c.heads);
  for (std::size_t n = 0; n < places.size(); ++n) {
    expected[0].append(k, n, static_cast<std::size_t>(places[n]), heads, dtype);
    expected[1].append(v, n, static_cast<std::size_t>(places[n]), heads, dtype);
  }
  runner.run(AppendInt8Kv{.k = runner.upload(k, dtype, added, width + c.gap),
                          .v = runner.upload(v, dtype, added, width + c.gap),
                          .rows = runner.upload(places, DType::kI32, {c.tokens}),
                          .cache = cache});
  runner.require_equal("k", cache.k, expected[0].levels);
  runner.require_equal("v", cache.v, expected[1].levels);
  runner.require_equal("k_scale", cache.k_scale, expected[0].scales);
  runner.require_equal("v_scale", cache.v_scale, expected[1].scales);
  // The first two queries of five see rows 1 to 3, the last one what follows; row 0, and what is
  // beyond its past, nobody sees.
  const auto rest = static_cast<double>(rows - 4);
  const std::vector<double> segments{0, 1, 2, 4, 1, 2, 4, 1, rest, rest - 2, 0, 0, 0, 0, 0};
  const std::vector<double> before = random_values(9, cached.elements(), dtype);
  const TensorView to_k = runner.upload(before, dtype, cached, width + c.gap);
  const TensorView to_v = runner.upload(before, dtype, cached, width + 2 * c.gap);
  runner.run(DequantizeKv{.cache = cache,
                          .segments = runner.upload(segments, DType::kI32, {3, 5}),
                          .k = to_k,
                          .v = to_v});
  for (std::size_t i = 0; i < 2; ++i) {
    std::vector<double> back = before;
    const auto row = static_cast<std::size_t>(width);
    for (std::size_t r = 1; r + 1 < static_cast<std::size_t>(rows); ++r) {
      for (std::size_t at = r * row; at < (r + 1) * row; ++at) {
        back[at] = expected[i].element(at, dtype);
      }
    }
    runner.require_equal(i == 0 ? "k" : "v", i == 0 ? to_k : to_v, back);
  }
  return runner.outputs();
}

}  // namespace strata
