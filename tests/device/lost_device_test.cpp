// Tests what a device waits for when some of its lanes cannot be waited for any more.

#include <atomic>
#include <future>
#include <vector>

#include "strata/base/error.h"
#include "support/catch.h"
#include "support/fake_device.h"

namespace strata {

TEST_CASE("a wait for all lanes of a lost device is one for those of the host, and fails then") {
  std::promise<void> go;
  std::atomic<bool> ended = false;
  std::vector<Lane> waited;
  FakeDevice device({}, {.waits = [&](Event event) {
                      waited.push_back(event.lane);
                      if (event.lane == Lane::kHost) go.set_value();
                    }});
  for (const Lane lane : {Lane::kCompute, Lane::kHost, Lane::kSave}) {
    device.stream(lane).host_task("work", {}, {}, [] {});
  }
  device.lose();
  device.stream(Lane::kHost).host_task("held", {}, {}, [&, end = go.get_future().share()] {
    end.wait();
    ended = true;
  });
  CHECK_THROWS_WITH(device.synchronize_but(Lane::kSave), ContainsSubstring("lost"));
  CHECK(ended);
  CHECK(waited == std::vector<Lane>{Lane::kCompute, Lane::kHost});
}

}  // namespace strata
