// A generation engine has weights of its own and what sweeps over them need. A generation session
// has one on the device that generates, and a prediction one on the dry backend.

#pragma once

#include "strata/engine/engine.h"
#include "strata/engine/generation_layout.h"
#include "strata/engine/sweep_engine.h"
#include "strata/ops/backend.h"

namespace strata {

/// The layout and the backend outlive the engine.
class GenerationEngine final : public Engine, public SweepEngine {
 public:
  /// Takes all memory; weights are undefined until they are loaded. Throws OutOfMemory.
  GenerationEngine(const GenerationLayout& layout, const Backend& backend, Collectives& shard)
      : Engine(layout, *backend.device, *backend.kernels, shard),
        SweepEngine(layout, *backend.kernels, &backend.host_kernels(), weights_, arenas_) {}
};

}  // namespace strata
