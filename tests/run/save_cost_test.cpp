// Compares what a save is predicted to cost with what one costs in a run whose disk is so slow that
// nothing else counts.

#include <cmath>
#include <memory>

#include "checkpoint/memory_files.h"
#include "run/save_ways.h"
#include "run/saved_run.h"
#include "strata/base/process.h"
#include "strata/checkpoint/throttled_files.h"
#include "strata/plan/save_prediction.h"
#include "support/catch.h"

namespace strata::test {
namespace {

constexpr double kDiskGbs = 0.0015;
constexpr std::int64_t kSteps = 5;

/// Returns a run of some megabytes of state, half of it staged, on rates at which only the disk
/// takes time.
RunConfig slow_disk_config() {
  RunConfig config = save_config({}, {}, Staged::kNone);
  config.model.llama.hidden_size = 64;
  config.model.llama.intermediate_size = 256;
  config.debug.poison_slots = false;
  constexpr double kInstant = 1e6;
  for (auto* rate : {&config.hardware.product_tflops, &config.hardware.attention_forward_tflops,
                     &config.hardware.attention_backward_tflops, &config.hardware.device_gbs,
                     &config.hardware.host_gbs, &config.hardware.link_gbs}) {
    *rate = kInstant;
  }
  config.checkpoint.staging = ByteSize{1'500'000};
  return config;
}

/// Returns how long the steps behind the first take, which is saved if `due`.
double steps_s(Session& session, double lr, bool due) {
  REQUIRE(session.submit(0, lr, {.whole = due}).any() == due);
  const double begin_s = steady_seconds();
  for (std::int64_t step = 1; step < kSteps; ++step) {
    static_cast<void>(session.submit(step, lr));
  }
  session.synchronize();
  const double taken_s = steady_seconds() - begin_s;
  session.checkpoints()->wait();
  return taken_s;
}

}  // namespace

TEST_CASE("a save on a slow disk holds up training as long as predicted", "[long]") {
  const RunConfig config = slow_disk_config();
  const auto measured_s = [&](bool due) {
    MemoryFiles memory(kRunFolder);
    ThrottledFiles files(memory, kDiskGbs);
    const auto self = make_self_ranks();
    Session session(
        config, *self,
        {.checkpoints = CheckpointPlace{.files = &files, .folder = kCheckpoints, .resume = {}}});
    return steps_s(session, config.optimizer.lr, due);
  };
  const auto self = make_self_ranks();
  MemoryFiles memory(kRunFolder);
  const Session session(
      config, *self,
      {.checkpoints = CheckpointPlace{.files = &memory, .folder = kCheckpoints, .resume = {}}});
  const SavePrediction p = predict_save(session.setup(), "a device of this test", kDiskGbs);
  REQUIRE(p.unknown == "");
  const double blocked_s = measured_s(true) - measured_s(false);
  INFO("blocked " << blocked_s << " s, predicted " << p.blocked_s << " s of " << p.write_s);
  CHECK(p.blocked_s < 0.8 * p.write_s);
  CHECK(std::abs(blocked_s / p.blocked_s - 1) < 0.2);
}

}  // namespace strata::test
