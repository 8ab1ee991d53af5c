// Tests that a session predicts by rates that earlier runs had, and computes the same without them.

#include <memory>
#include <string>
#include <vector>

#include "strata/predict/stored_rates.h"
#include "support/catch.h"
#include "support/scratch_folder.h"
#include "support/session_run.h"

namespace strata::test {

TEST_CASE("a session predicts by stored rates, and its numbers do not change") {
  const ScratchFolder folder;
  RunConfig config = tiny_config();
  config.hardware.stored_rates = true;
  config.kernels.plan_cache = folder.file("cache");
  config.run.dtype = DType::kBF16;
  config.schedule.activations.reset();
  const std::unique_ptr<Ranks> alone = make_self_ranks();
  const auto chosen = [](const Session& session) {
    std::vector<std::string> keys;
    for (const PlacementChoice& choice : session.choices()) keys.push_back(choice.to_string());
    return keys;
  };
  std::string device;
  RunResult before, after;
  RunConfig by_rule;
  {
    Session session(config, *alone);
    device = session.device().info().name;
    CHECK_FALSE(session.setup().stored.has_value());
    CHECK(session.choices().empty());
    by_rule = session.config();
    before = run_steps(session);
  }
  // A host so slow that it is worth while to update layers on the device.
  HardwareSection slow_host;
  slow_host.product_tflops = 1e5;
  slow_host.attention_forward_tflops = slow_host.attention_backward_tflops = 1e5;
  slow_host.device_gbs = 1e5;
  slow_host.host_gbs = 1e-4;
  save_rates(device, slow_host, config.run.threads, stored_rates_file(config.kernels, device));
  {
    Session session(config, *alone);
    REQUIRE(session.setup().stored.has_value());
    CHECK(session.setup().stored->rates.host_gbs == 1e-4);
    CAPTURE(chosen(session));
    CHECK(session.config().optimizer.interleave != by_rule.optimizer.interleave);
    after = run_steps(session);
  }
  REQUIRE(!before.losses.empty());
  CHECK(before.losses == after.losses);
}

}  // namespace strata::test
