// Measures AdamW on the host against the memory bandwidth that the same threads reach, alone and
// while the link and the device are busy.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/host_bench.h"
#include "bench/host_runs.h"
#include "bench/layer_products.h"
#include "bench/link_traffic.h"
#include "bench/times.h"

namespace strata::bench {
namespace {

constexpr std::int64_t kParameters = std::int64_t{1} << 27;
constexpr int kRuns = 12;
/// What runs beside a run of at most 60 ms, submitted in turns with it.
constexpr int kChunksPerRun = 90;
constexpr int kLayersPerRun = 4;

/// A run of parameters in pinned memory, as TrainingState keeps them: bf16 weights and gradients.
struct State {
  State(Backend& backend, DType moments)
      : arena(*backend.device, Space::kPinned,
              kParameters * (6 + 2 * size_of(moments)) + kParameters / 32 + kMiB,
              "optimizer state") {
    op.weight = arena.allocate_tensor("weight", DType::kBF16, {kParameters});
    op.low = arena.allocate_tensor("low", DType::kI16, {kParameters});
    op.m = arena.allocate_tensor("m", moments, {kParameters});
    op.v = arena.allocate_tensor("v", moments, {kParameters});
    grad = arena.allocate_tensor("grad", DType::kBF16, {kParameters});
    op.grad = grad;
    op.nonfinite = arena.allocate_tensor("nonfinite", DType::kI32, {1});
    op.scalars = &scalars;
    Stream& host = backend.device->stream(Lane::kHost);
    host.set(op.low.data, 0, op.low.bytes().bytes, {});
    const auto fill = [&](const TensorView& view, double value) {
      backend.host_kernels().run(host, Fill{.x = view, .value = value}, {});
    };
    fill(op.weight, 0.5);
    fill(grad, 1e-3);
    if (moments == kMomentCode) {
      op.scale =
          arena.allocate_tensor("scale", kMomentCode, {kParameters / kMomentBlock, kMomentScales});
      for (const TensorView& view : {op.m, op.v}) host.set(view.data, 100, view.bytes().bytes, {});
      host.set(op.scale.data, 110, op.scale.bytes().bytes, {});
    } else {
      fill(op.m, 1e-4);
      fill(op.v, 1e-6);
    }
    backend.host_kernels().run(host, Fill{.x = op.nonfinite, .value = 0}, {});
  }
  /// Read once and, but for the gradient, written once.
  [[nodiscard]] double bytes() const {
    return static_cast<double>(kParameters) * static_cast<double>(10 + 4 * size_of(op.m.dtype));
  }

  Arena arena;
  AdamWScalars scalars{.lr = 1e-4, .correction1 = 0.5, .correction2 = 0.5};
  TensorView grad;
  AdamW op;
};

/// Adds 1 to every word: nothing but the traffic of the update.
void touch(const TensorView& view, std::int64_t begin, std::int64_t end) {
  const auto each = static_cast<std::int64_t>(size_of(view.dtype));
  auto* words = reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(view.data));
  for (std::int64_t i = begin * each / 8; i < end * each / 8; ++i) words[i] += 1;
}
std::uint64_t sum(const ConstTensorView& view, std::int64_t begin, std::int64_t end) {
  const auto* words = static_cast<const std::uint64_t*>(view.data);
  std::uint64_t all = 0;
  for (std::int64_t i = begin / 4; i < end / 4; ++i) all += words[i];
  return all;
}
void stream_through(ThreadPool& pool, const State& state, std::vector<std::uint64_t>& sums) {
  constexpr std::int64_t kGrain = 16384;
  pool.parallel_for(kParameters, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (const TensorView& view : {state.op.weight, state.op.low, state.op.m, state.op.v}) {
      touch(view, begin, end);
    }
    sums[static_cast<std::size_t>(begin / kGrain)] = sum(state.grad, begin, end);
  });
}

class AdamWBench {
 public:
  AdamWBench(Backend& backend, LaneTimes& times, nlohmann::json& results)
      : backend_(backend), times_(times), results_(results) {}

  /// `busy` submits other work that lasts longer than a run; returns false if there is none.
  template <class Busy>
  void measure(const std::string& where, const Busy& busy) {
    for (const DType moments : {DType::kF32, DType::kBF16, kMomentCode}) {
      State state(backend_, moments);
      std::vector<std::uint64_t> sums(kParameters / 16384);
      const std::string kind = std::string(moment_name(moments)) + " moments, " + where;
      Stream& host = backend_.device->stream(Lane::kHost);
      report("adamw, " + kind, state, busy,
             [&] { backend_.host_kernels().run(host, state.op, {}); });
      report("plain stream, " + kind, state, busy, [&] {
        host.host_task("stream", {}, {}, [&] { stream_through(*backend_.pool, state, sums); });
      });
    }
  }

 private:
  template <class Busy, class Run>
  void report(const std::string& name, const State& state, const Busy& busy, const Run& run) {
    const HostRuns runs =
        time_host_runs(*backend_.device, times_, kRuns,
                       {Lane::kCompute, Lane::kWeightsIn, Lane::kOut}, name, busy, run);
    const double s = median(runs.seconds);
    const double rate = static_cast<double>(kParameters) / s * 1e-9;
    std::printf("%-44s %6.2f Gparam/s %7.1f GB/s", name.c_str(), rate, state.bytes() / s * 1e-9);
    nlohmann::json result = {
        {"name", name}, {"gparam_per_s", rate}, {"gb_per_s", state.bytes() / s * 1e-9}};
    if (runs.busy) {
      result["in_gb_per_s"] = LinkTraffic::gb_per_s(times_, Lane::kWeightsIn, runs.steady);
      result["out_gb_per_s"] = LinkTraffic::gb_per_s(times_, Lane::kOut, runs.steady);
      std::printf("; copies %.1f GB/s in, %.1f out", result["in_gb_per_s"].get<double>(),
                  result["out_gb_per_s"].get<double>());
    }
    std::printf("\n");
    std::fflush(stdout);
    results_.push_back(result);
  }

  Backend& backend_;
  LaneTimes& times_;
  nlohmann::json& results_;
};

}  // namespace

void bench_adamw(Backend& backend, LaneTimes& times, nlohmann::json& results) {
  AdamWBench bench(backend, times, results);
  bench.measure("alone", [] { return false; });
  if (backend.device->info().backend != "cuda") {
    std::printf("adamw under copies and matrix products: skipped, needs the cuda backend\n");
    return;
  }
  LinkTraffic link(*backend.device);
  LayerProducts layer(backend);
  bench.measure("under copies and products", [&] {
    link.submit(kChunksPerRun, true, true);
    layer.submit(kLayersPerRun);
    return true;
  });
}

}  // namespace strata::bench
