// Tests how masks of dropout are distributed, on the CPU: how many elements are kept, and that
// neighbours, rows, seeds and streams are independent.

#include <cmath>
#include <cstdint>
#include <vector>

#include "strata/op_checks/checks.h"
#include "support/catch.h"

namespace strata::test {
namespace {

constexpr std::int64_t kRows = 500;
constexpr std::int64_t kColumns = 400;
constexpr double kRate = 0.1;

/// Returns 1 where an element is kept, else 0.
std::vector<int> mask_of(const DropoutMask& mask) {
  BackendOptions options;
  options.device.execution = Execution::kEager;
  options.threads = 1;
  Backend backend = make_backend(BackendKind::kCpu, options);
  OpRunner runner(backend);
  const Shape shape{kRows, kColumns};
  const TensorView x = runner.upload(std::vector<double>(kRows * kColumns, 1), DType::kF64, shape);
  runner.run(Dropout{.x = x, .y = x, .mask = mask});
  std::vector<int> kept;
  const Approx scaled(1 / (1 - kRate));
  std::int64_t others = 0;
  for (const double value : runner.download(x)) {
    others += value == 0 || value == scaled ? 0 : 1;
    kept.push_back(value == 0 ? 0 : 1);
  }
  CHECK(others == 0);
  return kept;
}

/// Requires that a count of independent events of this chance is within five deviations.
void require_usual(std::int64_t count, std::int64_t of, double chance) {
  const double expected = static_cast<double>(of) * chance;
  INFO(count << " of " << of << ", expected " << expected);
  REQUIRE(std::abs(static_cast<double>(count) - expected) < 5 * std::sqrt(expected * (1 - chance)));
}

/// Requires that two masks drop the same elements as often as independent ones do.
void require_independent(const std::vector<int>& a, const std::vector<int>& b, std::size_t apart) {
  std::int64_t both = 0;
  for (std::size_t i = apart; i < a.size(); ++i) both += (1 - a[i]) * (1 - b[i - apart]);
  require_usual(both, std::ssize(a), kRate * kRate);
}

}  // namespace

TEST_CASE("dropout drops as much as its rate says, in each row and in all", "[ops]") {
  const std::vector<int> mask = mask_of({.rate = kRate, .seed = 1, .stream = 2});
  std::int64_t all = 0;
  for (std::int64_t row = 0; row < kRows; ++row) {
    std::int64_t kept = 0;
    for (std::int64_t c = 0; c < kColumns; ++c) {
      kept += mask[static_cast<std::size_t>(row * kColumns + c)];
    }
    require_usual(kColumns - kept, kColumns, kRate);
    all += kept;
  }
  require_usual(kRows * kColumns - all, kRows * kColumns, kRate);
}

TEST_CASE("elements, rows, seeds and streams drop independently of each other", "[ops]") {
  const std::vector<int> mask = mask_of({.rate = kRate, .seed = 1, .stream = 2});
  for (const std::size_t apart : std::vector<std::size_t>{1, 2, 8, 64, 399, 400, 401, 800}) {
    INFO(apart << " apart");
    require_independent(mask, mask, apart);
  }
  require_independent(mask, mask_of({.rate = kRate, .seed = 2, .stream = 2}), 0);
  require_independent(mask, mask_of({.rate = kRate, .seed = 1, .stream = 3}), 0);
}

TEST_CASE("a row has the mask of its place, whatever rows stand beside it", "[ops]") {
  const std::vector<int> mask = mask_of({.rate = kRate, .seed = 1, .stream = 2});
  const std::vector<int> later = mask_of({.rate = kRate, .seed = 1, .stream = 2, .first = 100});
  CHECK(std::vector<int>(mask.begin() + 100 * kColumns, mask.end()) ==
        std::vector<int>(later.begin(), later.end() - 100 * kColumns));
}

}  // namespace strata::test
