// Names the lanes' work for profilers as NVTX ranges. Streams and host lanes open a range around
// each submission; without a profiler that costs one comparison.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "strata/device/lane.h"

struct nvtxDomainRegistration_st;

namespace strata::cuda {

/// Tells a profiler what the lanes are working on, as NVTX ranges in the domain "strata" whose
/// categories are the lanes. Without a profiler nothing is formatted and nothing is called.
class Profiler {
 public:
  Profiler();
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// Returns whether a tool listens to this process; it must do so from the start.
  [[nodiscard]] bool attached() const { return domain_ != nullptr; }
  /// Gives a lane's stream the lane's name.
  void name_stream(cudaStream_t stream, Lane lane) const;

 private:
  friend class ProfilerRange;
  nvtxDomainRegistration_st* domain_;  ///< null: nobody listens
};

/// A range of the calling thread while the object lives, named "matmul forward pass=0 unit=3
/// cell=1". Ranges of a thread end in the reverse order of their beginnings.
class ProfilerRange {
 public:
  /// `profiler` must outlive the range.
  ProfilerRange(const Profiler& profiler, Lane lane, std::string_view name, const Tag& tag);
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

 private:
  const Profiler& profiler_;
};

}  // namespace strata::cuda
