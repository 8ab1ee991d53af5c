// What nobody records takes no memory to submit. The dry backend enqueues nothing, so what is
// counted there is the path that all backends share; what a lane's own queue takes is not.

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "strata/device/arena.h"
#include "strata/op_checks/check_list.h"
#include "strata/ops/backend.h"
#include "support/allocations.h"
#include "support/catch.h"
#include "support/passed_on_kernels.h"

namespace strata::test {
namespace {

/// A view that looks real; nothing is read behind it.
TensorView shaped_view(DType dtype, const Shape& shape) {
  static std::byte somewhere;
  return {&somewhere, dtype, shape};
}

/// A dry machine and what submits on it.
struct Machine {
  explicit Machine(TraceSink* trace = nullptr)
      : backend(make_backend(BackendKind::kDry, {.device = {.trace = trace}})),
        compute(backend.device->stream(Lane::kCompute)) {}

  template <Op O>
  void run(const O& op) {
    INFO(O::kName);
    CHECK(allocations([&] { backend.kernels->run(compute, op, {.phase = "forward"}); }) == 0);
  }
  /// Of the second call: the first may find that something was never used before.
  template <class Submit>
  [[nodiscard]] static std::int64_t allocations(const Submit& submit) {
    submit();
    const std::int64_t before = allocations_of_this_thread();
    submit();
    return allocations_of_this_thread() - before;
  }

  Backend backend;
  Stream& compute;
};

const AttentionForward kAttention{.q = shaped_view(DType::kBF16, {8, 4, 64}),
                                  .k = shaped_view(DType::kBF16, {8, 2, 64}),
                                  .v = shaped_view(DType::kBF16, {8, 2, 64}),
                                  .segments = {.table = {}, .uniform_length = 4},
                                  .o = shaped_view(DType::kBF16, {8, 4, 64}),
                                  .lse = shaped_view(DType::kF32, {4, 8})};

/// Counts what every operator takes to submit, and hands it on.
class CountedKernels final : public PassedOnKernels {
 public:
  using PassedOnKernels::PassedOnKernels;

 private:
#define STRATA_COUNT(Operator)                               \
  void launch(Stream& stream, const Operator& op) override { \
    unrecorded_.run(op);                                     \
    stopped_.run(op);                                        \
    pass_on(stream, op);                                     \
  }
  STRATA_FOR_EACH_OPERATOR(STRATA_COUNT)
#undef STRATA_COUNT

  Recorder recorder_;  // that was never started
  Machine unrecorded_;
  Machine stopped_{&recorder_};
};

TEST_CASE("the counter sees what is allocated", "[ops]") {
  const std::int64_t before = allocations_of_this_thread();
  const std::vector<int> numbers(100, 1);
  // A compiler may leave out memory whose address nobody learns, and clang does.
  const int* const volatile learnt = numbers.data();
  CHECK(allocations_of_this_thread() - before == 1);
  CHECK(learnt == numbers.data());
  CHECK(numbers.size() == 100);
}

TEST_CASE("an operator that nobody records takes no memory to submit", "[ops]") {
  const AttentionCase single{.name = "single queries",
                             .queries = 2,
                             .keys = 9,
                             .heads = 2,
                             .kv_heads = 1,
                             .head_dim = 8,
                             .segments = {{0, 0, 1, 4, 3}, {1, 4, 1, 5, 4}},
                             .parts = 1};
  const CheckShapes shapes{.rows = {{3, 7}},
                           .vocabularies = {{3, 63}},
                           .runs = {37},
                           .products = {{3, 5, 8}},
                           .fused = {{2, 6, 8, 0, FusedBefore::kResidualNorm, FusedAfter::kGate},
                                     {2, 6, 8, 0, FusedBefore::kNorm, FusedAfter::kResidual}},
                           .heads = {{3, 2, 8, 0}},
                           .attention = {causal_case(1, 7, 2, 1, 8)},
                           .decode = {single},
                           .fused_attend = {single}};
  Backend backend = with_kernels<CountedKernels>()(BackendKind::kCpu, {.device = {}, .threads = 1});
  OpRunner runner(backend);
  for (const OpCheck& check : op_checks(shapes, BackendKind::kCpu)) check.run(runner);
  CHECK(runner.names().size() == kOperatorNames.size());
}

TEST_CASE("copies, sets, waits and host tasks that nobody records take no memory", "[ops]") {
  Machine m;
  Device& device = *m.backend.device;
  Arena pinned(device, Space::kPinned, 4096, "pinned");
  Arena on_device(device, Space::kDevice, 4096, "device");
  std::byte* const from = pinned.allocate("from", 1024);
  std::byte* const to = on_device.allocate("to", 1024);
  Stream& in = device.stream(Lane::kWeightsIn);
  Stream& host = device.stream(Lane::kHost);
  CHECK(Machine::allocations([&] {
          in.copy(to, from, 1024, {.phase = "forward", .unit = 1});
          in.set(to, 0, 1024, {});
          m.compute.wait(in.record(), WaitFor::kFilled);
          host.wait(in.record(), WaitFor::kArrived);
        }) == 0);
  CHECK(Machine::allocations([&] {
          host.host_task(
              "sum", [&] { return Accesses({{from, 1024}}, {}); }, {}, [from] { (void)from; });
          device.host_access("read", [&] { return Accesses({{from, 1024}}, {}); }, {});
        }) == 0);
}

TEST_CASE("an operator that is recorded says what it touches and costs", "[ops]") {
  Recorder recorder;
  Machine m(&recorder);
  m.backend.kernels->run(m.compute, kAttention, {});
  recorder.start();
  m.backend.kernels->run(m.compute, kAttention, {.phase = "forward", .unit = 2});
  recorder.stop();
  m.backend.kernels->run(m.compute, kAttention, {});
  REQUIRE(recorder.records().size() == 1);
  const Submission& what = recorder.records()[0].what;
  CHECK(what.name == AttentionForward::kName);
  CHECK(what.kind == SubmissionKind::kKernel);
  CHECK(what.tag.unit == 2);
  CHECK(what.accesses.reads.size() == 3);  // the table is absent
  CHECK(what.accesses.writes.size() == 2);
  CHECK(what.cost.kind == CostKind::kAttentionForward);
  CHECK(what.cost.flops == kAttention.cost().flops);
}

TEST_CASE("an update costs the parameters whose moments it codes", "[ops]") {
  AdamW op;
  op.m = shaped_view(DType::kBF16, {192});
  CHECK(op.cost().coded == 0);
  op.m = shaped_view(kMomentCode, {192});
  CHECK(op.cost().coded == 192);
  op.rare = true;
  CHECK(op.cost().coded == 0);
}

TEST_CASE("attention with a window costs what its pairs cost", "[ops]") {
  CHECK(windowed_length(2048, 512) == (2048 * 2048 - 1536 * 1536) / 2048);
  CHECK(windowed_length(2048, 2048) == 2048);
  CHECK(windowed_length(2048, 0) == 2048);
  AttentionForward op = kAttention;
  op.segments.table = {};
  op.segments.uniform_length = 8;
  const double whole = op.cost().flops;
  op.window = 4;
  CHECK(op.cost().flops == whole * 6 / 8);  // 8^2 - 4^2 of 8^2 pairs
  op.segments = {.table = shaped_view(DType::kI32, {8, 5}), .pairs = 80};
  CHECK(op.cost().flops == 4.0 * (8 * 4) * (4 * 64));  // 4 keys for each of 8 queries
  op.window = std::numeric_limits<std::int64_t>::max();
  CHECK(op.cost().flops == 4.0 * static_cast<double>(op.segments.pairs) * (4 * 64));
}

}  // namespace
}  // namespace strata::test
