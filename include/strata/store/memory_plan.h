// The memory plan lists every byte that a run takes. The planner hands it to the same constructors
// that later take the bytes of arenas, prints it, and holds it against limits; the run makes its
// arenas as large as its totals. What a run takes of the heap beside them is listed too. It takes
// no memory itself and throws nothing.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "strata/device/allocator.h"
#include "strata/device/trace.h"

namespace strata {

/// Lists every byte that a run will take, by memory and by purpose, before anything is allocated.
/// It is an allocator that only counts: what a store takes of it while a run is planned is what the
/// store takes of the arenas later.
class MemoryPlan final : public Allocator {
 public:
  /// An entry has all bytes of one space that were taken under one name.
  struct Entry {
    Space space = Space::kDevice;
    std::string name;
    std::size_t bytes = 0;  ///< alignment included
  };

  /// Adds bytes under a name, rounded up as an arena rounds them, and returns null. Entries of one
  /// name and space are merged.
  std::byte* allocate(Space space, std::string_view name, std::size_t bytes) override;
  void repeat(std::size_t times, FunctionRef<void()> take) override;

  /// Adds bytes that a run takes of the host's heap, outside of all arenas.
  void add_heap(std::string_view name, std::size_t bytes);

  /// Returns the entries of arenas in the order in which their names came first.
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  /// Returns the bytes of all entries of a space: those of its arena.
  [[nodiscard]] std::size_t total(Space space) const;
  /// Returns the bytes of the entry of this space and name, or 0 if there is none.
  [[nodiscard]] std::size_t bytes(Space space, std::string_view name) const;
  /// Returns the bytes of the heap under this name, or all of them.
  [[nodiscard]] std::size_t heap(std::string_view name = {}) const;
  /// Returns the bytes of all memory of the host and of the heap together.
  [[nodiscard]] std::size_t host_total() const;
  /// Returns a table for each memory, with the largest entries first.
  [[nodiscard]] std::string to_string() const;

 private:
  std::vector<Entry> entries_;
  std::vector<Entry> heap_;
  std::size_t times_ = 1;  ///< so often counts what is taken now
};

}  // namespace strata
