// Tests that arenas hand out aligned pieces, keep the ledger, refuse what does not fit and outlive
// the lanes' work, on the cpu device.

#include "strata/device/arena.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "device/cpu/cpu_device.h"
#include "strata/base/bytes.h"
#include "support/catch.h"

using namespace strata;

TEST_CASE("an arena hands out aligned pieces that do not overlap, and keeps the ledger") {
  const auto device = make_cpu_device({.execution = Execution::kEager});
  Arena arena(*device, Space::kPinned, 2000, "pinned");
  CHECK(arena.capacity() == 2048);
  std::byte* const a = arena.allocate("a", 1);
  std::byte* const b = arena.allocate("b", 257);
  std::byte* const c = arena.allocate("c", 256);
  CHECK(reinterpret_cast<std::uintptr_t>(a) % Arena::kAlignment == 0);
  CHECK(b == a + 256);
  CHECK(c == b + 512);
  CHECK(arena.used() == 1024);
  REQUIRE(arena.ledger().size() == 3);
  CHECK(arena.ledger()[1].name == "b");
  CHECK(arena.ledger()[1].bytes == 512);
}

TEST_CASE("an arena hands out typed pieces") {
  const auto device = make_cpu_device({.execution = Execution::kEager});
  Arena arena(*device, Space::kPinned, 1024, "pinned");
  const TensorView t = arena.allocate_tensor("t", DType::kF64, {5, 9});
  CHECK(t.dtype == DType::kF64);
  CHECK(t.shape == Shape{5, 9});
  CHECK(t.contiguous());
  CHECK(arena.ledger()[0].name == "t");
  CHECK(arena.ledger()[0].bytes == 512);  // 360, aligned
  CHECK(arena.allocate("next", 1) == static_cast<std::byte*>(t.data) + 512);
}

TEST_CASE("an arena can be used up to the last byte and says what it holds when it is full") {
  const auto device = make_cpu_device({.execution = Execution::kEager});
  Arena arena(*device, Space::kDevice, 4096, "device");
  CHECK_NOTHROW((void)arena.allocate("ring slot", 1024));
  CHECK_NOTHROW((void)arena.allocate("logits", 2048));
  CHECK_NOTHROW((void)arena.allocate("ring slot", 1024));
  CHECK(arena.used() == arena.capacity());
  try {
    (void)arena.allocate("accumulator", 5000);
    FAIL("a full arena gave memory away");
  } catch (const OutOfMemory& e) {
    const std::string text = e.what();
    CAPTURE(text);
    CHECK(e.exit_code() == 3);
    CHECK_THAT(text, ContainsSubstring("arena device (device memory) is full"));
    CHECK_THAT(text, ContainsSubstring("accumulator needs 4.88 KiB, 0 B of 4 KiB are free"));
    CHECK_THAT(text, ContainsSubstring("2 KiB  ring slot (2 pieces)"));
    CHECK_THAT(text, ContainsSubstring("2 KiB  logits"));
  }
  CHECK_THROWS_AS((void)arena.allocate("overflow", SIZE_MAX), OutOfMemory);
}

TEST_CASE("the ledger's table is sorted by size") {
  const auto device = make_cpu_device({.execution = Execution::kEager});
  Arena arena(*device, Space::kDevice, 8192, "device");
  (void)arena.allocate("small", 256);
  (void)arena.allocate("large", 4096);
  (void)arena.allocate("medium", 1024);
  const std::string text = arena.ledger_text();
  CHECK(text.find("large") < text.find("medium"));
  CHECK(text.find("medium") < text.find("small"));
}

TEST_CASE("a device knows the arenas that live, and their bytes") {
  const auto device = make_cpu_device({.execution = Execution::kEager});
  const std::byte* inside = nullptr;
  {
    const Arena pinned(*device, Space::kPinned, kMiB, "pinned");
    Arena on_device(*device, Space::kDevice, 4 * kMiB, "device");
    inside = on_device.allocate("x", 512);
    CHECK(device->device_bytes_in_use() == 4 * kMiB);
    CHECK(device->space_of({inside, 512}) == Space::kDevice);
    CHECK(device->space_of({inside, 4 * kMiB}) == Space::kDevice);
    CHECK_FALSE(device->space_of({inside, 4 * kMiB + 1}).has_value());
    CHECK_FALSE(device->space_of({inside - 1, 2}).has_value());
  }
  CHECK(device->device_bytes_in_use() == 0);
  CHECK_FALSE(device->space_of({inside, 1}).has_value());
}

TEST_CASE("an arena larger than the machine is refused") {
  const auto device = make_cpu_device({.execution = Execution::kEager});
  CHECK_THROWS_AS(Arena(*device, Space::kPinned, std::size_t{1} << 60, "pinned"), OutOfMemory);
  CHECK_THROWS_WITH(Arena(*device, Space::kPinned, std::size_t{1} << 50, "pinned"),
                    ContainsSubstring("1024 TiB were asked for"));
}

TEST_CASE("an empty arena holds only empty pieces") {
  const auto device = make_cpu_device({.execution = Execution::kEager});
  Arena arena(*device, Space::kPinned, 0, "nothing");
  CHECK(arena.capacity() == 0);
  CHECK_NOTHROW((void)arena.allocate("empty", 0));
  CHECK_THROWS_AS((void)arena.allocate("byte", 1), OutOfMemory);
}

TEST_CASE("an arena is not freed under the lanes that use it") {
  const auto device = make_cpu_device({.execution = Execution::kThreads});
  std::atomic<bool> finished{false};
  {
    Arena arena(*device, Space::kPinned, 4096, "pinned");
    std::byte* const data = arena.allocate("data", 4096);
    device->stream(Lane::kHost)
        .host_task(
            "slow", [&] { return Accesses({}, {{data, 4096}}); }, {},
            [&finished, data] {
              // An arena that does not wait goes meanwhile; one that does waits for any time.
              std::this_thread::sleep_for(std::chrono::milliseconds(20));
              data[4095] = std::byte{1};
              finished = true;
            });
  }
  CHECK(finished);
}

TEST_CASE("the cpu device describes its machine") {
  const auto device = make_cpu_device({.execution = Execution::kEager});
  const DeviceInfo info = device->info();
  CHECK(info.backend == "cpu");
  CHECK_FALSE(info.name.empty());
  CHECK(info.memory_bytes > 64 * kMiB);
  CHECK(info.free_bytes > 0);
  CHECK(info.free_bytes < info.memory_bytes);
  CHECK(info.peak_bf16_tflops == 0);
}
