// What nobody records takes no memory to submit. The dry backend enqueues nothing, so what is
// counted there is the path that all backends share; what a lane's own queue takes is not.

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "strata/device/arena.h"
#include "strata/ops/backend.h"
#include "support/allocations.h"
#include "support/catch.h"

namespace strata::test {
namespace {

constexpr DType kBF16 = DType::kBF16;
constexpr DType kF32 = DType::kF32;
constexpr DType kI32 = DType::kI32;

/// Views that look real, each place with an address of its own; nothing is read behind them.
TensorView view(DType dtype, const Shape& shape, std::size_t place = 0) {
  static std::array<std::byte, 4> somewhere;
  return {&somewhere.at(place), dtype, shape};
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

const AttentionForward kAttention{.q = view(kBF16, {8, 4, 64}),
                                  .k = view(kBF16, {8, 2, 64}),
                                  .v = view(kBF16, {8, 2, 64}),
                                  .segments = {.table = {}, .uniform_length = 4},
                                  .o = view(kBF16, {8, 4, 64}),
                                  .lse = view(kF32, {4, 8})};
const RopeAngles kAngles{
    .positions = view(kI32, {8}), .cos = view(kF32, {16, 32}), .sin = view(kF32, {16, 32})};

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
  Recorder stopped;
  for (TraceSink* trace : {static_cast<TraceSink*>(nullptr), static_cast<TraceSink*>(&stopped)}) {
    Machine m(trace);
    const TensorView rows = view(kBF16, {8, 16});
    const TensorView wide = view(kBF16, {8, 32});
    const TensorView few = view(kBF16, {8, 4}, 2);
    const TensorView columns = view(kBF16, {16});
    const TensorView numbers = view(kF32, {8});
    const TensorView ids = view(kI32, {8});
    const TensorView sums = view(DType::kF64, {1});
    m.run(EmbeddingForward{.ids = ids, .table = view(kBF16, {32, 16}), .y = rows});
    m.run(EmbeddingBackward{.ids = ids, .order = ids, .dy = rows, .d_table = view(kF32, {32, 16})});
    m.run(RmsNormForward{
        .x = rows, .residual = rows, .weight = columns, .sum = rows, .y = rows, .rstd = numbers});
    m.run(RmsNormBackward{.dy = rows,
                          .x = rows,
                          .weight = columns,
                          .rstd = numbers,
                          .d_residual = rows,
                          .dx = rows,
                          .d_weight = view(kF32, {16}),
                          .workspace = view(kF32, {RmsNormBackward::kWorkspaceRows, 16})});
    m.run(Rope{.x = view(kBF16, {8, 4, 64}),
               .positions = kAngles.positions,
               .cos = kAngles.cos,
               .sin = kAngles.sin});
    m.run(kAttention);
    m.run(AppendKv{.k = kAttention.k,
                   .v = kAttention.v,
                   .rows = ids,
                   .cache_k = view(kBF16, {16, 2, 64}),
                   .cache_v = view(kBF16, {16, 2, 64})});
    const TensorView turned = view(kBF16, {8, 4, 64});
    m.run(FusedAppend{.rope = {.x = turned,
                               .positions = kAngles.positions,
                               .cos = kAngles.cos,
                               .sin = kAngles.sin},
                      .append = {.k = turned,
                                 .v = turned,
                                 .rows = ids,
                                 .cache_k = view(kBF16, {16, 4, 64}),
                                 .cache_v = view(kBF16, {16, 4, 64})}});
    const TensorView queries_and_keys = view(kBF16, {8, 6, 64});
    const TensorView keys(static_cast<std::byte*>(queries_and_keys.data) + 4 * 64 * 2, kBF16,
                          Shape{8, 2, 64}, queries_and_keys.row_stride);
    m.run(FusedAttend{.added = {.rope = {.x = queries_and_keys,
                                         .positions = kAngles.positions,
                                         .cos = kAngles.cos,
                                         .sin = kAngles.sin},
                                .append = {.k = keys,
                                           .v = kAttention.v,
                                           .rows = ids,
                                           .cache_k = view(kBF16, {16, 2, 64}),
                                           .cache_v = view(kBF16, {16, 2, 64})}},
                      .segments = view(kI32, {8, 5}),
                      .o = view(kBF16, {8, 4, 64}),
                      .lse = view(kF32, {4, 8})});
    const Int8Kv kept{.k = view(DType::kI8, {16, 2, 64}),
                      .v = view(DType::kI8, {16, 2, 64}),
                      .k_scale = view(kF32, {16, 2}),
                      .v_scale = view(kF32, {16, 2})};
    m.run(AppendInt8Kv{.k = kAttention.k, .v = kAttention.v, .rows = ids, .cache = kept});
    m.run(DequantizeKv{.cache = kept,
                       .segments = view(kI32, {2, 5}),
                       .k = view(kBF16, {16, 2, 64}),
                       .v = view(kBF16, {16, 2, 64})});
    m.run(AttendInt8Kv{
        .q = kAttention.q, .cache = kept, .segments = view(kI32, {8, 5}), .o = kAttention.o});
    m.run(
        SampleTokens{.logits = rows,
                     .rows = view(DType::kU8, {8, static_cast<std::int64_t>(sizeof(SamplingRow))}),
                     .seen = ids,
                     .token = ids,
                     .logprob = numbers});
    m.run(AttentionBackward{.d_o = kAttention.o,
                            .q = kAttention.q,
                            .k = kAttention.k,
                            .v = kAttention.v,
                            .o = kAttention.o,
                            .lse = kAttention.lse,
                            .segments = kAttention.segments,
                            .dq = kAttention.o,
                            .dk = view(kBF16, {8, 2, 64}),
                            .dv = view(kBF16, {8, 2, 64}),
                            .delta = kAttention.lse,
                            .rotation = kAngles});
    m.run(SwigluForward{.gate_up = wide, .y = rows});
    m.run(SwigluBackward{.d_y = rows, .gate_up = wide, .d_gate_up = wide, .y = rows});
    m.run(ResidualAdd{.a = rows, .b = rows, .y = rows});
    const TensorView heads = view(kBF16, {8, 2, 8});
    m.run(HeadNormForward{.x = heads, .weight = view(kBF16, {8}), .y = heads, .rstd = {}});
    m.run(HeadNormBackward{.dy = heads,
                           .x = heads,
                           .weight = view(kBF16, {8}),
                           .rstd = view(kF32, {8, 2}),
                           .dx = heads,
                           .d_weight = view(kF32, {8}),
                           .workspace = view(kF32, {HeadNormBackward::kWorkspaceRows, 8})});
    m.run(BiasAdd{.x = rows, .bias = columns, .y = rows});
    m.run(SoftCapForward{.x = rows, .y = rows, .cap = 30});
    m.run(SoftCapBackward{.dy = rows, .y = rows, .dx = rows, .cap = 30});
    m.run(BiasBackward{.dy = rows,
                       .d_bias = view(kF32, {16}),
                       .workspace = view(kF32, {BiasBackward::kWorkspaceRows, 16})});
    m.run(Accumulate{.x = numbers, .sum = numbers});
    m.run(Cast{.x = numbers, .y = numbers});
    m.run(Fill{.x = numbers, .value = 1});
    m.run(CrossEntropy{.logits = rows,
                       .targets = ids,
                       .grad_scale = view(kF32, {1}),
                       .loss = numbers,
                       .lse = numbers,
                       .d_logits = rows});
    m.run(Matmul{.a = rows, .b = view(kBF16, {4, 16}), .out = view(kBF16, {8, 4})});
    m.run(FusedLinear{
        .norm = {.x = rows,
                 .residual = rows,
                 .weight = columns,
                 .sum = view(kBF16, {8, 16}, 1),
                 .y = rows,
                 .rstd = numbers},
        .product = {.a = rows, .b = view(kBF16, {4, 16}), .out = few, .batch_invariant = true},
        .residual = {.a = few, .b = few, .y = few}});
    m.run(SquaredNorm{.x = numbers, .partial = sums});
    m.run(CastSquaredNorm{.x = numbers, .y = numbers, .partial = sums});
    const AdamWScalars scalars;
    m.run(AdamW{.weight = columns,
                .low = view(DType::kI16, {16}),
                .m = view(kF32, {16}),
                .v = view(kF32, {16}),
                .grad = columns,
                .scalars = &scalars,
                .nonfinite = view(kI32, {1})});
    m.run(QuantizeRows{.x = rows, .q = view(DType::kI8, {8, 16}), .scale = numbers});
    m.run(DequantizeRows{.q = view(DType::kI8, {8, 16}), .scale = numbers, .x = rows});
  }
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
  op.segments = {.table = view(DType::kI32, {8, 5}), .pairs = 80};
  CHECK(op.cost().flops == 4.0 * (8 * 4) * (4 * 64));  // 4 keys for each of 8 queries
  op.window = std::numeric_limits<std::int64_t>::max();
  CHECK(op.cost().flops == 4.0 * static_cast<double>(op.segments.pairs) * (4 * 64));
}

}  // namespace
}  // namespace strata::test
