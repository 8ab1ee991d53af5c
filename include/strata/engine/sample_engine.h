// A sample engine runs sweeps over the weights of a training engine, in memory that the training
// engine does not use between steps. One is made each time that samples are due, and is gone before
// the next step.

#pragma once

#include <cstddef>

#include "strata/engine/sample_layout.h"
#include "strata/engine/sweep_engine.h"

namespace strata {

/// Where samples find their memory: in arenas of the training engine, from these bytes on.
struct SamplePlaces {
  const Arenas& arenas;
  std::size_t device_begin = 0;
  std::size_t pinned_begin = 0;
};

/// The parts of arenas that samples take.
class SampleMemory {
 protected:
  SampleMemory(const SampleLayout& layout, const SamplePlaces& places);
  ~SampleMemory() = default;

  Arena device_arena_;
  Arena pinned_arena_;
  Arena pageable_arena_;  ///< empty
  Arenas arenas_;
};

/// A sweep engine with the weights of another engine.
class SampleEngine final : private SampleMemory, public SweepEngine {
 public:
  /// The arguments outlive the engine. Nothing that uses the places is at work, or is submitted
  /// before the last results of a sweep were read.
  SampleEngine(const SampleLayout& layout, const SamplePlaces& places, Kernels& kernels,
               WeightStore& weights);
};

}  // namespace strata
