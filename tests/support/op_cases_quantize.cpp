// Cases of rows as int8 with a scale each, and back, compared bit by bit with the definition of
// strata/ops/quantize.h.

#include <algorithm>
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

}  // namespace strata::test
