// How generation is laid out on a machine, to the byte: where weights, keys and values live, and
// how much goes through a layer at once. A generation assembly is built from it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "strata/model/layout.h"
#include "strata/model/llama_forward.h"
#include "strata/plan/budget.h"
#include "strata/store/block_plan.h"
#include "strata/store/kv_store.h"
#include "strata/store/memory_plan.h"
#include "strata/store/token_store.h"

namespace strata {

/// What generation has to hold. What is absent is decided by the memory that there is.
struct GenerationNeeds {
  DType compute = DType::kBF16;
  std::int64_t sequences = 16;       ///< that are continued at once
  std::int64_t context = 2048;       ///< tokens of a sequence, prompt included
  std::int64_t cell_tokens = 512;    ///< that go through a layer at once
  std::int64_t sweep_tokens = 2048;  ///< that go through all layers in a sweep
  bool penalties = false;            ///< some sequence has a repeat penalty
  bool scores = false;               ///< tokens are scored, any of a sweep
  std::optional<int> resident_units{};
  std::optional<int> kv_slots{};  ///< 0: keys and values stay on the device
  std::optional<int> groups{};    ///< of sequences; one where keys and values stay
};

/// Generation with everything decided, and every byte that it will take.
struct GenerationSetup {
  LlamaConfig model;
  std::shared_ptr<const ModelLayout> layout;
  StatePlan state;
  ForwardSizes sizes;
  KvShape kv;
  SweepShape sweep;
  std::int64_t sequences = 0;
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
  /// Returns a line like "34 of 34 units resident, sequences at once 16, each up to 2,048 tokens,
  /// keys and values on the device".
  [[nodiscard]] std::string to_string() const;
};

/// Returns the residual stream of a sweep [T, C] X on the device.
[[nodiscard]] TensorView take_residual_stream(const GenerationSetup& setup, Allocator& memory);

/// Returns the setup that keeps most on the device: keys and values before weights, since these
/// serve all sequences of a sweep. Throws OutOfMemory, with what is needed and what there is, if
/// nothing fits.
[[nodiscard]] GenerationSetup make_generation_setup(const LlamaConfig& model,
                                                    const GenerationNeeds& needs,
                                                    const Budget& budget);

}  // namespace strata
