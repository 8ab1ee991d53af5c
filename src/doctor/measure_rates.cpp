// The state of the update is larger than most caches, and lies as the first touch of all threads
// leaves it, as in a run.

#include "doctor/measure_rates.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>

#include "strata/base/bytes.h"
#include "strata/base/thread_pool.h"
#include "strata/device/arena.h"
#include "strata/ops/backend.h"

namespace strata {

namespace {

constexpr std::int64_t kParameters = std::int64_t{1} << 24;
constexpr std::size_t kParameterBytes = 14;  // of a parameter: bf16 weight and gradient, low, m, v
constexpr double kUpdateBytes = 26;          // read and written of a parameter by AdamW
constexpr double kMeasureS = 0.2;

/// Parameters with their state, on the cpu backend, whose calls here return when they are done.
class HostState {
 public:
  HostState(int threads, const RateClock& clock)
      : clock_(clock),
        backend_(make_backend(BackendKind::kCpu,
                              {.device = {.execution = Execution::kEager}, .threads = threads})),
        arena_(*backend_.device, Space::kPinned, kParameters * kParameterBytes + kMiB, "doctor") {
    op_.weight = arena_.allocate_tensor("weight", DType::kBF16, {kParameters});
    op_.low = arena_.allocate_tensor("low", DType::kI16, {kParameters});
    op_.m = arena_.allocate_tensor("m", DType::kF32, {kParameters});
    op_.v = arena_.allocate_tensor("v", DType::kF32, {kParameters});
    const TensorView grad = arena_.allocate_tensor("grad", DType::kBF16, {kParameters});
    op_.grad = grad;
    op_.nonfinite = arena_.allocate_tensor("nonfinite", DType::kI32, {1});
    op_.scalars = &scalars_;
    for (const TensorView& view : {op_.weight, op_.m, op_.v, grad}) {
      backend_.host_kernels().run(host(), Fill{.x = view, .value = 1e-3}, {});
    }
    host().set(op_.low.data, 0, op_.low.bytes().bytes, {});
    backend_.host_kernels().run(host(), Fill{.x = op_.nonfinite, .value = 0}, {});
  }

  /// Returns GB/s of AdamW by so many threads.
  double update_gbs(int threads) {
    const std::unique_ptr<Kernels> kernels =
        make_cpu_kernels(std::make_shared<ThreadPool>(threads));
    return gbs(kUpdateBytes * static_cast<double>(kParameters),
               [&] { kernels->run(host(), op_, {}); });
  }

  /// Returns GB/s of copies by all threads, read and written.
  double copy_gbs() {
    const auto bytes = static_cast<std::int64_t>(op_.m.bytes().bytes);
    constexpr std::int64_t kGrain = 1 << 20;
    return gbs(2.0 * static_cast<double>(bytes), [&] {
      backend_.pool->parallel_for(bytes, kGrain, [&](std::int64_t begin, std::int64_t end) {
        std::memcpy(static_cast<std::byte*>(op_.m.data) + begin,
                    static_cast<const std::byte*>(op_.v.data) + begin,
                    static_cast<std::size_t>(end - begin));
      });
    });
  }

 private:
  Stream& host() { return backend_.device->stream(Lane::kHost); }

  /// Returns the best rate of the runs that fit into the time, two at least: others only disturb.
  double gbs(double bytes, const std::function<void()>& run) {
    double best_s = 0;
    const double begin_s = clock_();
    for (int runs = 0; runs < 2 || clock_() - begin_s < kMeasureS; ++runs) {
      const double run_s = clock_();
      run();
      const double took_s = std::max(clock_() - run_s, 1e-9);
      best_s = runs == 0 ? took_s : std::min(best_s, took_s);
    }
    return bytes / best_s * 1e-9;
  }

  const RateClock& clock_;
  Backend backend_;
  Arena arena_;
  AdamWScalars scalars_{.lr = 1e-4, .correction1 = 0.5, .correction2 = 0.5};
  AdamW op_;
};

}  // namespace

HostRates measure_host(int most_threads, std::size_t free_bytes, const RateClock& clock) {
  HostRates rates;
  try {
    if (free_bytes < 2 * kParameters * kParameterBytes) {
      rates.problem = "too little memory is free to measure";
      return rates;
    }
    HostState state(most_threads, clock);
    rates.copy_gbs = state.copy_gbs();
    for (int threads = 1; threads < most_threads; threads *= 2) {
      rates.updates.push_back({.threads = threads, .gbs = state.update_gbs(threads)});
    }
    rates.updates.push_back({.threads = most_threads, .gbs = state.update_gbs(most_threads)});
  } catch (const std::exception& error) {
    rates.problem = error.what();
  }
  return rates;
}

LinkRates measure_link(Device& device, std::size_t bytes, int pieces, const RateClock& clock) {
  Arena pinned(device, Space::kPinned, 2 * bytes + kMiB, "doctor's pinned memory");
  Arena there(device, Space::kDevice, 2 * bytes + kMiB, "doctor's device memory");
  std::byte* const from = pinned.allocate("copies in", bytes);
  std::byte* const to = pinned.allocate("copies out", bytes);
  std::byte* const in = there.allocate("copies in", bytes);
  std::byte* const out = there.allocate("copies out", bytes);
  const auto gbs = [&](bool inwards, bool outwards) {
    const double begin_s = clock();
    for (int i = 0; i < pieces; ++i) {
      if (inwards) device.stream(Lane::kWeightsIn).copy(in, from, bytes, {});
      if (outwards) device.stream(Lane::kOut).copy(to, out, bytes, {});
    }
    device.synchronize();
    return static_cast<double>(bytes) * pieces / std::max(clock() - begin_s, 1e-9) * 1e-9;
  };
  (void)gbs(true, true);  // the link wakes up
  LinkRates rates;
  rates.in_gbs = gbs(true, false);
  rates.out_gbs = gbs(false, true);
  rates.both_gbs = gbs(true, true);
  return rates;
}

std::vector<LinkRates> measure_links(const std::vector<DeviceInfo>& devices) {
  constexpr std::size_t kPiece = 64 * kMiB;
  constexpr int kPieces = 16;
  std::vector<LinkRates> all;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    LinkRates rates;
    try {
      const Backend backend =
          make_backend(BackendKind::kCuda, {.device = {.device_index = static_cast<int>(i)}});
      rates = measure_link(*backend.device, kPiece, kPieces);
    } catch (const std::exception& error) {
      rates.problem = error.what();
    }
    rates.device = static_cast<int>(i);
    rates.gpu = devices[i].name;
    all.push_back(rates);
  }
  return all;
}

}  // namespace strata
