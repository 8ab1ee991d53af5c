// Tests the CUDA device against what strata/device/*.h promises: order between all lanes, failures,
// memory and times. It needs a GPU; without one it says so and passes.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/device/arena.h"
#include "strata/ops/backend.h"
#include "support/catch.h"
#include "support/patience.h"

namespace strata {
namespace {

using namespace std::chrono_literals;

bool without_gpu() {
  if (cuda_available()) return false;
  WARN("skipped: this program has no CUDA backend, or there is no device");
  return true;
}

/// Long enough that whoever does not wait for it is done before; who waits does so for any time.
constexpr auto kLong = 30ms;

struct Machine {
  explicit Machine(const DeviceOptions& options = {}, std::size_t bytes = 8 * kMiB)
      : backend(make_backend(BackendKind::kCuda, {.device = options, .threads = 1})),
        device(*backend.device),
        memory(device, Space::kDevice, bytes, "device"),
        pinned(device, Space::kPinned, bytes, "pinned") {}

  Stream& lane(Lane which) { return device.stream(which); }
  Event task(Lane which, std::function<void()> task) {
    lane(which).host_task("task", {}, {}, std::move(task));
    return lane(which).record();
  }
  Event host(std::function<void()> work) { return task(Lane::kHost, std::move(work)); }

  Backend backend;
  Device& device;
  Arena memory;
  Arena pinned;
};

constexpr std::array kHostLanes{Lane::kHost, Lane::kSave};
static_assert(kHostLanes.size() == kHostLaneCount);

bool all_equal(const std::byte* data, std::size_t bytes, int value) {
  return std::all_of(data, data + bytes, [=](std::byte b) { return b == std::byte(value); });
}

TEST_CASE("the CUDA device tells its name and memory", "[cuda]") {
  if (without_gpu()) return;
  const Machine m;
  CHECK(m.device.info().backend == "cuda");
  CHECK_FALSE(m.device.info().name.empty());
  CHECK(m.device.info().memory_bytes > kGiB);
  CHECK(m.device.info().free_bytes > 0);
  CHECK(m.device.info().free_bytes < m.device.info().memory_bytes);
}

TEST_CASE("a GPU tells its address, its number and the versions of CUDA", "[cuda][alone]") {
  if (without_gpu()) return;
  const std::optional<DeviceInfo> info = cuda_device_info(0);
  REQUIRE(info.has_value());
  CHECK(info->pci_bus_id.find(':') != std::string::npos);
  CHECK(info->uuid.size() == 32);
  CHECK(info->uuid != std::string(32, '0'));
  CHECK(info->driver_version >= 12000);
  CHECK(info->runtime_version >= 12000);
  CHECK_FALSE(cuda_device_info(cuda_device_count()).has_value());
  for (int other = 1; other < cuda_device_count(); ++other) {
    CHECK(cuda_device_info(other)->pci_bus_id != info->pci_bus_id);
    CHECK(cuda_device_info(other)->uuid != info->uuid);
  }
}

TEST_CASE("a device lane waits for a task of either host lane", "[cuda]") {
  if (without_gpu()) return;
  for (const Lane lane : kHostLanes) {
    INFO(name_of(lane));
    Machine m;
    std::byte* source = m.pinned.allocate("source", kMiB);
    std::byte* result = m.pinned.allocate("result", kMiB);
    std::byte* on_device = m.memory.allocate("buffer", kMiB);
    std::memset(source, 1, kMiB);
    const Event filled = m.task(lane, [=] {
      std::this_thread::sleep_for(kLong);
      std::memset(source, 2, kMiB);
    });
    Stream& in = m.lane(Lane::kWeightsIn);
    in.wait(filled, WaitFor::kUpdated);
    in.copy(on_device, source, kMiB, {});
    Stream& out = m.lane(Lane::kOut);
    out.wait(in.record(), WaitFor::kFilled);
    out.copy(result, on_device, kMiB, {});
    m.device.synchronize();
    CHECK(all_equal(result, kMiB, 2));
  }
}

TEST_CASE("every pair of device lanes can wait for one another", "[cuda]") {
  if (without_gpu()) return;
  Machine m;
  std::byte* on_device = m.memory.allocate("buffer", kMiB);
  std::byte* result = m.pinned.allocate("result", kMiB);
  for (int first = 0; first < kLaneCount; ++first) {
    for (int second = 0; second < kLaneCount; ++second) {
      const auto from = static_cast<Lane>(first);
      const auto to = static_cast<Lane>(second);
      if (from == to || is_host_lane(from) || is_host_lane(to)) continue;
      Stream& writer = m.lane(from);
      Stream& reader = m.lane(to);
      // The writer is held up, so a reader that does not wait reads what the last pair wrote.
      writer.wait(m.host([] { std::this_thread::sleep_for(2ms); }), WaitFor::kUpdated);
      const int value = 1 + first * kLaneCount + second;
      writer.set(on_device, static_cast<std::uint8_t>(value), kMiB, {});
      reader.wait(writer.record(), WaitFor::kFilled);
      reader.copy(result, on_device, kMiB, {});
      m.device.synchronize();
      INFO(name_of(to) << " after " << name_of(from));
      CHECK(all_equal(result, kMiB, value));
    }
  }
}

TEST_CASE("tasks of both host lanes wait for every device lane", "[cuda]") {
  if (without_gpu()) return;
  Machine m;
  std::byte* result = m.pinned.allocate("result", kMiB);
  std::byte* on_device = m.memory.allocate("buffer", kMiB);
  for (int i = 0; i < kLaneCount; ++i) {
    const auto lane = static_cast<Lane>(i);
    if (is_host_lane(lane)) continue;
    for (const Lane waiting : kHostLanes) {
      std::memset(result, 0, kMiB);
      Stream& device_lane = m.lane(lane);
      device_lane.wait(m.host([] { std::this_thread::sleep_for(kLong); }), WaitFor::kUpdated);
      device_lane.set(on_device, 7, kMiB, {});
      device_lane.copy(result, on_device, kMiB, {});
      m.lane(waiting).wait(device_lane.record(), WaitFor::kArrived);
      std::atomic<bool> arrived = false;
      m.task(waiting, [&] { arrived = all_equal(result, kMiB, 7); });
      m.device.synchronize();
      INFO(name_of(waiting) << " after " << name_of(lane));
      CHECK(arrived);
    }
  }
}

TEST_CASE("the host lanes wait for each other, and run beside each other", "[cuda]") {
  if (without_gpu()) return;
  Machine m;
  for (const Lane first : kHostLanes) {
    const Lane second = first == Lane::kHost ? Lane::kSave : Lane::kHost;
    INFO(name_of(second) << " after " << name_of(first));
    std::atomic<bool> other_ran = false;
    std::atomic<bool> done = false;
    std::atomic<bool> in_order = false;
    const Event held = m.task(first, [&] {
      while (!other_ran) std::this_thread::sleep_for(1ms);  // hangs if the lanes are one thread
      std::this_thread::sleep_for(kLong);
      done = true;
    });
    m.task(second, [&] { other_ran = true; });
    m.lane(second).wait(held, WaitFor::kSaved);
    m.device.wait(m.task(second, [&] { in_order = done.load(); }));
    CHECK(in_order);
  }
}

TEST_CASE("the CUDA device counts no task of the save lane as work of the host lane", "[cuda]") {
  if (without_gpu()) return;
  Machine m;
  m.device.wait(m.task(Lane::kSave, [] { std::this_thread::sleep_for(kLong); }));
  CHECK(m.device.host_busy_s() == 0);
  m.device.wait(m.host([] { std::this_thread::sleep_for(kLong); }));
  m.device.synchronize();
  CHECK(m.device.host_busy_s() > 0);
}

TEST_CASE("a lane that waits for the host does not hold up the others", "[cuda]") {
  if (without_gpu()) return;
  Machine m;
  std::byte* on_device = m.memory.allocate("buffer", kMiB);
  std::atomic<bool> go_on = false;
  const Event held = m.host([&] {
    while (!go_on) std::this_thread::sleep_for(1ms);
  });
  m.lane(Lane::kWeightsIn).wait(held, WaitFor::kUpdated);
  m.lane(Lane::kWeightsIn).set(on_device, 1, kMiB, {});
  for (Lane lane : {Lane::kCompute, Lane::kActivationsIn, Lane::kOut, Lane::kComm}) {
    m.lane(lane).set(on_device, 2, kMiB, {});
    m.device.wait(m.lane(lane).record());  // hangs if the lane stands
  }
  go_on = true;
  m.device.synchronize();
}

TEST_CASE("events are reused many times without losing an order", "[cuda]") {
  if (without_gpu()) return;
  Machine m;
  constexpr int kRounds = 2000;
  std::byte* on_device = m.memory.allocate("buffer", 1);
  std::byte* log = m.pinned.allocate("log", kRounds);
  Stream& writer = m.lane(Lane::kCompute);
  Stream& reader = m.lane(Lane::kOut);
  for (int i = 0; i < kRounds; ++i) {
    writer.wait(reader.record(), WaitFor::kReuse);
    writer.set(on_device, static_cast<std::uint8_t>(i % 251), 1, {});
    reader.wait(writer.record(), WaitFor::kFilled);
    reader.copy(log + i, on_device, 1, {});
  }
  m.device.synchronize();
  int wrong = 0;
  for (int i = 0; i < kRounds; ++i) wrong += log[i] != std::byte(i % 251);
  CHECK(wrong == 0);
}

TEST_CASE("an event of long ago can still be waited for", "[cuda]") {
  if (without_gpu()) return;
  Machine m;
  std::byte* on_device = m.memory.allocate("buffer", 1);
  Stream& writer = m.lane(Lane::kCompute);
  writer.set(on_device, 1, 1, {});
  const Event old = writer.record();
  for (int i = 0; i < 1000; ++i) {
    writer.set(on_device, 1, 1, {});
    (void)writer.record();
    if (i % 100 == 0) m.device.synchronize();
  }
  m.lane(Lane::kOut).wait(old, WaitFor::kFilled);
  m.lane(Lane::kHost).wait(old, WaitFor::kArrived);
  m.device.wait(old);
  m.device.synchronize();
}

TEST_CASE("a host task that throws is reported and lets every lane drain", "[cuda]") {
  if (without_gpu()) return;
  Machine m;
  std::byte* on_device = m.memory.allocate("buffer", kMiB);
  const Event failed = m.host([] { throw std::runtime_error("the optimizer broke"); });
  m.lane(Lane::kWeightsIn).wait(failed, WaitFor::kUpdated);
  m.lane(Lane::kWeightsIn).set(on_device, 1, kMiB, {});
  m.lane(Lane::kHost).wait(m.lane(Lane::kWeightsIn).record(), WaitFor::kArrived);
  std::atomic<bool> ran = false;
  m.lane(Lane::kCompute).wait(m.host([&] { ran = true; }), WaitFor::kUpdated);
  REQUIRE_THROWS_WITH(m.device.synchronize(), ContainsSubstring("the optimizer broke"));
  CHECK_FALSE(ran);
  REQUIRE_THROWS_AS(m.device.throw_if_failed(), std::runtime_error);
}

TEST_CASE("a task of the save lane that throws is reported, and the host lane skips", "[cuda]") {
  if (without_gpu()) return;
  Machine m;
  std::byte* on_device = m.memory.allocate("buffer", kMiB);
  const Event failed = m.task(Lane::kSave, [] { throw std::runtime_error("the disk broke"); });
  m.lane(Lane::kWeightsIn).wait(failed, WaitFor::kSaved);
  m.lane(Lane::kWeightsIn).set(on_device, 1, kMiB, {});
  m.lane(Lane::kHost).wait(failed, WaitFor::kSaved);
  std::atomic<bool> ran = false;
  m.host([&] {
    ran = true;
    throw std::runtime_error("a second failure");
  });
  REQUIRE_THROWS_WITH(m.device.synchronize(), ContainsSubstring("the disk broke"));
  CHECK_FALSE(ran);
}

TEST_CASE("a device with a failed host task is destroyed without hanging", "[cuda]") {
  if (without_gpu()) return;
  std::promise<void> gone;
  std::thread destroyer([&] {
    {
      Machine m;
      std::byte* on_device = m.memory.allocate("buffer", kMiB);
      for (int i = 0; i < 3; ++i) {
        m.lane(Lane::kCompute)
            .wait(m.host([] { throw std::runtime_error("broken"); }), WaitFor::kUpdated);
        m.lane(Lane::kCompute).set(on_device, 1, kMiB, {});
        m.lane(Lane::kHost).wait(m.lane(Lane::kCompute).record(), WaitFor::kArrived);
      }
    }
    gone.set_value();
  });
  CHECK(test::comes_true(gone.get_future().share()));
  destroyer.join();
}

TEST_CASE("copies of pinned memory cross the borders of what was registered", "[cuda]") {
  if (without_gpu()) return;
  constexpr std::size_t kSize = 1088 * kMiB;  // holds a multiple of 1 GiB wherever it begins
  constexpr std::size_t kAround = 32 * kMiB;
  Machine m({}, 2 * kAround);
  Arena large(m.device, Space::kPinned, kSize, "large");
  std::byte* data = large.allocate("data", kSize);
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::size_t border = round_up(address + 1, kGiB) - address;
  const std::size_t begin =
      std::min(border > kAround / 2 ? border - kAround / 2 : 0, kSize - kAround);
  for (std::size_t i = 0; i < kAround; ++i) data[begin + i] = std::byte(i * 7 % 253);
  std::byte* on_device = m.memory.allocate("buffer", kAround);
  std::byte* back = m.pinned.allocate("back", kAround);
  Stream& lane = m.lane(Lane::kWeightsIn);
  lane.copy(on_device, data + begin, kAround, {});
  lane.copy(back, on_device, kAround, {});
  lane.set(data + begin, 9, kAround, {});
  m.device.synchronize();
  int wrong = 0;
  for (std::size_t i = 0; i < kAround; ++i) wrong += back[i] != std::byte(i * 7 % 253);
  CHECK(wrong == 0);
  CHECK(all_equal(data + begin, kAround, 9));
}

TEST_CASE("more memory than there is gives OutOfMemory, and the device goes on", "[cuda]") {
  if (without_gpu()) return;
  Machine m;
  constexpr std::size_t kTooMuch = std::size_t{1} << 50;
  REQUIRE_THROWS_AS(m.device.allocate(Space::kDevice, kTooMuch), OutOfMemory);
  REQUIRE_THROWS_WITH(m.device.allocate(Space::kPinned, kTooMuch), ContainsSubstring("free"));
  REQUIRE_THROWS_AS(m.device.allocate(Space::kPageable, kTooMuch), OutOfMemory);
  std::byte* on_device = m.memory.allocate("buffer", kMiB);
  m.lane(Lane::kCompute).set(on_device, 1, kMiB, {});
  m.device.synchronize();
}

TEST_CASE("the device memory in use grows by what is allocated", "[cuda][alone]") {
  if (without_gpu()) return;
  Machine m;
  const std::size_t before = m.device.device_bytes_in_use();
  const auto block = m.device.allocate(Space::kDevice, 512 * kMiB);
  const std::size_t after = m.device.device_bytes_in_use();
  CHECK(before > 0);
  CHECK(after >= before + 512 * kMiB);
  CHECK(after < before + 768 * kMiB);
}

TEST_CASE("pageable memory is refused by copies", "[cuda]") {
  if (without_gpu()) return;
  Machine m;
  Arena pageable(m.device, Space::kPageable, kMiB, "pageable");
  std::byte* data = pageable.allocate("data", kMiB);
  std::byte* on_device = m.memory.allocate("buffer", kMiB);
  REQUIRE_THROWS_AS(m.lane(Lane::kWeightsIn).copy(on_device, data, kMiB, {}), BackendError);
}

TEST_CASE("host lanes refuse device memory", "[cuda]") {
  if (without_gpu()) return;
  Machine m;
  std::byte* on_device = m.memory.allocate("buffer", kMiB);
  std::byte* pinned = m.pinned.allocate("buffer", kMiB);
  for (const Lane lane : kHostLanes) {
    REQUIRE_THROWS_WITH(m.lane(lane).copy(pinned, on_device, kMiB, {}),
                        ContainsSubstring(std::string(name_of(lane)) + " lane"));
  }
  REQUIRE_THROWS_AS(m.lane(Lane::kCompute).host_task("task", {}, {}, [] {}), BackendError);
}

TEST_CASE("too few connections are refused by name", "[cuda]") {
  if (without_gpu()) return;
  constexpr const char* kVariable = "CUDA_DEVICE_MAX_CONNECTIONS";
  const char* const set = std::getenv(kVariable);
  REQUIRE(set != nullptr);  // by the program's beginning
  const std::string before = set;
  setenv(kVariable, "1", 1);
  CHECK_THROWS_WITH(make_backend(BackendKind::kCuda, {}), ContainsSubstring(kVariable));
  setenv(kVariable, before.c_str(), 1);
}

/// Keeps what ran when.
class Times final : public TraceSink {
 public:
  struct Span {
    double begin_us;
    double end_us;
  };
  void submitted(TraceRecord) override { ++submissions; }
  void ran(Lane lane, std::uint64_t ticket, double begin_us, double end_us) override {
    const std::lock_guard lock(mutex_);
    spans_[{lane, ticket}] = {begin_us, end_us};
  }
  void arena(std::string_view, Space, ByteRange) override {}
  [[nodiscard]] bool active() const override { return true; }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return spans_.size();
  }
  Span of(Event event) {
    const std::lock_guard lock(mutex_);
    return spans_.at({event.lane, event.ticket});
  }
  std::size_t submissions = 0;

 private:
  std::mutex mutex_;
  std::map<std::pair<Lane, std::uint64_t>, Span> spans_;
};

TEST_CASE("every submission is timed on one clock for host and device", "[cuda][alone]") {
  if (without_gpu()) return;
  Times times;
  constexpr std::size_t kBytes = 32 * kMiB;
  Machine m({.trace = &times}, kBytes);
  std::byte* source = m.pinned.allocate("source", kBytes);
  std::byte* on_device = m.memory.allocate("buffer", kBytes);
  const Event task = m.host([] { std::this_thread::sleep_for(kLong); });
  Stream& in = m.lane(Lane::kWeightsIn);
  in.wait(task, WaitFor::kUpdated);
  in.copy(on_device, source, kBytes, {});
  const Event copied = in.record();
  m.lane(Lane::kHost).wait(copied, WaitFor::kArrived);
  const Event after = m.host([] {});
  m.device.synchronize();

  REQUIRE(times.submissions == 3);
  REQUIRE(times.count() == 3);
  constexpr double kClockErrorUs = 200;
  // What the device did seems later if the system holds up the thread that reads the host's clock
  // when the device's is set to it: more than this is another clock, or another unit.
  constexpr double kMostHeldUpUs = 60e6;
  const Times::Span first = times.of(task);
  const Times::Span copy = times.of(copied);
  const Times::Span last = times.of(after);
  CHECK(first.end_us - first.begin_us >= 30e3);
  CHECK(copy.end_us > copy.begin_us);
  // No link takes 32 MiB in less than 10 us: the copy is timed, and not what submits it.
  CHECK(copy.end_us - copy.begin_us > 10);
  CHECK(copy.end_us > first.end_us - kClockErrorUs);
  CHECK(last.begin_us > copy.end_us - kMostHeldUpUs);
}

TEST_CASE("a run on the CUDA device has no race, and leaving a wait out shows as one", "[cuda]") {
  if (without_gpu()) return;
  const auto races = [](std::optional<WaitFor> omitted) {
    Recorder recorder;
    Machine m({.omit_wait = omitted, .trace = &recorder});
    std::byte* source = m.pinned.allocate("source", kMiB);
    std::byte* on_device = m.memory.allocate("buffer", kMiB);
    recorder.start();
    Stream& host = m.lane(Lane::kHost);
    host.host_task(
        "write", [&] { return Accesses({}, {{source, kMiB}}); }, {},
        [=] { std::memset(source, 1, kMiB); });
    Stream& in = m.lane(Lane::kWeightsIn);
    in.wait(host.record(), WaitFor::kUpdated);
    in.copy(on_device, source, kMiB, {});
    Stream& out = m.lane(Lane::kOut);
    out.wait(in.record(), WaitFor::kFilled);
    out.copy(source, on_device, kMiB, {});
    m.device.synchronize();
    return recorder.races().size();
  };
  CHECK(races(std::nullopt) == 0);
  CHECK(races(WaitFor::kUpdated) > 0);
  CHECK(races(WaitFor::kFilled) > 0);
}

TEST_CASE("waiting after every submission gives the same result", "[cuda]") {
  if (without_gpu()) return;
  Machine m({.synchronize_each = true});
  std::byte* result = m.pinned.allocate("result", kMiB);
  std::byte* on_device = m.memory.allocate("buffer", kMiB);
  m.lane(Lane::kCompute).set(on_device, 3, kMiB, {});
  m.lane(Lane::kOut).copy(result, on_device, kMiB, {});
  CHECK(all_equal(result, kMiB, 3));
  bool ran = false;
  m.host([&] { ran = true; });
  CHECK(ran);
}

}  // namespace
}  // namespace strata
