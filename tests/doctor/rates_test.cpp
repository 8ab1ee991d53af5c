// Rates are measured by the same calls on every backend, and judged by what a GPU's host and link
// usually reach.

#include <string>
#include <vector>

#include "doctor/judge.h"
#include "doctor/measure_rates.h"
#include "strata/base/bytes.h"
#include "strata/device/gpu_models.h"
#include "strata/ops/backend.h"
#include "support/catch.h"

namespace strata::test {
namespace {

/// A clock by which whatever happens between two looks takes a second.
RateClock second_by_second() {
  return [looks = 0.0]() mutable { return ++looks; };
}

TEST_CASE("copies are measured both ways on any device") {
  const Backend backend = make_backend(BackendKind::kCpu, {.device = {}, .threads = 1});
  const LinkRates rates = measure_link(*backend.device, kMiB, 2, second_by_second());
  // Two pieces each way in a second.
  const double gbs = 2e-9 * static_cast<double>(kMiB);
  CHECK(rates.in_gbs == Approx(gbs));
  CHECK(rates.out_gbs == Approx(gbs));
  CHECK(rates.both_gbs == Approx(gbs));
}

TEST_CASE("a host without memory for it is not measured, and says so") {
  const HostRates rates = measure_host(2, kMiB);
  CHECK(rates.updates.empty());
  CHECK(judge_rates(rates, "").verdict == Verdict::kOk);
  CHECK_THAT(judge_rates(rates, "").found, ContainsSubstring("too little memory"));
}

TEST_CASE("AdamW is measured by 1, 2, 4 and all threads", "[long]") {
  const HostRates rates = measure_host(3, 4 * kGiB, second_by_second());
  CHECK(rates.problem.empty());
  REQUIRE(rates.updates.size() == 3);
  CHECK(rates.updates[0].threads == 1);
  CHECK(rates.updates[1].threads == 2);
  CHECK(rates.updates[2].threads == 3);
  // An update of 2^24 parameters and a copy of their 4 bytes each take a second. AdamW reads and
  // writes a bf16 weight, its 16 low bits and two moments, and reads a bf16 gradient.
  constexpr double kParameters = 1 << 24;
  for (const HostRates::Update& update : rates.updates) {
    CHECK(update.gbs == Approx(kParameters * (2 * (2 + 2 + 4 + 4) + 2) * 1e-9));
  }
  CHECK(rates.copy_gbs == Approx(kParameters * 2 * 4 * 1e-9));
}

TEST_CASE("a link far below that of its GPU is found, and one that fails") {
  const double usual = link_gbs_of_device("NVIDIA H200");
  const std::vector<LinkRates> links{
      {.device = 0,
       .gpu = "NVIDIA H200",
       .in_gbs = usual,
       .out_gbs = usual,
       .both_gbs = 0.9 * usual},
      {.device = 1, .gpu = "NVIDIA H200", .in_gbs = 6, .out_gbs = 6, .both_gbs = 5},
      {.device = 2, .gpu = "NVIDIA H200", .problem = "cudaHostRegister: out of memory"}};
  const std::vector<Finding> findings = judge_links(links);
  REQUIRE(findings.size() == 3);
  CHECK(findings[0].verdict == Verdict::kOk);
  CHECK(findings[1].verdict == Verdict::kWarn);
  CHECK_THAT(findings[1].remedy, ContainsSubstring("slot"));
  CHECK(findings[2].verdict == Verdict::kBad);
  CHECK_THAT(findings[2].remedy, ContainsSubstring("cudaHostRegister"));
}

TEST_CASE("a host far below what such a GPU usually has is found") {
  const double usual = gpu_of_device("NVIDIA H200")->host_gbs;
  const HostRates good{.copy_gbs = usual, .updates = {{1, usual / 20}, {16, usual}}};
  const HostRates slow{.copy_gbs = usual, .updates = {{1, usual / 20}, {16, usual / 3}}};
  CHECK(judge_rates(good, "NVIDIA H200").verdict == Verdict::kOk);
  CHECK(judge_rates(slow, "").verdict == Verdict::kOk);
  const Finding found = judge_rates(slow, "NVIDIA H200");
  CHECK(found.verdict == Verdict::kWarn);
  CHECK_THAT(found.remedy, ContainsSubstring("memory channels"));
}

}  // namespace
}  // namespace strata::test
