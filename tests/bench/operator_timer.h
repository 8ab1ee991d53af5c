// Times single operators on the device so that figures can be compared: cold caches, many runs, and
// a copy measured the same way in the same run. kernel_bench lists the operators.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bench/device_pool.h"
#include "bench/times.h"
#include "strata/base/bytes.h"
#include "strata/ops/backend.h"

namespace strata::bench {

/// Times operators whose tensors are in device memory and in no cache. Each figure is the median
/// over groups of runs back to back, after groups to warm up; the runs of a group take turns with
/// sets of tensors that are together far larger than the L2 cache. Groups start behind a copy that
/// takes longer than launching them. Prints a line for each case, and keeps them for results().
class OperatorTimer {
 public:
  using Views = std::vector<TensorView>;

  /// Of the largest case: the optimizer state of one layer of the 70B model.
  static constexpr std::size_t kPoolBytes = 16 * kGiB;
  static constexpr int kGroups = 20;

  /// Measures only cases with `only` in their name or shape. `times` is the backend's trace.
  OperatorTimer(Backend& backend, Times& times, std::string only)
      : backend_(backend),
        times_(times),
        only_(std::move(only)),
        pool_(backend, kPoolBytes),
        hold_arena_(*backend.device, Space::kDevice, 2 * kHoldBytes, "copies"),
        hold_(hold_arena_.allocate("copies", 2 * kHoldBytes)) {
    std::printf("%-30s %-26s %8s %9s %7s %8s\n", "operator", "shape", "MiB", "us", "TB/s",
                "of copy");
    measure_copy();
  }

  /// One operator at one shape, or a list of them: then `make` returns a function that submits it.
  /// `make` takes its tensors from the pool; `bytes` are read and
  /// written; `changed` names tensors that a run in place changes too much for the next.
  template <class Make, class Changed>
  void measure(const std::string& name, const std::string& shape, double bytes, const Make& make,
               const Changed& changed) {
    if ((name + " " + shape).find(only_) == std::string::npos) return;
    pool_.reset();
    std::vector<decltype(make())> sets{make()};
    while (pool_.used() < kColdBytes) sets.push_back(make());
    const std::size_t runs =
        (std::max(sets.size(), kRunsPerGroup) + sets.size() - 1) / sets.size() * sets.size();
    const auto prepare = [&] {
      for (const auto& set : sets) {
        for (const TensorView& view : changed(set)) pool_.refresh(view);
      }
    };
    const double us = median_us(changed(sets[0]).empty() ? runs : sets.size(), prepare,
                                [&](std::size_t i) { submit(sets[i % sets.size()]); });
    report(name, shape, bytes, us);
  }
  template <class Make>
  void measure(const std::string& name, const std::string& shape, double bytes, const Make& make) {
    measure(name, shape, bytes, make, [](const auto&) { return Views{}; });
  }

  /// Of the case that was measured last.
  [[nodiscard]] double last_tb_per_s() const { return results_.back()["tb_per_s"]; }
  /// Has what follows compared with what moves so many TB/s by the number of bytes, instead of the
  /// copy.
  void compare_with(const std::string& what, std::function<double(double)> tb_per_s) {
    baseline_ = what;
    baseline_tb_per_s_ = std::move(tb_per_s);
  }
  /// Measures only cases with `only` in their name or shape from here on.
  void measure_only(std::string only) { only_ = std::move(only); }

  [[nodiscard]] DevicePool& pool() { return pool_; }
  [[nodiscard]] TensorView bf16(const Shape& shape) { return pool_.tensor(DType::kBF16, shape); }
  [[nodiscard]] TensorView f32(const Shape& shape) { return pool_.tensor(DType::kF32, shape); }
  [[nodiscard]] Backend& backend() { return backend_; }
  [[nodiscard]] Stream& compute() { return backend_.device->stream(Lane::kCompute); }

  /// Every case measured, with the device.
  [[nodiscard]] nlohmann::json results() const {
    return {{"device", backend_.device->info().name}, {"results", results_}};
  }

 private:
  static constexpr int kWarmUpGroups = 3;
  static constexpr std::size_t kRunsPerGroup = 8;
  /// Of all sets of one case: many times the L2 cache.
  static constexpr std::size_t kColdBytes = 512 * kMiB;
  /// Takes longer to copy than a group to launch.
  static constexpr std::size_t kHoldBytes = 512 * kMiB;

  /// Runs an operator, or a list of them.
  template <class Set>
  void submit(const Set& set) {
    if constexpr (std::invocable<const Set&>) {
      set();
    } else {
      backend_.kernels->run(compute(), set, {});
    }
  }

  /// Median over groups of the microseconds of one of `runs` submissions.
  double median_us(std::size_t runs, const std::function<void()>& prepare,
                   const std::function<void(std::size_t)>& submit) {
    const auto mark = [&] {
      times_.resume();
      compute().submit({.name = "mark"}, {}, [] {});
      times_.pause();
    };
    std::vector<double> us;
    for (int group = 0; group < kWarmUpGroups + kGroups; ++group) {
      prepare();
      times_.start();
      times_.pause();
      compute().copy(hold_ + kHoldBytes, hold_, kHoldBytes, {});
      mark();
      for (std::size_t i = 0; i < runs; ++i) submit(i);
      mark();
      backend_.device->synchronize();
      const double elapsed = times_.spans().at(1).begin_us - times_.spans().at(0).end_us;
      if (group >= kWarmUpGroups) us.push_back(elapsed / static_cast<double>(runs));
    }
    return median(std::move(us));
  }

  void report(const std::string& name, const std::string& shape, double bytes, double us) {
    const double tb_per_s = bytes / us * 1e-6;
    std::printf("%-30s %-26s %8.1f %9.1f %7.2f", name.c_str(), shape.c_str(), bytes * 0x1p-20, us,
                tb_per_s);
    nlohmann::json result = {
        {"operator", name}, {"shape", shape}, {"bytes", bytes}, {"us", us}, {"tb_per_s", tb_per_s}};
    if (baseline_tb_per_s_) {
      const double share = tb_per_s / baseline_tb_per_s_(bytes);
      std::printf(" %6.0f %%", 100 * share);
      result["of_" + baseline_] = share;
    }
    std::printf("\n");
    std::fflush(stdout);
    results_.push_back(result);
  }

  /// What the other figures are compared with: one copy of 256 MiB, two places in turn.
  void measure_copy() {
    constexpr std::size_t kBytes = kHoldBytes / 2;
    const double us = median_us(
        kRunsPerGroup, [] {},
        [&](std::size_t i) {
          std::byte* from = hold_ + i % 2 * kBytes;
          compute().copy(from + kHoldBytes, from, kBytes, {});
        });
    const double bytes = 2 * static_cast<double>(kBytes);
    report("copy", "256 MiB", bytes, us);
    baseline_tb_per_s_ = [rate = bytes / us * 1e-6](double) { return rate; };
  }

  Backend& backend_;
  Times& times_;
  std::string only_;
  DevicePool pool_;
  Arena hold_arena_;
  std::byte* hold_;
  std::function<double(double)> baseline_tb_per_s_;  // of so many bytes
  std::string baseline_ = "copy";
  nlohmann::json results_ = nlohmann::json::array();
};

}  // namespace strata::bench
