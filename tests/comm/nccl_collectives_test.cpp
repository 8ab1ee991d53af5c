// The collectives of NCCL on a library that stands in its place: what they ask of it, what they
// make of its errors, and how the library is found. Only GPUs can show what NCCL itself does.
#include "comm/nccl_collectives.h"

#include <array>
#include <atomic>
#include <string>
#include <vector>

#include "comm/check_values.h"
#include "comm/checks.h"
#include "comm/nccl_api.h"
#include "device/cpu/cpu_device.h"
#include "strata/base/error.h"
#include "support/catch.h"
#include "support/fake_nccl.h"
#include "support/places.h"
#include "support/thread_ranks.h"

namespace strata {

namespace {

/// A cpu device whose collectives are NCCL's on the fake library.
CommMachine machine_of(FakeNccl& nccl) {
  CommMachine machine = cpu_machine();
  machine.collectives = [&nccl](Ranks& ranks, Device& device) {
    if (ranks.size() == 1) return make_collectives(ranks, device);
    return make_nccl_collectives(nccl.api(), ranks, device);
  };
  return machine;
}

}  // namespace

TEST_CASE("collectives of NCCL keep their promises, and close what they have opened") {
  FakeNccl nccl;
  for (const CollectivesCheck& check : collectives_checks()) {
    INFO(check.name);
    CHECK_NOTHROW(run_ranks(3, [&](Ranks& own) { check.run(own, machine_of(nccl)); }));
  }
  CHECK(nccl.open() == 0);
  CHECK(nccl.aborted() == 0);
}

TEST_CASE("a rank that NCCL cannot connect is named with what NCCL says") {
  FakeNccl nccl;
  nccl.fail_connecting(1, "peer access is not supported");
  std::array<std::string, 2> said;
  run_ranks(2, [&](Ranks& ranks) {
    try {
      const CommLane lane(ranks, machine_of(nccl));
    } catch (const BackendError& error) {
      said.at(static_cast<std::size_t>(ranks.rank())) = error.what();
      nccl.release();  // the other would wait for ever, as with NCCL; a run takes it down
    }
  });
  CHECK_THAT(said[1], ContainsSubstring("connect on rank 1 of 2: invalid usage") &&
                          ContainsSubstring("peer access is not supported"));
}

TEST_CASE("an error of NCCL that no lane sees is told to whoever asks") {
  FakeNccl nccl;
  std::atomic<int> right = 0;
  run_ranks(2, [&](Ranks& ranks) {
    const CommLane lane(ranks, machine_of(nccl));
    if (lane.collectives->failure().empty()) ++right;
    ranks.barrier(Channel::kSubmit);
    if (ranks.rank() == 0) nccl.fail_later(1, "link 3 is down");
    ranks.barrier(Channel::kSubmit);
    const std::string wanted = ranks.rank() == 1 ? "NCCL: invalid usage (link 3 is down)" : "";
    if (lane.collectives->failure() == wanted) ++right;
  });
  CHECK(right == 4);
  CHECK(nccl.open() == 0);
  CHECK(nccl.aborted() == 1);  // what has failed is not closed in an orderly way
}

TEST_CASE("a call that NCCL refuses says which collective, and on which rank") {
  FakeNccl nccl;
  const auto gather = [&](Ranks& ranks) {
    NcclApi api = nccl.api();
    const auto works = api.all_gather;
    api.all_gather = [works](const void* from, void* to, std::size_t count, NcclType type,
                             NcclComm comm, NcclStream stream) {
      return count == 77 ? NcclResult::kInvalidUsage : works(from, to, count, type, comm, stream);
    };
    const std::unique_ptr<Device> device = make_cpu_device({});
    const auto collectives = make_nccl_collectives(api, ranks, *device);
    std::vector<std::uint8_t> full(static_cast<std::size_t>(77 * ranks.size()));
    collectives->all_gather(device->stream(Lane::kComm), view_of(full), {});
  };
  CHECK_THROWS_WITH(run_ranks(2, gather), ContainsSubstring("NCCL could not gather on rank "));
}

TEST_CASE("a connection that an error takes down is aborted, since the others may never close it") {
  FakeNccl nccl;
  const auto fail = [&](Ranks& ranks) {
    const CommLane lane(ranks, machine_of(nccl));
    if (ranks.rank() == 1) throw IoError("a file of this rank alone");
    ranks.barrier(Channel::kSubmit);  // until the other has failed
  };
  CHECK_THROWS_AS(run_ranks(2, fail), IoError);
  CHECK(!nccl.hung());
  CHECK(nccl.open() == 0);
  CHECK(nccl.aborted() == 2);
}

TEST_CASE("a machine without NCCL is told what to install") {
  CHECK_THROWS_AS(load_nccl("libno_such_nccl.so.2"), BackendError);
  CHECK_THROWS_WITH(load_nccl("libno_such_nccl.so.2"),
                    ContainsSubstring("libno_such_nccl.so.2") && ContainsSubstring("libnccl2"));
}

TEST_CASE("a library that is too old or no NCCL is refused by name") {
  CHECK_THROWS_WITH(load_nccl(test::built("libold_nccl.so")),
                    ContainsSubstring("is NCCL 2.4.8") && ContainsSubstring("2.18 or later"));
  CHECK_THROWS_WITH(load_nccl(test::built("libhalf_nccl.so")),
                    ContainsSubstring("has no function ncclGetUniqueId"));
}

TEST_CASE("versions read as NCCL counts them") {
  CHECK(nccl_version_text(22803) == "2.28.3");
  CHECK(nccl_version_text(2708) == "2.7.8");
  CHECK(nccl_version_text(21800) == "2.18.0");
}

}  // namespace strata
