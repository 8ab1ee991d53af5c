// Tests tokens of sweeps on their way to the device, and what is drawn there on its way back.
// Sweeps follow each other without a look at what was drawn, so that only the store keeps them
// apart.

#include "strata/store/token_store.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "support/catch.h"
#include "support/lane_machine.h"

namespace strata::test {

TEST_CASE("a sweep has the tokens that it was filled with, however many follow it") {
  constexpr int kTokens = 5;
  constexpr int kSampled = 3;
  constexpr int kSweeps = 4;
  for (const LaneOptions& options : all_executions()) {
    LaneMachine machine(options);
    TokenStore store({.tokens = kTokens, .segments = 2, .sampled = kSampled}, machine.kernels(),
                     machine.arenas());
    Stream& compute = machine.lane(Lane::kCompute);
    std::array<std::int64_t, kSweeps> found{};  // ids that are those of the sweep
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      std::ranges::fill(store.host().ids, sweep);
      TokenLease lease = store.upload(compute, {});
      compute.host_task(
          "draw", [&] { return Accesses({lease.ids.bytes()}, {lease.sampled.token.bytes()}); }, {},
          [ids = lease.ids.as<std::int32_t>(), drawn = lease.sampled.token.as<std::int32_t>(),
           sweep, &count = found.at(static_cast<std::size_t>(sweep))] {
            count = std::count(ids, ids + kTokens, sweep);
            std::fill_n(drawn, kSampled, 10 * sweep);
          });
      store.deliver(std::move(lease), {});
    }
    const SweepResults last = store.results(kSampled);
    CHECK(std::ranges::count(last.token, 10 * (kSweeps - 1)) == kSampled);
    machine.device().synchronize();
    for (const std::int64_t count : found) CHECK(count == kTokens);
    CHECK(machine.race() == "");
  }
}

}  // namespace strata::test
