// Tests slots whose contents have homes on the host: what is read does not depend on the number of
// slots, and what cannot be right is refused. A form that brings back the complement shows whether
// a read came from home.

#include "strata/store/spill_ring.h"

#include <memory>
#include <stdexcept>

#include "strata/base/bytes.h"
#include "strata/ops/backend.h"
#include "support/catch.h"

namespace strata::test {
namespace {

constexpr std::size_t kBytes = 256;

/// Comes back as the bitwise complement: lossy beyond doubt.
class ComplementForm final : public HomeForm {
 public:
  std::size_t send(Stream& out, std::byte* home, const std::byte* slot, std::size_t bytes,
                   const Tag& tag) override {
    return ExactForm().send(out, home, slot, bytes, tag);
  }
  std::size_t fetch(Stream& in, std::byte* slot, const std::byte* home, std::size_t bytes,
                    const Tag& tag) override {
    in.host_task(
        "complement", [&] { return Accesses({{home, bytes}}, {{slot, bytes}}); }, tag,
        [=] {
          for (std::size_t i = 0; i < bytes; ++i) slot[i] = ~home[i];
        });
    return bytes;
  }
  [[nodiscard]] bool lossy() const override { return true; }
};

struct SpillRig {
  explicit SpillRig(int slots, int things, std::unique_ptr<HomeForm> form, int homeless = 0) {
    BackendOptions options;
    options.device.execution = Execution::kShuffled;
    backend = make_backend(BackendKind::kCpu, options);
    device_arena = std::make_unique<Arena>(*backend.device, Space::kDevice, kMiB, "device");
    pinned = std::make_unique<Arena>(*backend.device, Space::kPinned, kMiB, "pinned");
    std::vector<SpillRing::Thing> all(static_cast<std::size_t>(things), {.bytes = kBytes});
    for (int i = homeless; i < things; ++i) {
      all[static_cast<std::size_t>(i)].home = pinned->allocate("homes", kBytes);
    }
    ring = std::make_unique<SpillRing>(
        *backend.device, SlotRing(*device_arena, "slots", slots, kBytes), std::move(all), 1,
        SpillRing::Evict::kNeededLast, std::move(form));
  }
  Stream& compute() { return backend.device->stream(Lane::kCompute); }
  void produce(std::int64_t thing) {
    Lease lease = ring->produce(thing, compute());
    compute().set(lease.data(), static_cast<std::uint8_t>(thing), kBytes, {});
    ring->keep(std::move(lease), thing, {});
  }
  std::uint8_t read(std::int64_t thing) {
    const Lease lease = ring->acquire(thing, compute(), {});
    ring->prefetch({});
    backend.device->synchronize();
    return static_cast<std::uint8_t>(lease.data()[kBytes - 1]);
  }

  Backend backend;
  std::unique_ptr<Arena> device_arena, pinned;
  std::unique_ptr<SpillRing> ring;
};

}  // namespace

TEST_CASE(
    "in a lossy form the first read is what was written and every later one comes from home") {
  for (const int slots : {4, 5, 8}) {
    INFO(slots << " slots");
    SpillRig rig(slots, 3, std::make_unique<ComplementForm>());
    rig.ring->begin_pass({0, 1, 2, 2, 1, 0});
    for (int i = 0; i < 3; ++i) rig.produce(i);
    for (int i = 0; i < 3; ++i) CHECK(rig.read(i) == i);
    for (int i = 2; i >= 0; --i) CHECK(rig.read(i) == 255 - i);
    CHECK(rig.ring->spilled_bytes() == 3 * kBytes);
    CHECK(rig.ring->loaded_bytes() == 3 * kBytes);
  }
}

TEST_CASE("what is read once, from its slot, is not sent home in a lossy form") {
  SpillRig rig(3, 3, std::make_unique<ComplementForm>());
  rig.ring->begin_pass({0, 1, 2, 1});
  for (int i = 0; i < 3; ++i) rig.produce(i);
  CHECK(rig.ring->spilled_bytes() == kBytes);
}

TEST_CASE("content that is still needed and has no home is never given up") {
  SpillRig homeless(2, 3, std::make_unique<ExactForm>(), 3);
  homeless.ring->begin_pass({0, 1, 2});
  homeless.produce(0);
  homeless.produce(1);
  CHECK_THROWS_AS(homeless.ring->produce(2, homeless.compute()), std::logic_error);
  // Written content that forward has yet to read has no home in a lossy form.
  SpillRig lossy(2, 3, std::make_unique<ComplementForm>());
  lossy.ring->begin_pass({0, 1, 2, 2, 1, 0});
  lossy.produce(0);
  lossy.produce(1);
  CHECK_THROWS_AS(lossy.ring->produce(2, lossy.compute()), std::logic_error);
}

TEST_CASE("reads that were not planned, and of what was not written, are refused") {
  SpillRig rig(2, 3, std::make_unique<ExactForm>());
  rig.ring->begin_pass({0, 1});
  rig.produce(0);
  CHECK_THROWS_AS(rig.ring->acquire(1, rig.compute(), {}), std::logic_error);
  CHECK(rig.read(0) == 0);
  CHECK_THROWS_AS(rig.ring->acquire(1, rig.compute(), {}), std::logic_error);  // not written
  rig.produce(1);
  CHECK(rig.read(1) == 1);
  CHECK_THROWS_AS(rig.ring->acquire(1, rig.compute(), {}), std::logic_error);  // a third read
}

}  // namespace strata::test
