// Tests what leases wait for and which slot is filled next, by the waits in the trace of an eager
// cpu device.

#include "strata/device/slot_ring.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "strata/base/error.h"
#include "support/catch.h"

using namespace strata;

namespace {

constexpr std::size_t kBytes = 512;

/// A traced eager device with a ring of three slots.
struct Rig {
  explicit Rig(DeviceOptions options = {.execution = Execution::kEager}) {
    options.trace = &trace;
    trace.start();
    device = make_cpu_device(options);
    arena = std::make_unique<Arena>(*device, Space::kDevice, 4 * kBytes, "device");
    ring = std::make_unique<SlotRing>(*arena, "slot", 3, kBytes);
  }
  Stream& stream(Lane lane) const { return device->stream(lane); }

  /// One submission on the lane; the waits it came behind.
  std::vector<Wait> touch(Lane lane) {
    stream(lane).host_task("touch", {}, {}, [] {});
    return trace.records().back().waits;
  }
  /// Fills and closes a slot, whose content is needed at the position `key`.
  void put(int slot, std::int64_t key, Lane lane = Lane::kWeightsIn) {
    Lease lease = ring->fill(slot, key, stream(lane));
    ring->needed_at(slot, key);
    touch(lane);
    lease.filled();
  }

  Recorder trace;
  std::unique_ptr<Device> device;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<SlotRing> ring;
};

bool has(const std::vector<Wait>& waits, Event event, WaitFor why) {
  return std::ranges::any_of(waits, [&](const Wait& wait) {
    return wait.event.lane == event.lane && wait.event.ticket == event.ticket && wait.why == why;
  });
}

/// A lane of a lost device: nothing can be recorded on it.
class LostStream final : public Stream {
 public:
  using Stream::Stream;

 protected:
  void do_record(std::uint64_t) override { throw BackendError("the device is lost"); }
  void do_wait(Event) override {}
  void do_copy(void*, const void*, std::size_t) override {}
  void do_set(void*, std::uint8_t, std::size_t) override {}
  void do_begin(std::uint64_t) override {}
  void do_end(std::uint64_t) override {}
};

}  // namespace

TEST_CASE("a reader waits for the content, a filler for everybody who used the slot") {
  Rig rig;
  Lease lease = rig.ring->fill(0, 7, rig.stream(Lane::kWeightsIn));
  CHECK(rig.touch(Lane::kWeightsIn).empty());
  lease.filled();
  const Event filled = rig.stream(Lane::kWeightsIn).record();
  lease.use(rig.stream(Lane::kCompute));
  CHECK(has(rig.touch(Lane::kCompute), filled, WaitFor::kFilled));
  Lease spill = rig.ring->use(0, rig.stream(Lane::kOut));
  CHECK(has(rig.touch(Lane::kOut), filled, WaitFor::kFilled));
  lease.end();
  spill.end();
  // Work after the lease ended does not hold the slot.
  const Event computed = rig.stream(Lane::kCompute).record();
  const Event spilled = rig.stream(Lane::kOut).record();
  rig.touch(Lane::kCompute);

  const Lease again = rig.ring->fill(0, 8, rig.stream(Lane::kWeightsIn));
  const std::vector<Wait> waits = rig.touch(Lane::kWeightsIn);
  CHECK(waits.size() == 2);
  CHECK(has(waits, computed, WaitFor::kReuse));
  CHECK(has(waits, spilled, WaitFor::kReuse));
}

TEST_CASE("traces tell a host that took the content, one that saved it, and a collective") {
  Rig rig;
  rig.put(0, 1, Lane::kOut);
  const Event filled = rig.stream(Lane::kOut).record();
  Lease lease = rig.ring->use(0, rig.stream(Lane::kOut));
  lease.use(rig.stream(Lane::kComm), WaitFor::kGathered);
  CHECK(has(rig.touch(Lane::kComm), filled, WaitFor::kGathered));
  lease.use(rig.stream(Lane::kHost), WaitFor::kArrived);
  CHECK(has(rig.touch(Lane::kHost), filled, WaitFor::kArrived));
  lease.use(rig.stream(Lane::kSave), WaitFor::kArrived);
  CHECK(has(rig.touch(Lane::kSave), filled, WaitFor::kArrived));
  lease.end();
  const Lease again = rig.ring->fill(0, 2, rig.stream(Lane::kOut));
  const std::vector<Wait> waits = rig.touch(Lane::kOut);
  CHECK(has(waits, rig.stream(Lane::kHost).record(), WaitFor::kTaken));
  CHECK(has(waits, rig.stream(Lane::kComm).record(), WaitFor::kReuse));
  CHECK(has(waits, rig.stream(Lane::kSave).record(), WaitFor::kSaved));
}

TEST_CASE("content written last by another lane is waited for there") {
  Rig rig;
  Lease lease = rig.ring->fill(0, 1, rig.stream(Lane::kWeightsIn));
  rig.touch(Lane::kWeightsIn);
  rig.stream(Lane::kComm).wait(rig.stream(Lane::kWeightsIn).record(), WaitFor::kGathered);
  rig.touch(Lane::kComm);
  lease.filled(rig.stream(Lane::kComm));
  const Event gathered = rig.stream(Lane::kComm).record();
  lease.use(rig.stream(Lane::kCompute));
  CHECK(has(rig.touch(Lane::kCompute), gathered, WaitFor::kFilled));
  lease.end();
  const Lease again = rig.ring->fill(0, 2, rig.stream(Lane::kWeightsIn));
  CHECK(has(rig.touch(Lane::kWeightsIn), gathered, WaitFor::kReuse));
}

TEST_CASE("a slot in use cannot be filled") {
  Rig rig;
  rig.put(0, 5);
  Lease reader = rig.ring->use(0, rig.stream(Lane::kCompute));
  CHECK(rig.ring->open(0));
  CHECK_THROWS_AS((void)rig.ring->fill(0, 6, rig.stream(Lane::kWeightsIn)), std::logic_error);
  CHECK_THROWS_WITH((void)rig.ring->fill(0, 6, rig.stream(Lane::kWeightsIn)),
                    ContainsSubstring("slot 0 of slot would be filled while it is in use"));
  CHECK(rig.ring->key(0) == 5);
  reader.end();
  CHECK_FALSE(rig.ring->open(0));
  CHECK_NOTHROW((void)rig.ring->fill(0, 6, rig.stream(Lane::kWeightsIn)));
}

TEST_CASE("content cannot be used by another lane before it is declared filled") {
  Rig rig;
  Lease lease = rig.ring->fill(0, 5, rig.stream(Lane::kWeightsIn));
  rig.touch(Lane::kWeightsIn);
  CHECK_NOTHROW(lease.use(rig.stream(Lane::kWeightsIn)));
  CHECK_THROWS_AS(lease.use(rig.stream(Lane::kCompute)), std::logic_error);
  CHECK_THROWS_AS((void)rig.ring->use(0, rig.stream(Lane::kOut)), std::logic_error);
  lease.filled();
  CHECK_NOTHROW(lease.use(rig.stream(Lane::kCompute)));
}

TEST_CASE("a moved lease ends once") {
  Rig rig;
  rig.put(0, 5);
  Lease first = rig.ring->use(0, rig.stream(Lane::kCompute));
  Lease second = std::move(first);
  CHECK_FALSE(static_cast<bool>(first));  // NOLINT(bugprone-use-after-move): that is the point
  CHECK(second.slot() == 0);
  first.end();  // NOLINT(clang-analyzer-cplusplus.Move): nothing is held, and nothing happens
  CHECK(rig.ring->open(0));
  second = Lease();
  CHECK_FALSE(rig.ring->open(0));
}

TEST_CASE("a lease on a lane that fails ends all the same and keeps the other lanes' uses") {
  Rig rig;
  rig.put(0, 5);
  LostStream lost(*rig.device, Lane::kCompute);
  Lease lease = rig.ring->use(0, rig.stream(Lane::kOut));
  lease.use(lost);
  rig.touch(Lane::kOut);
  lease.end();
  CHECK_FALSE(rig.ring->open(0));
  const Lease again = rig.ring->fill(0, 6, rig.stream(Lane::kWeightsIn));
  CHECK(has(rig.touch(Lane::kWeightsIn), rig.stream(Lane::kOut).record(), WaitFor::kReuse));
}

TEST_CASE("empty slots are filled first, then the content that is needed last") {
  Rig rig;
  CHECK(rig.ring->victim() == 0);
  rig.put(0, 30);
  CHECK(rig.ring->victim() == 1);
  rig.put(1, 10);
  rig.put(2, 20);
  CHECK(rig.ring->victim() == 0);
  rig.ring->needed_at(1, 31);
  CHECK(rig.ring->victim() == 1);
  rig.ring->forget(2);
  CHECK(rig.ring->victim() == 2);
}

TEST_CASE("of contents needed equally late the one filled longest ago is replaced") {
  Rig rig;
  CHECK(rig.ring->oldest() == 0);  // empty
  rig.put(2, 1);
  rig.put(0, 2);
  rig.put(1, 3);
  for (int slot = 0; slot < 3; ++slot) rig.ring->needed_at(slot, 4);
  CHECK(rig.ring->victim() == 2);
  CHECK(rig.ring->oldest() == 2);
  rig.put(2, 4);
  CHECK(rig.ring->victim() == 0);
  CHECK(rig.ring->oldest() == 0);
}

TEST_CASE("open slots are no victims") {
  Rig rig;
  rig.put(0, 10);
  rig.put(1, 20);
  rig.put(2, 30);
  const Lease last = rig.ring->use(2, rig.stream(Lane::kCompute));
  CHECK(rig.ring->victim() == 1);
  const Lease middle = rig.ring->use(1, rig.stream(Lane::kCompute));
  CHECK(rig.ring->victim() == 0);
  const Lease first = rig.ring->use(0, rig.stream(Lane::kOut));
  CHECK(rig.ring->victim() == -1);
}

TEST_CASE("content is found by its key until it is replaced or forgotten") {
  Rig rig;
  CHECK(rig.ring->find(5) == -1);
  rig.put(1, 5);
  CHECK(rig.ring->find(5) == 1);
  CHECK(rig.ring->key(1) == 5);
  rig.put(1, 6);
  CHECK(rig.ring->find(5) == -1);
  rig.ring->forget(1);
  CHECK(rig.ring->find(6) == -1);
  rig.put(0, 1);
  rig.put(1, 2);
  rig.ring->forget_all();
  CHECK(rig.ring->find(1) == -1);
  CHECK(rig.ring->find(2) == -1);
}

TEST_CASE("forgotten content is still protected from being overwritten too early") {
  Rig rig;
  rig.put(0, 5);
  Lease reader = rig.ring->use(0, rig.stream(Lane::kCompute));
  rig.touch(Lane::kCompute);
  reader.end();
  rig.ring->forget(0);
  const Lease again = rig.ring->fill(0, 6, rig.stream(Lane::kWeightsIn));
  CHECK(has(rig.touch(Lane::kWeightsIn), rig.stream(Lane::kCompute).record(), WaitFor::kReuse));
}

TEST_CASE("slots are poisoned before they are refilled, if asked for") {
  Rig rig({.execution = Execution::kEager, .poison_slots = true});
  Lease lease = rig.ring->fill(1, 3, rig.stream(Lane::kWeightsIn));
  const std::byte* const data = lease.data();
  CHECK(std::all_of(data, data + kBytes, [](std::byte b) { return b == std::byte{0xff}; }));
  const std::vector<std::size_t> sets = rig.trace.find("set", {.phase = "poison"});
  REQUIRE(sets.size() == 1);
  CHECK(rig.trace.records()[sets[0]].what.accesses.writes[0].bytes == kBytes);
}

TEST_CASE("slots do not overlap") {
  Rig rig;
  std::vector<std::byte*> slots;
  for (int i = 0; i < rig.ring->count(); ++i) {
    slots.push_back(rig.ring->fill(i, i, rig.stream(Lane::kOut)).data());
  }
  std::ranges::sort(slots);
  for (std::size_t i = 1; i < slots.size(); ++i) {
    CHECK(slots[i] - slots[i - 1] >= static_cast<std::ptrdiff_t>(rig.ring->bytes_each()));
  }
}
