// Tests communicators of one rank and of ranks in threads by communicator_checks.h, and that a rank
// that fails releases the others.

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <vector>

#include "comm/communicator_checks.h"
#include "device/cpu/cpu_device.h"
#include "strata/base/error.h"
#include "support/catch.h"
#include "support/thread_communicator.h"

namespace strata {

namespace {

std::unique_ptr<Device> make_traced_device(Recorder& recorder) {
  DeviceOptions options;
  options.trace = &recorder;
  return make_cpu_device(options);
}

}  // namespace

TEST_CASE("the group of one behaves like any other") {
  const std::unique_ptr<Communicator> self = make_self_communicator();
  CHECK(self->rank() == 0);
  CHECK(self->size() == 1);
  CHECK(self->name() == "self");
  for (const CommunicatorCheck& check : communicator_checks()) {
    INFO(check.name);
    CHECK_NOTHROW(check.run(*self));
  }
}

TEST_CASE("ranks in threads behave like any other") {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const CommunicatorCheck& check : communicator_checks()) {
      INFO(ranks << " ranks: " << check.name);
      CHECK_NOTHROW(run_ranks(ranks, check.run));
    }
  }
}

TEST_CASE("the group of one submits nothing") {
  Recorder recorder;
  const std::unique_ptr<Device> device = make_traced_device(recorder);
  recorder.start();
  std::vector<float> values{1.5f, -0.0f, 3.0f};
  const TensorView view(values.data(), DType::kF32, {3});
  const std::unique_ptr<Communicator> self = make_self_communicator();
  self->all_gather(device->stream(Lane::kComm), view, {});
  self->reduce_scatter(device->stream(Lane::kComm), view, {});
  CHECK(recorder.records().empty());
  CHECK(values == std::vector<float>{1.5f, -0.0f, 3.0f});
}

TEST_CASE("the trace shows a gather reading the own shard and writing all") {
  std::atomic<int> right = 0;
  run_ranks(2, [&](Communicator& c) {
    Recorder recorder;
    const std::unique_ptr<Device> device = make_traced_device(recorder);
    std::vector<float> full(10);
    recorder.start();
    c.all_gather(device->stream(Lane::kComm), {full.data(), DType::kF32, {10}},
                 {.phase = "forward", .unit = 4});
    device->synchronize();
    const auto found = recorder.find("all_gather", {.phase = "forward", .unit = 4});
    if (found.size() != 1) return;
    const Submission& what = recorder.records()[found[0]].what;
    const auto* begin = reinterpret_cast<const std::byte*>(full.data());
    if (what.kind == SubmissionKind::kCollective && what.accesses.reads.size() == 1 &&
        what.accesses.reads[0].begin == begin + 20 * c.rank() &&
        what.accesses.reads[0].bytes == 20 && what.accesses.writes.size() == 1 &&
        what.accesses.writes[0].begin == begin && what.accesses.writes[0].bytes == 40) {
      ++right;
    }
  });
  CHECK(right == 2);
}

TEST_CASE("a rank in a thread that throws releases those who wait for it") {
  std::atomic<int> released = 0;
  const auto body = [&](Communicator& c) {
    if (c.rank() == 1) throw std::out_of_range("rank 1 has had enough");
    try {
      c.barrier(Channel::kSubmit);
    } catch (const BackendError&) {
      ++released;
      throw;
    }
  };
  REQUIRE_THROWS_WITH(run_ranks(3, body), ContainsSubstring("rank 1 has had enough"));
  CHECK(released == 2);
}

TEST_CASE("a rank in a thread that aborts releases lanes that wait for it") {
  const auto body = [](Communicator& c) {
    if (c.rank() == 0) c.abort(4);
    const std::unique_ptr<Device> device = make_cpu_device({});
    std::vector<float> full(2);
    c.all_gather(device->stream(Lane::kComm), {full.data(), DType::kF32, {2}}, {});
    device->synchronize();
  };
  REQUIRE_THROWS_WITH(run_ranks(2, body), ContainsSubstring("aborted with exit code 4"));
}

}  // namespace strata
