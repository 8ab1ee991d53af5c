// Tests that algorithms which a library proposes and then refuses are passed over, with a library
// that is made up: an algorithm is a number, and some numbers are refused.

#include "kernels/cuda/products/candidates.h"

#include "support/catch.h"

namespace strata::test {
namespace {

TEST_CASE("an algorithm that is refused is no candidate and stops no choice") {
  using Fingerprint = std::optional<std::uint64_t>;
  const auto fingerprint = [](int algorithm) -> Fingerprint {
    if (algorithm == 1 || algorithm == 4) return std::nullopt;
    return algorithm == 2 ? 7 : 0;
  };
  CHECK(cuda::with_fingerprint(std::vector{1, 2, 3, 4, 5}, 0, fingerprint) == std::vector{3, 5});
  CHECK(cuda::with_fingerprint(std::vector{1, 4}, 0, fingerprint).empty());
}

TEST_CASE("the first algorithm that is not refused is launched, and those before it never again") {
  std::vector<int> tried;
  const auto launch = [&](int algorithm) {
    tried.push_back(algorithm);
    return algorithm >= 3;
  };
  std::vector<int> algorithms{1, 2, 3, 4};
  CHECK(cuda::launch_first(algorithms, launch));
  CHECK(tried == std::vector{1, 2, 3});
  CHECK(algorithms == std::vector{3, 4});
  tried.clear();
  CHECK(cuda::launch_first(algorithms, launch));
  CHECK(tried == std::vector{3});
}

TEST_CASE("nothing is launched where every algorithm is refused") {
  std::vector<int> algorithms{1, 2};
  CHECK(!cuda::launch_first(algorithms, [](int) { return false; }));
  CHECK(algorithms.empty());
  CHECK(!cuda::launch_first(algorithms, [](int) { return true; }));
}

}  // namespace
}  // namespace strata::test
