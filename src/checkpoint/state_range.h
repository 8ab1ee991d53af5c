// Host memory for state on its way from a checkpoint to a run whose dtypes differ. load_state()
// reads a range of a block into it, and converts it there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "strata/checkpoint/checkpoint_layout.h"
#include "strata/store/training_state.h"

namespace strata {

/// Returns the entries of a part that so many elements from the first of an entry on have.
[[nodiscard]] inline std::int64_t entries_of(StatePart part, std::int64_t elements) {
  return (elements + elements_of_entry(part) - 1) / elements_of_entry(part);
}

/// Host memory for a range of all parts, in the checkpoint's types.
class StateRange {
 public:
  StateRange(const CheckpointTypes& types, std::int64_t count) {
    const DType moment = types.moment.value();
    const std::array<DType, 5> dtypes{types.weight, DType::kI16, moment, moment, kMomentCode};
    for (const StatePart part :
         {StatePart::kWeight, StatePart::kLow, StatePart::kM, StatePart::kV, StatePart::kScale}) {
      const auto i = static_cast<std::size_t>(part);
      const std::int64_t entries = entries_of(part, count);
      const std::size_t bytes = types.bytes_of(part) * static_cast<std::size_t>(entries);
      if (bytes == 0) continue;
      memory_[i] = std::make_unique_for_overwrite<std::byte[]>(bytes);
      const Shape shape =
          part == StatePart::kScale ? Shape{entries, kMomentScales} : Shape{entries};
      state_.*kUpdatedTensors[i] = TensorView(memory_[i].get(), dtypes[i], shape);
    }
  }
  [[nodiscard]] const BlockState& state() const { return state_; }

 private:
  std::array<std::unique_ptr<std::byte[]>, 5> memory_;
  BlockState state_;
};

}  // namespace strata
