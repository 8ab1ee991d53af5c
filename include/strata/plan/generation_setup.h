// Decides how generation is laid out on a machine: what of weights, keys and values lives on the
// device, and what travels.

#pragma once

#include <cstddef>
#include <string>

#include "strata/engine/generation_layout.h"
#include "strata/plan/budget.h"

namespace strata {

/// Generation with everything decided, and every byte that it will take.
struct GenerationSetup : GenerationLayout {
  Budget budget;

  /// Returns the bytes that it takes of both memories, program and libraries included.
  [[nodiscard]] std::size_t device_bytes() const {
    return plan.total(Space::kDevice) + budget.device_overhead;
  }
  [[nodiscard]] std::size_t host_bytes() const {
    return plan.host_total() + budget.host_overhead +
           (budget.device_is_host ? plan.total(Space::kDevice) : 0);
  }
  [[nodiscard]] bool fits() const;
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
