// Cases of rows, and of keys and values, as int8 with a scale each, and back, compared bit by bit
// with the definitions of strata/ops/quantize.h and kv_cache.h.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "support/catch.h"
#include "support/op_cases.h"
#include "support/op_reference.h"

namespace strata::test {

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

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

/// What comes back is as near as half a level and the roundings on the way allow: of the scale, the
/// ratio and the product (A), and of the result (X).
void require_near(const std::vector<double>& back, const std::vector<double>& x, double scale,
                  DType dtype) {
  const double a = unit_roundoff(accumulator_of(dtype));
  const double on_the_way = 127 * (unit_roundoff(DType::kF32) + 2 * a);
  for (std::size_t c = 0; c < x.size(); ++c) {
    const double allowed = scale * (0.5 + on_the_way) + unit_roundoff(dtype) * std::abs(back[c]);
    if (!(std::abs(back[c] - x[c]) <= allowed)) {
      FAIL("element " << c << " came back as " << back[c] << " for " << x[c] << ", scale "
                      << scale);
    }
  }
}

}  // namespace

Outputs check_quantize(OpRunner& runner, DType dtype, const RowsCase& c) {
  runner.reset();
  const Shape shape{c.tokens, c.width};
  const std::vector<double> x = rows_of_all_kinds(dtype, c.tokens, c.width);
  const TensorView from = runner.upload(x, dtype, shape, c.width + c.gap);
  const TensorView q = runner.output(DType::kI8, shape, c.width + 2 * c.gap);
  const TensorView scale = runner.output(DType::kF32, {c.tokens});
  const TensorView to = runner.output(dtype, shape, c.width + c.gap);
  runner.run(QuantizeRows{.x = from, .q = q, .scale = scale});
  runner.run(DequantizeRows{.q = q, .scale = scale, .x = to});
  const Outputs got{runner.download(q), runner.download(scale), runner.download(to)};
  std::vector<double> scales;
  std::vector<double> levels;
  for (std::int64_t n = 0; n < c.tokens; ++n) {
    const auto begin = static_cast<std::ptrdiff_t>(n * c.width);
    const std::vector<double> row(x.begin() + begin, x.begin() + begin + c.width);
    const std::vector<double> back(got[2].begin() + begin, got[2].begin() + begin + c.width);
    const Quantized expected = quantized(row, dtype);
    scales.push_back(expected.scale);
    levels.insert(levels.end(), expected.q.begin(), expected.q.end());
    if (std::isnan(expected.scale)) {
      REQUIRE(std::all_of(back.begin(), back.end(), [](double v) { return std::isnan(v); }));
    } else if (expected.scale == 0 || expected.scale >= 0x1p-126) {
      require_near(back, row, expected.scale, dtype);
    }
  }
  require_equal("q", got[0], levels);
  require_equal("scale", got[1], scales);
  REQUIRE(runner.guards_intact());
  return got;
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
  /// Returns element i as `dtype` has it: rounded in A, then once more.
  [[nodiscard]] double element(std::size_t i, DType dtype) const {
    const double product = levels[i] * scales[i / (levels.size() / scales.size())];
    if (dtype == DType::kF64) return product;
    const auto in_f32 = static_cast<float>(product);
    return dtype == DType::kF32 ? double{in_f32} : double{Bf16(in_f32)};
  }
};

}  // namespace

Outputs check_int8_kv(OpRunner& runner, DType dtype, const RopeCase& c) {
  runner.reset();
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
  runner.run(AppendInt8Kv{.k = runner.upload(k, dtype, added, width + c.gap),
                          .v = runner.upload(v, dtype, added, width + c.gap),
                          .rows = runner.upload(places, DType::kI32, {c.tokens}),
                          .cache = cache});
  const auto heads = static_cast<std::size_t>(c.heads);
  for (std::size_t n = 0; n < places.size(); ++n) {
    expected[0].append(k, n, static_cast<std::size_t>(places[n]), heads, dtype);
    expected[1].append(v, n, static_cast<std::size_t>(places[n]), heads, dtype);
  }
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
  const Outputs got{runner.download(cache.k),       runner.download(cache.v),
                    runner.download(cache.k_scale), runner.download(cache.v_scale),
                    runner.download(to_k),          runner.download(to_v)};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string name = i == 0 ? "k" : "v";
    require_equal(name, got[i], expected[i].levels);
    require_equal(name + "_scale", got[2 + i], expected[i].scales);
    std::vector<double> back = before;
    const auto row = static_cast<std::size_t>(width);
    for (std::size_t r = 1; r + 1 < static_cast<std::size_t>(rows); ++r) {
      for (std::size_t at = r * row; at < (r + 1) * row; ++at) {
        back[at] = expected[i].element(at, dtype);
      }
    }
    require_equal("dequantised " + name, got[4 + i], back);
  }
  REQUIRE(runner.guards_intact());
  return got;
}

}  // namespace strata::test
