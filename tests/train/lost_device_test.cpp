// Tests that sessions whose device is lost under them wait for what the host still does, before the
// memory goes that it does it in.

#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <utility>

#include "checkpoint/memory_files.h"
#include "strata/complete/generation_session.h"
#include "strata/train/session.h"
#include "support/catch.h"
#include "support/fake_device.h"
#include "support/patience.h"
#include "support/tiny_config.h"
#include "support/tiny_model.h"
#include "train/save_ways.h"
#include "train/saved_run.h"

namespace strata::test {
namespace {

/// A device with a task of the host that runs until somebody waits for it, once the device is lost.
class Loss {
 public:
  explicit Loss(Lane lane) : lane_(lane) {}

  /// Makes the device; `make_backend` of a session is this.
  Backend make(const BackendOptions& options) {
    auto device = std::make_unique<FakeDevice>(
        options.device, FakeDevice::Hooks{.frees = [this] { free(); },
                                          .waits = [this](Event event) { wait(event); }});
    device_ = device.get();
    return make_fake_backend(std::move(device), options);
  }
  /// Loses the device while the task runs.
  void lose() {
    device_->stream(lane_).host_task("held", {}, {},
                                     [go = go_.get_future().share()] { go.wait(); });
    const bool runs =
        comes_true([this] { return device_->lane_state(lane_).doing == LaneState::Doing::kRuns; });
    REQUIRE(runs);
    device_->lose();
    lost_ = true;
  }
  /// Returns how often memory was given back while the task ran.
  [[nodiscard]] int freed_too_early() const { return freed_too_early_; }

 private:
  void free() {
    if (lost_ && !released_) ++freed_too_early_;
    release();
  }
  void wait(Event event) {
    if (event.lane == lane_) release();
  }
  void release() {
    if (lost_ && !std::exchange(released_, true)) go_.set_value();
  }

  Lane lane_;
  FakeDevice* device_ = nullptr;
  std::promise<void> go_;
  bool lost_ = false;
  bool released_ = false;
  int freed_too_early_ = 0;
};

}  // namespace

TEST_CASE("a training session whose device is lost waits for the lanes of the host") {
  for (const Lane lane : {Lane::kHost, Lane::kSave}) {
    Loss loss(lane);
    {
      const auto self = make_self_ranks();
      Session session(tiny_config(), *self,
                      {.make_backend = [&](BackendKind, const BackendOptions& options) {
                        return loss.make(options);
                      }});
      session.submit(0, 1e-2);
      session.synchronize();
      loss.lose();
    }
    CHECK(loss.freed_too_early() == 0);
  }
}

TEST_CASE("a generation session whose device is lost waits for the lanes of the host") {
  for (const Lane lane : {Lane::kHost, Lane::kSave}) {
    Loss loss(lane);
    {
      const GenerationSession session(
          {.folder = {},
           .random_model = tiny_model(),
           .backend = BackendChoice::kCpu,
           .threads = 1,
           .needs = {.context = 16},
           .make_backend = [&](BackendKind, const BackendOptions& options) {
             return loss.make(options);
           }});
      loss.lose();
    }
    CHECK(loss.freed_too_early() == 0);
  }
}

TEST_CASE("a save under which the device is lost is not waited for until it ends") {
  MemoryFiles files(kRunFolder);
  Loss loss(Lane::kSave);
  {
    const auto self = make_self_ranks();
    SessionHooks hooks;
    hooks.checkpoints = CheckpointPlace{.files = &files, .folder = kCheckpoints, .resume = {}};
    hooks.make_backend = [&](BackendKind, const BackendOptions& options) {
      return loss.make(options);
    };
    Session session(save_config({}), *self, hooks);
    session.submit(0, 1e-2);
    session.synchronize();
    loss.lose();
    Checkpointer& checkpoints = *session.checkpoints();
    const auto meanwhile = [] { throw std::logic_error("it is waited for"); };
    CHECK_THROWS_WITH(checkpoints.save_now({.whole = true}, 1, session.samples_after(1), meanwhile),
                      "the device is lost");
  }
  CHECK(loss.freed_too_early() == 0);
}

}  // namespace strata::test
