#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/tensor.h"
#include "strata/device/device.h"

namespace strata {

/// What an arena gave to whom.
struct LedgerEntry {
  std::string name;
  std::size_t bytes = 0;  ///< alignment included
};

/// One block of memory handed out front to back at start-up and never given back before the end.
class Arena {
 public:
  static constexpr std::size_t kAlignment = 256;

  /// Takes `capacity` bytes (rounded up to kAlignment) at once. Throws OutOfMemory.
  Arena(Device& device, Space space, std::size_t capacity, std::string name);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Aligned to kAlignment; contents undefined. Throws OutOfMemory with the ledger when full.
  [[nodiscard]] std::byte* allocate(std::string_view what, std::size_t bytes);
  /// The same for the elements of a contiguous tensor.
  [[nodiscard]] TensorView allocate_tensor(std::string_view what, DType dtype, Shape shape);
  [[nodiscard]] Device& device() const { return device_; }
  [[nodiscard]] Space space() const { return space_; }
  [[nodiscard]] std::size_t used() const { return used_; }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  [[nodiscard]] const std::vector<LedgerEntry>& ledger() const { return ledger_; }
  /// The ledger as a table, largest first.
  [[nodiscard]] std::string ledger_text() const;

 private:
  Device& device_;
  Space space_;
  std::string name_;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::unique_ptr<DeviceMemory> memory_;
  std::vector<LedgerEntry> ledger_;
};

}  // namespace strata
