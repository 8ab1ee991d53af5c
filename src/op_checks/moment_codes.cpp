// The check of AdamW with moments in 8 bits, compared bit by bit with what codes and scales mean
// (docs/decisions/0053-moments-in-8-bits.md), in f64.

#include <algorithm>
#include <cmath>

#include "op_checks/adamw_reference.h"
#include "strata/op_checks/checks.h"
#include "strata/op_checks/reference.h"

namespace strata {

namespace {

/// Codes of moments: so many doublings above those that count by ones.
struct CodeFormat {
  int doublings;
  bool has_sign;
};
constexpr CodeFormat kFormats[] = {{6, true}, {14, false}};  // of m and v

double decoded(double code, double scale, const CodeFormat& format) {
  const int k = static_cast<int>(code) % (format.has_sign ? 128 : 256);
  const double number = k < 16 ? k : (16 + k % 16) * std::exp2(k / 16 - 1);
  const double value = number * std::exp2(scale - 127);
  return code > k ? -value : value;
}

/// The smallest scale with which the last code is not below `largest`; 0 for 0, -1 if there is
/// none.
int scale_for(double largest, const CodeFormat& format) {
  if (largest == 0) return 0;
  if (!(largest <= 31.0 / 16 * 0x1p127)) return -1;
  int scale = 1;
  while (31 * std::exp2(format.doublings + scale - 127) < largest) ++scale;
  return scale;
}

/// The code of x, rounded by 16 random bits: the next one if the fraction of its step and theirs
/// make a whole one.
double code_for(double x, int scale, std::uint32_t random, const CodeFormat& format) {
  if (scale <= 0) return 0;
  const double steps = std::abs(x) * std::exp2(127 - scale);
  double place = std::nearbyint(steps * 0x1p19) * 0x1p-19;
  if (steps >= 16) {
    const int doubling = std::ilogb(steps) - 4;
    place = 16.0 * doubling + steps * std::exp2(-doubling);
  }
  const double code = std::floor(place + (8.0 * random + 4) * 0x1p-19);
  if (!format.has_sign) return x == 0 ? 0 : std::max(code, 1.0);
  return code + (std::signbit(x) ? 128 : 0);
}

/// A moment of a run of parameters, with the scales of its blocks of 64.
struct CodedMoment {
  CodeFormat format;
  std::vector<double> codes;
  std::vector<double> scales;

  /// Any codes, with scales of ordinary numbers, the least and the largest one, or no scale.
  CodedMoment(std::uint64_t stream, std::int64_t n, const CodeFormat& of)
      : format(of), codes(random_integers(stream, n, 256)) {
    constexpr int kReach = 254 - 4;
    const double special[] = {0, 1, static_cast<double>(kReach - format.doublings)};
    for (const double pick : random_integers(stream + 1, (n + 63) / 64, 24)) {
      scales.push_back(pick < 3 ? special[static_cast<std::size_t>(pick)] : 90 + pick);
    }
    for (std::size_t i = 0; i < codes.size(); ++i) {
      if (scales[i / 64] == 0) codes[i] = 0;
    }
  }
  [[nodiscard]] float value(std::size_t i) const {
    return static_cast<float>(decoded(codes[i], scales[i / 64], format));
  }
  /// Takes new values of all; returns whether they are finite.
  bool encode(const std::vector<float>& values, const std::vector<std::uint32_t>& random) {
    bool finite = true;
    for (std::size_t block = 0; block < scales.size(); ++block) {
      const std::size_t end = std::min(64 * block + 64, values.size());
      double largest = 0;
      for (std::size_t i = 64 * block; i < end; ++i) {
        const double size = std::abs(static_cast<double>(values[i]));
        largest = size > largest || std::isnan(size) ? size : largest;
        if (std::isnan(size)) break;
      }
      const int scale = scale_for(largest, format);
      finite = finite && scale >= 0;
      scales[block] = std::max(scale, 0);
      for (std::size_t i = 64 * block; i < end; ++i) {
        codes[i] = code_for(static_cast<double>(values[i]), scale, random[i], format);
      }
    }
    return finite;
  }
};

/// Gradients of which those of three blocks of 64 in four are neither huge nor without a number.
std::vector<double> mostly_tame_values(std::uint64_t stream, std::int64_t n, DType dtype) {
  std::vector<double> values = wild_values(stream, n, dtype, false);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i / 64 % 4 != 3 && !(std::abs(values[i]) < 1e6)) values[i] = -1.25;
  }
  return values;
}

/// Both moments beside each other, as they lie in memory: the scales of m and v of each block.
std::vector<double> interleaved(const std::vector<double>& m, const std::vector<double>& v) {
  std::vector<double> both;
  for (std::size_t i = 0; i < m.size(); ++i) both.insert(both.end(), {m[i], v[i]});
  return both;
}

/// AdamW's state in f32, and the moments that it has between updates.
struct CodedState {
  std::vector<float> w;
  CodedMoment m, v;

  /// Does an update of `op`; returns whether all that was written is finite.
  bool update(const std::vector<double>& grad, const AdamWScalars& s, const AdamW& op) {
    const bool rounds = op.weight.dtype == DType::kBF16 && !op.low;
    bool finite = true;
    std::vector<float> new_m, new_v;
    std::vector<std::uint32_t> random_m, random_v;
    for (std::size_t i = 0; i < w.size(); ++i) {
      const Element<float> next =
          step(Element<float>{w[i], m.value(i), v.value(i)}, static_cast<float>(grad[i]), s, op);
      w[i] = rounds ? only_bf16(next.w, s, op, i) : next.w;
      finite = finite && std::isfinite(next.w);
      new_m.push_back(next.m);
      new_v.push_back(next.v);
      const std::uint32_t random = rounding_bits(s.rounding_seed, op.rounding_stream,
                                                 static_cast<std::size_t>(op.rounding_begin) + i);
      random_m.push_back(random % 0x10000u);
      random_v.push_back(random / 0x10000u);
    }
    finite = m.encode(new_m, random_m) && finite;
    return v.encode(new_v, random_v) && finite;
  }
};

}  // namespace

Outputs check_adamw_with_codes(OpRunner& runner, const AdamWCase& c) {
  const std::int64_t n = c.elements;
  const std::vector<double> w = random_values(1, n, c.split ? DType::kF32 : c.weight);
  CodedState state{.w = {w.begin(), w.end()},
                   .m = CodedMoment(20, n, kFormats[0]),
                   .v = CodedMoment(30, n, kFormats[1])};
  AdamW op;
  upload_weights(runner, w, c, op);
  op.m = runner.upload(state.m.codes, kMomentCode, {n});
  op.v = runner.upload(state.v.codes, kMomentCode, {n});
  op.scale = runner.upload(interleaved(state.m.scales, state.v.scales), kMomentCode,
                           {(n + kMomentBlock - 1) / kMomentBlock, kMomentScales});
  op.lr_factor = 0.7;
  op.weight_decay = 0.1;
  op.rounding_stream = 77;
  op.rounding_begin = c.rounding_begin;
  op.nonfinite = runner.upload({0}, DType::kI32, {1});
  bool all_finite = true;
  for (int t = 1; t <= 3; ++t) {
    const AdamWScalars s = scalars_of_update(t);
    const auto grad = mostly_tame_values(static_cast<std::uint64_t>(10 + t), n, c.grad);
    op.grad = runner.upload(grad, c.grad, {n});
    op.scalars = static_cast<const AdamWScalars*>(runner.upload_bytes(&s, sizeof s));
    runner.run(op);
    all_finite = state.update(grad, s, op) && all_finite;
  }
  runner.require_equal("m", op.m, state.m.codes);
  runner.require_equal("v", op.v, state.v.codes);
  runner.require_equal("scale", op.scale, interleaved(state.m.scales, state.v.scales));
  require_weights(runner, op, {state.w.begin(), state.w.end()}, all_finite);
  return runner.outputs();
}

}  // namespace strata
