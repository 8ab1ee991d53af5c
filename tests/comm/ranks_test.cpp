// The control plane: the group of one, the group on paper, and ranks in threads. mpi_ranks.cpp
// checks the same promises on ranks of MPI.
#include <array>
#include <atomic>
#include <stdexcept>
#include <vector>

#include "comm/check_values.h"
#include "comm/checks.h"
#include "strata/base/error.h"
#include "support/catch.h"
#include "support/thread_ranks.h"

namespace strata {

TEST_CASE("the group of one behaves like any other") {
  const std::unique_ptr<Ranks> self = make_self_ranks();
  CHECK(self->rank() == 0);
  CHECK(self->size() == 1);
  CHECK(self->name() == "self");
  for (const RanksCheck& check : ranks_checks()) {
    INFO(check.name);
    CHECK_NOTHROW(check.run(*self));
  }
}

TEST_CASE("ranks in threads behave like any other") {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const RanksCheck& check : ranks_checks()) {
      INFO(ranks << " ranks: " << check.name);
      CHECK_NOTHROW(run_ranks(ranks, check.run));
    }
  }
}

TEST_CASE("ranks in threads and the group of one add in the order of ranks", "[long]") {
  const std::unique_ptr<Ranks> self = make_self_ranks();
  for (const RanksCheck& check : rank_order_checks()) {
    INFO(check.name);
    CHECK_NOTHROW(check.run(*self));
    for (const int ranks : {1, 2, 3, 4}) CHECK_NOTHROW(run_ranks(ranks, check.run));
  }
}

TEST_CASE("a group on paper answers alone, as if the others had contributed zeros") {
  const std::unique_ptr<Ranks> dry = make_dry_ranks(2, 4);
  CHECK(dry->rank() == 2);
  CHECK(dry->size() == 4);
  CHECK(dry->name() == "dry");
  dry->barrier(Channel::kSubmit);
  std::array<double, 2> values{1.5, -3.0};
  dry->all_reduce_sum(values, Channel::kHost);
  CHECK(values == std::array<double, 2>{1.5, -3.0});
  std::array<std::byte, 2> bytes{std::byte{5}, std::byte{6}};
  dry->broadcast(bytes, 0, Channel::kSubmit);
  CHECK(bytes == std::array<std::byte, 2>{std::byte{5}, std::byte{6}});
  std::vector<std::byte> gathered(8);
  gathered[4] = std::byte{5};
  gathered[5] = std::byte{6};
  CHECK(dry->all_gather_host(bytes, Channel::kSubmit) == gathered);
  CHECK(!dry->any_failed(false, Channel::kSubmit));
  CHECK(dry->any_failed(true, Channel::kSubmit));
  CHECK_THROWS_AS(dry->make_host_collectives(), std::logic_error);
  CHECK_THROWS_AS(dry->split(0), std::logic_error);
}

TEST_CASE("a rank in a thread that throws releases those who wait for it") {
  std::atomic<int> released = 0;
  const auto body = [&](Ranks& ranks) {
    if (ranks.rank() == 1) throw std::out_of_range("rank 1 has had enough");
    try {
      ranks.barrier(Channel::kSubmit);
    } catch (const BackendError&) {
      ++released;
      throw;
    }
  };
  REQUIRE_THROWS_WITH(run_ranks(3, body), ContainsSubstring("rank 1 has had enough"));
  CHECK(released == 2);
}

TEST_CASE("a rank in a thread that fails releases those who wait in a part") {
  const auto body = [](Ranks& ranks) {
    const std::unique_ptr<Ranks> part = ranks.split(ranks.rank() / 2);
    if (ranks.rank() == 3) throw std::out_of_range("rank 3 has had enough");
    part->barrier(Channel::kHost);
    part->barrier(Channel::kHost);
    ranks.barrier(Channel::kSubmit);
  };
  REQUIRE_THROWS_WITH(run_ranks(4, body), ContainsSubstring("rank 3 has had enough"));
}

TEST_CASE("a rank in a thread that aborts releases lanes that wait for it") {
  const auto body = [](Ranks& ranks) {
    if (ranks.rank() == 0) ranks.abort(4);
    CommLane lane(ranks);
    std::vector<float> full(2);
    lane.collectives->all_gather(lane.comm, view_of(full), {});
    lane.device->synchronize();
  };
  REQUIRE_THROWS_WITH(run_ranks(2, body), ContainsSubstring("aborted with exit code 4"));
}

}  // namespace strata
