// What a Room answers for each limit that may be known or not. Sizes are small enough to check by
// hand; no setup is made.

#include "strata/plan/room.h"

#include "strata/base/bytes.h"
#include "support/catch.h"

namespace {

using namespace strata;

constexpr MemoryUse kUse{.device_bytes = 100, .host_bytes = 800};

MemorySection spill_limit(std::size_t bytes) {
  MemorySection given;
  given.spill_limit = ByteSize{bytes};
  return given;
}

}  // namespace

TEST_CASE("without limits everything fits, and nothing is kept or spilled by choice") {
  const Budget budget;
  const MemorySection given;
  const Room room(budget, given);
  CHECK(room.fits_device(kUse));
  CHECK(room.fits_host(kUse));
  CHECK(room.beyond_limits(kUse) == 0);
  CHECK(room.keeps_host_reserve(kUse));
  CHECK_FALSE(room.may_fill_device());
  CHECK(room.left_to_keep(kUse) == 0);
  CHECK_FALSE(room.may_spill_boundaries(kUse));
  CHECK(room.left_to_spill(kUse) == 0);
  CHECK_FALSE(room.allows_spills(kUse, 0));
}

TEST_CASE("spills stop a sixteenth before the host's limit, and at their own") {
  const Budget budget{.device_limit = 150, .host_limit = 1600};
  const MemorySection none;
  CHECK(Room(budget, none).left_to_spill(kUse) == 700);
  CHECK(Room(budget, none).may_spill_boundaries(kUse));
  CHECK(Room(budget, none).allows_spills({.device_bytes = 100, .host_bytes = 1500}, 700));
  CHECK_FALSE(Room(budget, none).allows_spills({.device_bytes = 100, .host_bytes = 1501}, 701));
  const MemorySection some = spill_limit(300);
  CHECK(Room(budget, some).left_to_spill(kUse) == 300);
  CHECK_FALSE(Room(budget, some).allows_spills(kUse, 301));
}

TEST_CASE("a spill limit stands for a host limit that nobody knows, but not for boundaries") {
  const Budget budget{.device_limit = 150};
  const MemorySection some = spill_limit(300);
  const Room room(budget, some);
  CHECK(room.left_to_spill(kUse) == 300);
  CHECK(room.allows_spills(kUse, 300));
  CHECK_FALSE(room.may_spill_boundaries(kUse));
}

TEST_CASE("what is beyond both limits is added up, and what is left is never negative") {
  const Budget budget{.device_limit = 90, .host_limit = 780};
  const MemorySection given;
  const Room room(budget, given);
  CHECK_FALSE(room.fits_device(kUse));
  CHECK_FALSE(room.fits_host(kUse));
  CHECK(room.beyond_limits(kUse) == 30);
  CHECK(room.left_on_device(kUse) == 0);
  CHECK(room.left_to_spill(kUse) == 0);
}

TEST_CASE("the cpu backend spills nothing, and keeps what a named host limit leaves") {
  const Budget budget{.host_limit = 1000, .device_is_host = true};
  const MemorySection measured;
  CHECK(Room(budget, measured).left_to_keep(kUse) == 0);
  MemorySection named;
  named.host_limit = ByteSize{1000};
  CHECK(Room(budget, named).left_to_keep(kUse) == 200);
  CHECK(Room(budget, named).left_to_spill(kUse) == 0);
  CHECK(Room(budget, named).keeps_host_reserve({.device_bytes = 0, .host_bytes = 1000}));
}
