#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "strata/device/trace.h"

namespace strata {

/// Every byte that a run will take, by memory and by purpose, known before anything is allocated.
/// Arenas are created with exactly these totals, so what is planned is what is used.
class MemoryPlan {
 public:
  struct Entry {
    Space space = Space::kDevice;
    std::string name;
    std::size_t bytes = 0;  ///< alignment included
  };

  /// Adds bytes under a name; entries of one name and space are merged.
  void add(Space space, const std::string& name, std::size_t bytes);
  /// `count` buffers of `bytes_each`, as SlotRing and Arena align them.
  void add_slots(Space space, const std::string& name, std::size_t count, std::size_t bytes_each);

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
