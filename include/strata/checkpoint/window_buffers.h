// Memory through which windows of files pass: a window is gathered from the state, hashed, and
// written from here, or read, verified and handed on. Several threads take and return buffers.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "strata/checkpoint/checkpoint_layout.h"

namespace strata {

/// A few buffers of equal size, aligned for direct writes.
class WindowBuffers {
 public:
  /// Returns the bytes of a buffer that holds any window of these files.
  [[nodiscard]] static std::size_t bytes_for(const CheckpointLayout& layout);

  /// Cuts `memory` into buffers of `each` bytes, a multiple of kFileAlignment. The memory outlives
  /// them, and holds at least one beside what alignment takes.
  WindowBuffers(std::span<std::byte> memory, std::size_t each);

  /// Returns the bytes of each.
  [[nodiscard]] std::size_t bytes_each() const { return each_; }

  /// A buffer, until it goes.
  class Lease {
   public:
    explicit Lease(WindowBuffers& from);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    /// Returns the place of bytes [begin, end) of a file: at the same distance from a multiple of
    /// kFileAlignment as in the file. Throws std::logic_error if they do not fit.
    [[nodiscard]] std::span<std::byte> bytes(std::uint64_t begin, std::uint64_t end) const;

   private:
    WindowBuffers& from_;
    std::byte* data_;
  };

 private:
  std::size_t each_;
  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::byte*> free_;  ///< guarded by mutex_
};

/// Bytes [begin, end) of a file, which lie in one window.
struct Window {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};
/// Returns how the windows of a file cut bytes [begin, end).
[[nodiscard]] std::vector<Window> cut_windows(std::uint64_t begin, std::uint64_t end);

}  // namespace strata
