// Runs of one kind of work on the host lane, alone or while other lanes are busy: what the parts of
// host_bench that measure the host have in common.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/lane_times.h"
#include "strata/device/device.h"

namespace strata::bench {

/// How long runs took.
struct HostRuns {
  std::vector<double> seconds{};  ///< of those in `steady`
  Window steady{};                ///< all that was to be busy was
  bool busy = false;              ///< other lanes had work
};

/// Has `run` submit to the host lane so many times, each after `busy`, which submits work to the
/// lanes `beside` it or returns false. Throws if fewer than three runs were beside all of these.
template <class Busy, class Run>
HostRuns time_host_runs(Device& device, LaneTimes& times, int runs,
                        std::initializer_list<Lane> beside, const std::string& name,
                        const Busy& busy, const Run& run) {
  HostRuns result;
  device.synchronize();
  times.start();
  for (int i = 0; i < runs; ++i) {
    result.busy = busy();
    run();
  }
  times.stop();
  device.synchronize();
  result.steady = times.window(Lane::kHost);
  if (result.busy) {
    for (const Lane lane : beside) {
      const Window other = times.window(lane);
      result.steady.begin_us = std::max(result.steady.begin_us, other.begin_us);
      result.steady.end_us = std::min(result.steady.end_us, other.end_us);
    }
  }
  for (const Window& one : times.of(Lane::kHost)) {
    if (result.steady.holds(one)) result.seconds.push_back(one.seconds());
  }
  if (result.seconds.size() < 3) {
    throw std::runtime_error(name + ": the device was not busy for long");
  }
  return result;
}

}  // namespace strata::bench
