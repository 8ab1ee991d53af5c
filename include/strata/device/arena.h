// One block of memory of one kind, taken at start-up and handed out front to back with a ledger of
// who got what. An engine owns one for each kind of memory, and stores and model take their
// buffers from them; there is no way to give a piece back. What does not fit throws OutOfMemory
// with the ledger.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/tensor.h"
#include "strata/device/device.h"

namespace strata {

/// One piece that an arena gave, and the name that it was asked for under.
struct LedgerEntry {
  std::string name;
  std::size_t bytes = 0;  ///< alignment included
};

/// One block of memory handed out front to back at start-up; pieces stay valid until the arena is
/// destroyed, which first waits for the lanes. Must not outlive its device. Used by the submitting
/// thread.
class Arena {
 public:
  static constexpr std::size_t kAlignment = 256;

  /// Takes `capacity` bytes (rounded up to kAlignment) at once. Throws OutOfMemory if the device
  /// does not have them.
  Arena(Device& device, Space space, std::size_t capacity, std::string name);
  /// Hands out again `capacity` bytes of an arena that outlives this one, from `begin` on. Whoever
  /// makes it knows that nobody else uses them meanwhile.
  Arena(const Arena& whole, std::size_t begin, std::size_t capacity, std::string name);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Returns `bytes` of memory for `what`, aligned to kAlignment, with undefined contents. Throws
  /// OutOfMemory with the ledger when the arena is full.
  [[nodiscard]] std::byte* allocate(std::string_view what, std::size_t bytes);
  /// Returns memory for the elements of a contiguous tensor, as allocate() does.
  [[nodiscard]] TensorView allocate_tensor(std::string_view what, DType dtype, Shape shape);
  [[nodiscard]] Device& device() const { return device_; }
  [[nodiscard]] Space space() const { return space_; }
  /// Returns the bytes handed out so far, alignment included.
  [[nodiscard]] std::size_t used() const { return used_; }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  [[nodiscard]] const std::vector<LedgerEntry>& ledger() const { return ledger_; }
  /// Returns the ledger as a table for messages, largest first; pieces of one name are one line.
  [[nodiscard]] std::string ledger_text() const;

 private:
  Device& device_;
  Space space_;
  std::string name_;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::unique_ptr<DeviceMemory> memory_;  ///< null: it is empty, or another arena's
  std::byte* data_ = nullptr;
  std::vector<LedgerEntry> ledger_;
};

}  // namespace strata
