// Draws the numbers of checks of updates, and compares weights in one piece and in halves.

#include "op_checks/adamw_reference.h"

#include <bit>
#include <limits>

#include "strata/base/random.h"
#include "strata/op_checks/reference.h"

namespace strata {

namespace {

/// The two halves of a split f32, found by the definition of strata/ops/optimizer.h.
struct Halves {
  double high, low;
};
Halves split(double w) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(w));
  const std::uint32_t high = (bits + 0x8000u) >> 16;
  const auto low = static_cast<std::int32_t>(bits - (high << 16));
  const float high_value = std::bit_cast<float>((high & 0xffffu) << 16);
  return {high_value, static_cast<double>(low)};
}

}  // namespace

std::uint32_t rounding_bits(std::uint64_t seed, std::uint64_t stream, std::size_t i) {
  const std::uint64_t key = random_bits(seed, stream, i / 4096);
  auto x = static_cast<std::uint32_t>((key & 0xffffffffu) + (i % 4096) * 0x9e3779b9u);
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return (x ^ (x >> 16)) ^ static_cast<std::uint32_t>(key >> 32);
}

std::vector<double> wild_values(std::uint64_t stream, std::int64_t n, DType dtype, bool positive) {
  const double tiny = dtype == DType::kF64 ? 0x1p-1060 : 0x1p-130;  // denormal
  const double huge = dtype == DType::kF64 ? 0x1p1000 : 0x1p120;
  const double special[] = {tiny,
                            -tiny,
                            0.0,
                            -0.0,
                            huge,
                            -huge,
                            std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()};
  std::vector<double> values = random_values(stream, n, dtype);
  const auto picks = random_integers(stream + 100, n, 64);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (picks[i] < 8) values[i] = special[static_cast<std::size_t>(picks[i])];
    if (positive) values[i] = std::abs(values[i]);
  }
  return values;
}

AdamWScalars scalars_of_update(int t) {
  AdamWScalars s{.lr = 3e-4 * t, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
  s.correction1 = 1 - std::pow(s.beta1, t);
  s.correction2 = 1 - std::pow(s.beta2, t);
  s.grad_factor = t == 2 ? 0.73 : 1.0;
  s.rounding_seed = static_cast<std::uint64_t>(1000 + t);
  return s;
}

template <class Update>
void upload_weights(OpRunner& runner, const std::vector<double>& w, const AdamWCase& c,
                    Update& op) {
  const auto n = static_cast<std::int64_t>(w.size());
  if (c.weight != DType::kBF16 || !c.split) {
    op.weight = runner.upload(w, c.weight, {n});
    return;
  }
  std::vector<double> high, low;
  for (const double x : w) {
    high.push_back(split(x).high);
    low.push_back(split(x).low);
  }
  op.weight = runner.upload(high, c.weight, {n});
  op.low = runner.upload(low, DType::kI16, {n});
}

template <class Update>
void require_weights(OpRunner& runner, const Update& op, const std::vector<double>& w,
                     bool all_finite) {
  std::vector<double> got = runner.download(op.weight);
  if (op.low) {
    std::vector<double> low = runner.download(op.low);
    std::vector<double> expected_high, expected_low;
    for (std::size_t i = 0; i < w.size(); ++i) {
      expected_high.push_back(split(w[i]).high);
      expected_low.push_back(split(w[i]).low);
      if (!std::isnan(w[i])) continue;
      got[i] = expected_high[i];
      low[i] = expected_low[i];
    }
    runner.require_equal("weight", got, expected_high);
    runner.require_equal("low", low, expected_low);
  } else {
    runner.require_equal("weight", got, w);
  }
  if (runner.download(op.nonfinite)[0] != (all_finite ? 0 : 1)) {
    runner.fail("said wrongly whether everything is finite");
  }
}

template void upload_weights(OpRunner&, const std::vector<double>&, const AdamWCase&, AdamW&);
template void upload_weights(OpRunner&, const std::vector<double>&, const AdamWCase&, Momentum&);
template void require_weights(OpRunner&, const AdamW&, const std::vector<double>&, bool);
template void require_weights(OpRunner&, const Momentum&, const std::vector<double>&, bool);

}  // namespace strata
