// Tests how far attention to int8 keys and values is from attention to what they were: no further
// than the rounding of each element, by half a scale, can bring it.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "strata/op_checks/op_runner.h"
#include "strata/op_checks/reference.h"
#include "support/catch.h"

namespace strata::test {
namespace {

constexpr std::int64_t kKeys = 300;
constexpr std::int64_t kHeads = 6;
constexpr std::int64_t kKvHeads = 2;
constexpr std::int64_t kWidth = 24;
const double kScale = 1 / std::sqrt(static_cast<double>(kWidth));

using Values = std::vector<double>;

/// Returns element [row, head, 0] of keys or values.
const double* at(const Values& x, std::int64_t row, std::int64_t head) {
  return x.data() + (row * kKvHeads + head) * kWidth;
}

double largest(const double* x) {
  double most = 0;
  for (std::int64_t d = 0; d < kWidth; ++d) most = std::max(most, std::abs(x[d]));
  return most;
}

/// Attention of one head to exact keys and values, and what rounding to levels makes of it, to
/// first order: of element d, sum_j p_j (e_j (v_jd - o_d) + f_jd), where e_j is the error of a
/// score and f_jd that of a value.
struct HeadResult {
  Values o = Values(kWidth);
  Values most = Values(kWidth);      ///< if all errors are half a level and add up
  Values variance = Values(kWidth);  ///< if they are uniform and independent

  HeadResult(const double* q, const Values& k, const Values& v, std::int64_t kv_head) {
    Values p;
    double magnitude = 0, squares = 0, top = -1e300, sum = 0;
    for (std::int64_t d = 0; d < kWidth; ++d) {
      magnitude += std::abs(q[d]);
      squares += q[d] * q[d];
    }
    for (std::int64_t j = 0; j < kKeys; ++j) {
      double score = 0;
      for (std::int64_t d = 0; d < kWidth; ++d) score += q[d] * at(k, j, kv_head)[d];
      p.push_back(score * kScale);
      top = std::max(top, p.back());
    }
    for (double& weight : p) sum += weight = std::exp(weight - top);
    for (double& weight : p) weight /= sum;
    for (std::int64_t j = 0; j < kKeys; ++j) {
      for (std::size_t d = 0; d < kWidth; ++d) {
        o[d] += p[static_cast<std::size_t>(j)] * at(v, j, kv_head)[d];
      }
    }
    for (std::int64_t j = 0; j < kKeys; ++j) {
      const double weight = p[static_cast<std::size_t>(j)];
      const double k_level = largest(at(k, j, kv_head)) / 127;
      const double v_level = largest(at(v, j, kv_head)) / 127;
      for (std::size_t d = 0; d < kWidth; ++d) {
        const double from_o = at(v, j, kv_head)[d] - o[d];
        most[d] += weight * (kScale * magnitude * k_level * std::abs(from_o) + v_level) / 2;
        const double of_score = kScale * k_level * from_o;
        variance[d] += weight * weight * (of_score * of_score * squares + v_level * v_level) / 12;
      }
    }
  }
};

}  // namespace

TEST_CASE("attention to int8 is as far from the exact one as rounding to levels makes it",
          "[ops]") {
  Backend backend = make_backend(BackendKind::kCpu, {.device = {}, .threads = 2});
  OpRunner runner(backend);
  constexpr DType kExact = DType::kF64;
  const Values q = random_values(1, kHeads * kWidth, kExact);
  Values k = random_values(2, kKeys * kKvHeads * kWidth, kExact);
  const Values v = random_values(3, kKeys * kKvHeads * kWidth, kExact);
  // One head is much larger than the other, which must not lose by it.
  for (std::int64_t j = 0; j < kKeys; ++j) {
    for (std::int64_t d = 0; d < kWidth; ++d)
      k[static_cast<std::size_t>(j * kKvHeads * kWidth + d)] *= 4;
  }
  const Shape shape{kKeys, kKvHeads, kWidth};
  const Shape scales{kKeys, kKvHeads};
  const Int8Kv cache{.k = runner.output(DType::kI8, shape),
                     .v = runner.output(DType::kI8, shape),
                     .k_scale = runner.output(DType::kF32, scales),
                     .v_scale = runner.output(DType::kF32, scales)};
  Values rows;
  for (std::int64_t j = 0; j < kKeys; ++j) rows.push_back(static_cast<double>(j));
  runner.run(AppendInt8Kv{.k = runner.upload(k, kExact, shape),
                          .v = runner.upload(v, kExact, shape),
                          .rows = runner.upload(rows, DType::kI32, {kKeys}),
                          .cache = cache});
  const TensorView o = runner.output(kExact, {1, kHeads, kWidth});
  runner.run(
      AttendInt8Kv{.q = runner.upload(q, kExact, {1, kHeads, kWidth}),
                   .cache = cache,
                   .segments = runner.upload({0, 0, 1, kKeys, kKeys - 1}, DType::kI32, {1, 5}),
                   .o = o,
                   .scale = kScale});
  const Values got = runner.download(o);
  std::vector<double> squares(kKvHeads), expected(kKvHeads);
  for (std::int64_t head = 0; head < kHeads; ++head) {
    const std::int64_t kv_head = head / (kHeads / kKvHeads);
    const HeadResult exact(q.data() + head * kWidth, k, v, kv_head);
    for (std::size_t d = 0; d < kWidth; ++d) {
      const double error = got[static_cast<std::size_t>(head * kWidth) + d] - exact.o[d];
      INFO("head " << head << ", element " << d);
      CHECK(std::abs(error) <= 1.2 * exact.most[d]);  // the rest is of second order
      squares[static_cast<std::size_t>(kv_head)] += error * error;
      expected[static_cast<std::size_t>(kv_head)] += exact.variance[d];
    }
  }
  for (std::size_t kv_head = 0; kv_head < kKvHeads; ++kv_head) {
    const double ratio = std::sqrt(squares[kv_head] / expected[kv_head]);
    INFO("kv head " << kv_head << ": " << ratio << " of the expected error");
    CHECK(ratio > 0.5);
    CHECK(ratio < 2);
  }
}

TEST_CASE("a key that is not finite makes what sees it not a number, and nothing else", "[ops]") {
  Backend backend = make_backend(BackendKind::kCpu, {.device = {}, .threads = 1});
  OpRunner runner(backend);
  constexpr DType kF32 = DType::kF32;
  Values k = random_values(2, 3 * 2 * 4, kF32);
  k[1 * 8 + 4 + 2] = INFINITY;  // of row 1, head 1
  const Shape shape{3, 2, 4};
  const Int8Kv cache{.k = runner.output(DType::kI8, shape),
                     .v = runner.output(DType::kI8, shape),
                     .k_scale = runner.output(kF32, {3, 2}),
                     .v_scale = runner.output(kF32, {3, 2})};
  runner.run(AppendInt8Kv{.k = runner.upload(k, kF32, shape),
                          .v = runner.upload(random_values(3, 24, kF32), kF32, shape),
                          .rows = runner.upload({0, 1, 2}, DType::kI32, {3}),
                          .cache = cache});
  const TensorView o = runner.output(kF32, {2, 2, 4});
  runner.run(
      AttendInt8Kv{.q = runner.upload(random_values(4, 16, kF32), kF32, {2, 2, 4}),
                   .cache = cache,
                   .segments = runner.upload({0, 0, 1, 1, 0, 1, 0, 1, 3, 2}, DType::kI32, {2, 5}),
                   .o = o});
  const Values got = runner.download(o);
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::isnan(got[i]) == (i >= 12));
}

}  // namespace strata::test
