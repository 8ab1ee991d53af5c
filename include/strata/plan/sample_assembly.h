// Sweeps over the weights of a training assembly, in memory that the assembly does not use between
// steps. One is made each time that samples are due, and is gone before the next step.

#pragma once

#include <cstddef>

#include "strata/plan/sample_setup.h"
#include "strata/plan/sweep_assembly.h"

namespace strata {

/// Where samples find their memory: in arenas of the training assembly, from these bytes on.
struct SamplePlaces {
  const Arena& device;
  std::size_t device_begin = 0;
  const Arena& pinned;
  std::size_t pinned_begin = 0;
  const Arena& pageable;
};

/// The parts of arenas that samples take.
class SampleMemory {
 protected:
  SampleMemory(const SampleSetup& setup, const SamplePlaces& places);
  ~SampleMemory() = default;

  Arena device_arena_;
  Arena pinned_arena_;
  Arena pageable_arena_;  ///< empty
  Arenas arenas_;
};

/// A sweep assembly with the weights of another assembly.
class SampleAssembly final : private SampleMemory, public SweepAssembly {
 public:
  /// The arguments outlive the assembly. Nothing that uses the places is at work, or is submitted
  /// before the last results of a sweep were read.
  SampleAssembly(const SampleSetup& setup, const SamplePlaces& places, Kernels& kernels,
                 WeightStore& weights);
};

}  // namespace strata
