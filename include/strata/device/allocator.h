// Who asks for memory, apart from where it comes from. A store lists what it takes once, in terms
// of an Allocator: a run gives it arenas, a plan gives it a list that only counts. So what was
// planned is what is taken, by construction.

#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

#include "strata/base/function_ref.h"
#include "strata/base/tensor.h"
#include "strata/device/arena.h"
#include "strata/device/space.h"

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

/// Memory of a run: at most one arena for each space, all of one device. The arenas outlive it.
class Arenas final : public Allocator {
 public:
  template <std::same_as<Arena>... Each>
  explicit Arenas(Each&... arenas) {
    (add(arenas), ...);
  }
  /// Adds the arena of a space that has none yet.
  void add(Arena& arena) { arenas_[index_of(arena.space())] = &arena; }

  std::byte* allocate(Space space, std::string_view what, std::size_t bytes) override {
    return arena(space).allocate(what, bytes);
  }
  /// Throws std::logic_error if this space has no arena.
  [[nodiscard]] Arena& arena(Space space) const {
    Arena* const arena = arenas_[index_of(space)];
    if (arena == nullptr) {
      throw std::logic_error("there is no arena of " + std::string(name_of(space)) + " memory");
    }
    return *arena;
  }
  [[nodiscard]] Device& device() const { return arena(Space::kDevice).device(); }

 private:
  std::array<Arena*, kSpaces.size()> arenas_{};  ///< by space; null if it has none
};

}  // namespace strata
