#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "strata/device/allocator.h"
#include "strata/device/trace.h"

namespace strata {

/// Every byte that a run will take, by memory and by purpose, known before anything is allocated.
/// It is an allocator that only counts: what a store takes of it while a run is planned is what the
/// store takes of the arenas, which are created with exactly these totals.
class MemoryPlan final : public Allocator {
 public:
  struct Entry {
    Space space = Space::kDevice;
    std::string name;
    std::size_t bytes = 0;  ///< alignment included
  };

  /// Adds bytes under a name, aligned as an arena aligns them, and returns null. Entries of one
  /// name and space are merged.
  std::byte* allocate(Space space, std::string_view name, std::size_t bytes) override;

  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] std::size_t total(Space space) const;
  /// Of what has this name; 0 if nothing has.
  [[nodiscard]] std::size_t bytes(Space space, std::string_view name) const;
  /// Pinned and pageable memory together.
  [[nodiscard]] std::size_t host_total() const;
  /// A table per memory, largest entries first.
  [[nodiscard]] std::string to_string() const;

 private:
  std::vector<Entry> entries_;
};

}  // namespace strata
