// What a submission that nobody records takes of the submitting thread: microseconds, and calls of
// operator new, for small operators, copies and waits between lanes.
//   submission_bench [--only TEXT] [--json FILE]          (TEXT: part of a case's name)
// Beside the cuda backend (cpu where there is no GPU) stands the dry backend, which enqueues
// nothing: that share is strata's own, the rest the driver's or the lane queue's. Cases named
// "driver" call the driver alone. A figure is the median over groups of the mean of a group, which
// is small enough to fit the driver's queues; allocations are the mean of all groups.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/program.h"
#include "bench/submission_bench.h"
#include "bench/times.h"
#include "strata/base/bytes.h"
#include "strata/device/arena.h"
#include "strata/ops/backend.h"
#include "support/allocations.h"

namespace {

using namespace strata;
using bench::SubmissionCase;

constexpr int kWarmUpGroups = 5;
constexpr int kGroups = 40;
constexpr int kRunsPerGroup = 100;

constexpr Tag kTag{.phase = "forward", .pass = 0, .unit = 3, .cell = 1};
constexpr std::int64_t kTokens = 16;
constexpr std::int64_t kHidden = 256;
constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kHeadDim = 64;
constexpr std::int64_t kVocabulary = 1024;
constexpr std::size_t kCopyBytes = 4 * kKiB;

/// A backend with a little zeroed memory; zeros are valid token ids, positions and scalars.
class Machine {
 public:
  explicit Machine(BackendKind kind)
      : backend_(make_backend(kind, {.device = {}, .threads = 1})),
        device_arena_(*backend_.device, Space::kDevice, kArenaBytes, "tensors"),
        pinned_arena_(*backend_.device, Space::kPinned, kArenaBytes, "host"),
        on_device_(device_arena_.allocate("tensors", kArenaBytes)),
        pinned_(pinned_arena_.allocate("host", kArenaBytes)) {
    lane(Lane::kCompute).set(on_device_, 0, kArenaBytes, {});
    backend_.device->synchronize();
  }

  [[nodiscard]] Device& device() { return *backend_.device; }
  [[nodiscard]] std::vector<SubmissionCase> cases() {
    add_operators();
    add_copies();
    add_waits();
    return std::exchange(cases_, {});
  }

 private:
  static constexpr std::size_t kArenaBytes = 8 * kMiB;

  [[nodiscard]] Stream& lane(Lane which) { return backend_.device->stream(which); }
  [[nodiscard]] TensorView tensor(DType dtype, const Shape& shape) {
    const TensorView view(on_device_ + used_, dtype, shape);
    used_ = round_up(used_ + view.bytes().bytes, Arena::kAlignment);
    return view;
  }
  [[nodiscard]] TensorView bf16(const Shape& shape) { return tensor(DType::kBF16, shape); }
  [[nodiscard]] TensorView f32(const Shape& shape) { return tensor(DType::kF32, shape); }
  [[nodiscard]] TensorView i32(const Shape& shape) { return tensor(DType::kI32, shape); }

  void add(std::string name, std::function<void()> submit) {
    cases_.push_back({std::move(name), std::move(submit), [this] { device().synchronize(); }});
  }
  template <Op O>
  void add(const O& op) {
    add(std::string(O::kName),
        [this, op] { backend_.kernels->run(lane(Lane::kCompute), op, kTag); });
  }
  void submit_nothing(Lane on) {
    lane(on).submit({.name = "nothing", .tag = kTag}, {}, [] {});
  }
  void add_operators();
  void add_attention();
  void add_copies();
  void add_waits();

  Backend backend_;
  Arena device_arena_;
  Arena pinned_arena_;
  std::byte* on_device_;
  std::byte* pinned_;
  std::size_t used_ = kCopyBytes;  ///< the first bytes are for copies
  std::vector<SubmissionCase> cases_;
};

void Machine::add_operators() {
  const TensorView rows = bf16({kTokens, kHidden});
  const TensorView wide = bf16({kTokens, 2 * kHidden});
  const TensorView weight = bf16({kHidden});
  const TensorView per_token = f32({kTokens});
  add("nothing", [this] { submit_nothing(Lane::kCompute); });
  add(Fill{.x = f32({kHidden}), .value = 1});
  add(Cast{.x = f32({kHidden}), .y = bf16({kHidden})});
  add(ResidualAdd{.a = rows, .b = rows, .y = rows});
  add(RmsNormForward{.x = rows,
                     .residual = rows,
                     .weight = weight,
                     .sum = rows,
                     .y = bf16({kTokens, kHidden}),
                     .rstd = per_token});
  add(RmsNormBackward{.dy = rows,
                      .x = rows,
                      .weight = weight,
                      .rstd = per_token,
                      .d_residual = rows,
                      .dx = rows,
                      .d_weight = f32({kHidden}),
                      .workspace = f32({RmsNormBackward::kWorkspaceRows, kHidden})});
  add(SwigluForward{.gate_up = wide, .y = rows});
  add(SwigluBackward{.d_y = rows, .gate_up = wide, .d_gate_up = wide, .y = rows});
  add(Matmul{.a = rows, .b = bf16({kHidden, kHidden}), .out = bf16({kTokens, kHidden})});
  const TensorView logits = bf16({kTokens, kVocabulary});
  add(CrossEntropy{.logits = logits,
                   .targets = i32({kTokens}),
                   .grad_scale = f32({1}),
                   .loss = per_token,
                   .lse = per_token,
                   .d_logits = logits});
  add(AdamW{.weight = weight,
            .low = tensor(DType::kI16, {kHidden}),
            .m = f32({kHidden}),
            .v = f32({kHidden}),
            .grad = weight,
            .scalars = static_cast<const AdamWScalars*>(
                tensor(DType::kU8, {std::int64_t{sizeof(AdamWScalars)}}).data),
            .nonfinite = i32({1})});
  add_attention();
}

void Machine::add_attention() {
  const RopeAngles angles{.positions = i32({kTokens}),
                          .cos = f32({kTokens, kHeadDim / 2}),
                          .sin = f32({kTokens, kHeadDim / 2})};
  const auto heads = [&] { return bf16({kTokens, kHeads, kHeadDim}); };
  const AttentionForward forward{.q = heads(),
                                 .k = heads(),
                                 .v = heads(),
                                 .segments = {.table = {}, .uniform_length = kTokens},
                                 .o = heads(),
                                 .lse = f32({kHeads, kTokens})};
  add(Rope{.x = heads(), .positions = angles.positions, .cos = angles.cos, .sin = angles.sin});
  add(forward);
  add(AttentionBackward{.d_o = heads(),
                        .q = forward.q,
                        .k = forward.k,
                        .v = forward.v,
                        .o = forward.o,
                        .lse = forward.lse,
                        .segments = forward.segments,
                        .dq = heads(),
                        .dk = heads(),
                        .dv = heads(),
                        .delta = f32({kHeads, kTokens}),
                        .rotation = angles});
}

void Machine::add_copies() {
  add("copy in 4 KiB",
      [this] { lane(Lane::kWeightsIn).copy(on_device_, pinned_, kCopyBytes, kTag); });
  add("copy out 4 KiB", [this] { lane(Lane::kOut).copy(pinned_, on_device_, kCopyBytes, kTag); });
  add("set 4 KiB", [this] { lane(Lane::kWeightsIn).set(on_device_, 0, kCopyBytes, kTag); });
  add("host task", [this] { lane(Lane::kHost).host_task("nothing", {}, kTag, [] {}); });
}

/// Only an event of new work is recorded and waited for, so each begins with a submission.
void Machine::add_waits() {
  add("nothing, record, wait", [this] {
    submit_nothing(Lane::kWeightsIn);
    lane(Lane::kCompute).wait(lane(Lane::kWeightsIn).record(), WaitFor::kFilled);
  });
  add("nothing on out, record, host waits", [this] {
    submit_nothing(Lane::kOut);
    lane(Lane::kHost).wait(lane(Lane::kOut).record(), WaitFor::kArrived);
  });
  add("host task, record, compute waits", [this] {
    lane(Lane::kHost).host_task("nothing", {}, kTag, [] {});
    lane(Lane::kCompute).wait(lane(Lane::kHost).record(), WaitFor::kDecided);
  });
}

/// Of one submission.
struct Figure {
  double us = 0;
  double allocations = 0;
};

Figure measure(const SubmissionCase& c) {
  std::vector<double> us;
  std::int64_t allocations = 0;
  for (int group = -kWarmUpGroups; group < kGroups; ++group) {
    const std::int64_t allocated = test::allocations_of_this_thread();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kRunsPerGroup; ++i) c.submit();
    const std::chrono::duration<double, std::micro> elapsed =
        std::chrono::steady_clock::now() - begin;
    const std::int64_t more = test::allocations_of_this_thread() - allocated;
    c.synchronize();
    if (group < 0) continue;
    us.push_back(elapsed.count() / kRunsPerGroup);
    allocations += more;
  }
  return {bench::median(std::move(us)),
          static_cast<double>(allocations) / (kGroups * kRunsPerGroup)};
}

void report(const std::string& name, const Figure& figure, const std::optional<Figure>& dry,
            nlohmann::json& results) {
  std::printf("%-36s %8.2f %8.2f", name.c_str(), figure.us, figure.allocations);
  nlohmann::json result = {{"name", name}, {"us", figure.us}, {"allocations", figure.allocations}};
  if (dry) {
    std::printf(" %8.3f %8.2f", dry->us, dry->allocations);
    result["dry_us"] = dry->us;
    result["dry_allocations"] = dry->allocations;
  }
  std::printf("\n");
  std::fflush(stdout);
  results.push_back(result);
}

void run(const bench::Options& options) {
  Machine machine(cuda_available() ? BackendKind::kCuda : BackendKind::kCpu);
  Machine dry(BackendKind::kDry);
  const DeviceInfo info = machine.device().info();
  std::printf("%s (%s); medians of %d groups of %d submissions\n", info.name.c_str(),
              info.backend.c_str(), kGroups, kRunsPerGroup);
  std::printf("%-36s %8s %8s %8s %8s\n", "", info.backend.c_str(), "", "dry", "");
  std::printf("%-36s %8s %8s %8s %8s\n", "submission", "us", "new", "us", "new");
  nlohmann::json results = nlohmann::json::array();
  const auto wanted = [&](const SubmissionCase& c) {
    return c.name.find(options.only) != std::string::npos;
  };
  const std::vector<SubmissionCase> cases = machine.cases();
  const std::vector<SubmissionCase> dry_cases = dry.cases();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (wanted(cases[i])) report(cases[i].name, measure(cases[i]), measure(dry_cases[i]), results);
  }
  if (info.backend == "cuda") {
    for (const SubmissionCase& c : bench::driver_cases()) {
      if (wanted(c)) report(c.name, measure(c), std::nullopt, results);
    }
  }
  bench::write_json(options.json,
                    {{"device", info.name}, {"backend", info.backend}, {"results", results}});
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_program("submission_bench",
                            [&] { run(bench::parse_options("submission_bench", argc, argv)); });
}
