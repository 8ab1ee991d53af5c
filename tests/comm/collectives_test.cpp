// The data plane: what collectives do on cpu devices of ranks in threads, what the trace shows of
// them, and which ones a device gets. mpi_ranks.cpp checks the same promises on ranks of MPI.
#include "strata/comm/collectives.h"
#include "strata/comm/postbox.h"

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/check_values.h"
#include "comm/checks.h"
#include "device/cpu/cpu_device.h"
#include "device/dry/dry_device.h"
#include "strata/base/error.h"
#include "support/catch.h"
#include "support/thread_ranks.h"

namespace strata {

namespace {

/// A group that may be asked for its rank and its size, and for nothing else.
class SilentRanks final : public Ranks {
 public:
  SilentRanks(int rank, int ranks) : rank_(rank), size_(ranks) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::string_view name() const override { return "silent"; }
  void barrier(Channel) override { fail(); }
  void all_reduce_sum(std::span<double>, Channel) override { fail(); }
  void broadcast(std::span<std::byte>, int, Channel) override { fail(); }
  [[nodiscard]] std::vector<std::byte> all_gather_host(std::span<const std::byte>,
                                                       Channel) override {
    fail();
  }
  [[nodiscard]] std::unique_ptr<Ranks> split(int) override { fail(); }
  [[noreturn]] void abort(int) override { fail(); }
  [[nodiscard]] std::unique_ptr<Collectives> make_host_collectives() override { fail(); }
  [[nodiscard]] std::unique_ptr<Postbox> make_postbox() override { fail(); }

 private:
  [[noreturn]] static void fail() { throw std::logic_error("silent ranks were asked to talk"); }

  int rank_;
  int size_;
};

/// A device that says which backend it belongs to, and has no lanes.
class NamedDevice final : public Device {
 public:
  explicit NamedDevice(std::string backend) : Device({}), backend_(std::move(backend)) {}
  [[nodiscard]] DeviceInfo info() const override { return {.backend = backend_, .name = backend_}; }
  [[nodiscard]] std::unique_ptr<DeviceMemory> allocate(Space, std::size_t) override { return {}; }
  [[nodiscard]] std::size_t device_bytes_in_use() const override { return 0; }
  void throw_if_failed() override {}

 protected:
  void do_wait(Event) override {}

 private:
  std::string backend_;
};

DeviceOptions traced_by(Recorder& recorder) {
  DeviceOptions options;
  options.trace = &recorder;
  return options;
}

/// Two gathers and a reduction of a buffer of `ranks` shards, from some places of a step.
void submit_three(Collectives& collectives, Device& device, std::vector<float>& full) {
  Stream& comm = device.stream(Lane::kComm);
  collectives.all_gather(comm, view_of(full), {.phase = "forward", .unit = 4});
  collectives.reduce_scatter(comm, view_of(full), {.phase = "backward", .unit = 2});
  std::vector<Bf16> bf16(full.size());
  collectives.all_gather(comm, view_of(bf16), {.phase = "backward", .unit = 1});
  device.synchronize();
}

}  // namespace

TEST_CASE("the collectives of one rank keep their promises, and submit nothing") {
  const std::unique_ptr<Ranks> self = make_self_ranks();
  for (const CollectivesCheck& check : collectives_checks()) {
    INFO(check.name);
    CHECK_NOTHROW(check.run(*self, cpu_machine()));
  }
  Recorder recorder;
  const std::unique_ptr<Device> device = make_cpu_device(traced_by(recorder));
  recorder.start();
  std::vector<float> values{1.5f, -0.0f, 3.0f};
  submit_three(*make_collectives(*self, *device), *device, values);
  CHECK(recorder.records().empty());
  CHECK(values == std::vector<float>{1.5f, -0.0f, 3.0f});
}

TEST_CASE("the collectives of ranks in threads keep their promises") {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const CollectivesCheck& check : collectives_checks()) {
      INFO(ranks << " ranks: " << check.name);
      CHECK_NOTHROW(run_ranks(ranks, [&](Ranks& own) { check.run(own, cpu_machine()); }));
    }
  }
}

TEST_CASE("the trace shows a gather reading the own shard and writing all") {
  std::atomic<int> right = 0;
  run_ranks(2, [&](Ranks& ranks) {
    Recorder recorder;
    const std::unique_ptr<Device> device = make_cpu_device(traced_by(recorder));
    const std::unique_ptr<Collectives> collectives = make_collectives(ranks, *device);
    std::vector<float> full(10);
    recorder.start();
    collectives->all_gather(device->stream(Lane::kComm), view_of(full),
                            {.phase = "forward", .unit = 4});
    device->synchronize();
    const auto found = recorder.find("all_gather", {.phase = "forward", .unit = 4});
    if (found.size() != 1) return;
    const Submission& what = recorder.records()[found[0]].what;
    const auto* begin = reinterpret_cast<const std::byte*>(full.data());
    if (what.kind == SubmissionKind::kCollective && what.accesses.reads.size() == 1 &&
        what.accesses.reads[0].begin == begin + 20 * ranks.rank() &&
        what.accesses.reads[0].bytes == 20 && what.accesses.writes.size() == 1 &&
        what.accesses.writes[0].begin == begin && what.accesses.writes[0].bytes == 40) {
      ++right;
    }
  });
  CHECK(right == 2);
}

TEST_CASE("on the dry machine collectives submit what they submit on the cpu") {
  std::atomic<int> same = 0;
  run_ranks(3, [&](Ranks& ranks) {
    Recorder ran, dry;
    const std::unique_ptr<Device> device = make_cpu_device(traced_by(ran));
    const std::unique_ptr<Device> paper = make_dry_device(traced_by(dry));
    ran.start();
    dry.start();
    std::vector<float> full(12);
    submit_three(*make_collectives(ranks, *device), *device, full);
    SilentRanks silent(ranks.rank(), ranks.size());
    submit_three(*make_collectives(silent, *paper), *paper, full);
    if (ran.records().size() != 3 || dry.canonical() != ran.canonical()) return;
    ++same;
  });
  CHECK(same == 3);
}

TEST_CASE("on the dry machine collectives touch no data and talk to nobody") {
  Recorder recorder;
  const std::unique_ptr<Device> device = make_dry_device(traced_by(recorder));
  recorder.start();
  SilentRanks silent(1, 2);
  std::vector<float> full{1, 2, 3, 4};
  submit_three(*make_collectives(silent, *device), *device, full);
  CHECK(recorder.records().size() == 3);
  CHECK(full == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("several ranks on a device without collectives are refused") {
  NamedDevice device("quantum");
  SilentRanks two(0, 2);
  REQUIRE_THROWS_AS(make_collectives(two, device), BackendError);
  REQUIRE_THROWS_WITH(make_collectives(two, device),
                      ContainsSubstring("2 ranks on the quantum backend"));
  SilentRanks one(0, 1);
  CHECK_NOTHROW(make_collectives(one, device));
}

}  // namespace strata
