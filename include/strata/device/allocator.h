// Who asks for memory, apart from where it comes from. A store lists what it takes once, in terms
// of an Allocator: a run gives it arenas, a plan gives it a list that only counts. So what was
// planned is what is taken, by construction.

#pragma once

#include <cstddef>
#include <string_view>

#include "strata/base/function_ref.h"
#include "strata/base/tensor.h"
#include "strata/device/arena.h"

namespace strata {

class Allocator {
 public:
  virtual ~Allocator() = default;
  /// Returns `bytes` of memory of this space, aligned to Arena::kAlignment, or null from an
  /// allocator that only counts. `what` names the purpose. Throws OutOfMemory.
  virtual std::byte* allocate(Space space, std::string_view what, std::size_t bytes) = 0;
  /// Calls `take`, which takes the same each time, so often. An allocator that only counts calls it
  /// once and counts what it took so many times.
  virtual void repeat(std::size_t times, FunctionRef<void()> take) {
    for (std::size_t i = 0; i < times; ++i) take();
  }
  /// Returns the memory of a tensor as a view; a view without data from an allocator that only
  /// counts.
  TensorView tensor(Space space, std::string_view what, DType dtype, Shape shape) {
    return {allocate(space, what, static_cast<std::size_t>(shape.elements()) * size_of(dtype)),
            dtype, shape};
  }
};

/// Memory of a run: one arena for each space, all of one device. The arenas outlive it.
class Arenas final : public Allocator {
 public:
  Arenas(Arena& device, Arena& pinned, Arena& pageable)
      : device_(device), pinned_(pinned), pageable_(pageable) {}

  std::byte* allocate(Space space, std::string_view what, std::size_t bytes) override {
    return arena(space).allocate(what, bytes);
  }
  [[nodiscard]] Arena& arena(Space space) const {
    if (space == Space::kDevice) return device_;
    return space == Space::kPinned ? pinned_ : pageable_;
  }
  [[nodiscard]] Device& device() const { return device_.device(); }

 private:
  Arena& device_;
  Arena& pinned_;
  Arena& pageable_;
};

}  // namespace strata
