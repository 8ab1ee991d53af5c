// How generation is laid out on a machine, to the byte: where weights, keys and values live, and
// how much goes through a layer at once. A generation assembly is built from it.

#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>

#include "strata/model/layout.h"
#include "strata/plan/budget.h"
#include "strata/plan/sweep_setup.h"
#include "strata/store/block_plan.h"
#include "strata/store/memory_plan.h"

namespace strata {

/// Generation with everything decided, and every byte that it will take.
struct GenerationSetup : SweepSetup {
  std::shared_ptr<const ModelLayout> layout;
  StatePlan state;
  int resident_units = 0;
  int weight_slots = 0;
  Budget budget;
  MemoryPlan plan;

  /// Returns the bytes that it takes of both memories, program and libraries included.
  [[nodiscard]] std::size_t device_bytes() const {
    return plan.total(Space::kDevice) + budget.device_overhead;
  }
  [[nodiscard]] std::size_t host_bytes() const {
    return plan.host_total() + budget.host_overhead +
           (budget.device_is_host ? plan.total(Space::kDevice) : 0);
  }
  [[nodiscard]] bool fits() const;
  /// Returns how many units come over the link in every sweep. The embedding never does.
  [[nodiscard]] int travelling_units() const {
    return std::max(0, static_cast<int>(layout->units.size()) - 1 - resident_units);
  }
  /// Returns ", attended to there", or more if some layers are not, or "" if none is.
  [[nodiscard]] std::string who_attends() const;
  /// Returns a line like "34 of 34 units resident, sequences at once 16, each up to 2,048 tokens,
  /// keys and values on the device".
  [[nodiscard]] std::string to_string() const;
};

/// Returns the setup that keeps most on the device: keys and values before weights, since these
/// serve all sequences of a sweep. Throws OutOfMemory, with what is needed and what there is, if
/// nothing fits.
[[nodiscard]] GenerationSetup make_generation_setup(const LlamaConfig& model,
                                                    const GenerationNeeds& needs,
                                                    const Budget& budget);

}  // namespace strata
