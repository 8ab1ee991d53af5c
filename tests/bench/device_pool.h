// Random device memory for benchmarks of kernels. A case takes its tensors from the pool and gives
// them back, so that no allocation is timed and operands are random.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "bench/times.h"
#include "strata/base/bytes.h"
#include "strata/device/arena.h"
#include "strata/ops/backend.h"

namespace strata::bench {

/// Device memory full of random bf16 numbers (pairs of them are fair f32 numbers) that each case of
/// a benchmark takes its tensors from, front to back.
class DevicePool {
 public:
  DevicePool(Backend& backend, std::size_t bytes)
      : device_(*backend.device),
        arena_(device_, Space::kDevice, bytes, "tensors"),
        staging_arena_(device_, Space::kPinned, kPatternBytes, "inputs"),
        data_(arena_.allocate("tensors", bytes)),
        staging_(staging_arena_.allocate("inputs", kPatternBytes)),
        bytes_(bytes) {
    fill_normals(reinterpret_cast<Bf16*>(staging_), kPatternBytes / sizeof(Bf16));
    write_numbers(data_, bytes_);
    device_.synchronize();
  }

  /// Gives everything back, with random numbers in it again.
  void reset() {
    write_numbers(data_, used_);
    used_ = 0;
  }
  [[nodiscard]] std::size_t used() const { return used_; }

  [[nodiscard]] TensorView tensor(DType dtype, const Shape& shape) {
    const auto size = static_cast<std::size_t>(shape.elements()) * size_of(dtype);
    if (used_ + size > bytes_) throw std::length_error("a case needs more memory than the pool");
    TensorView view(data_ + used_, dtype, shape);
    used_ = round_up(used_ + size, Arena::kAlignment);
    return view;
  }
  /// Host numbers, in device memory.
  template <class T>
  [[nodiscard]] TensorView upload(const std::vector<T>& values, DType dtype) {
    const TensorView view = tensor(dtype, {static_cast<std::int64_t>(values.size())});
    const std::size_t size = values.size() * sizeof(T);
    Arena pinned(device_, Space::kPinned, size + 1, "upload");
    std::byte* from = pinned.allocate("values", size);
    std::memcpy(from, values.data(), size);
    compute().copy(view.data, from, size, {});
    device_.synchronize();
    return view;
  }
  /// Random numbers in this tensor again.
  void refresh(const TensorView& view) {
    write_numbers(static_cast<std::byte*>(view.data), view.bytes().bytes);
  }

 private:
  static constexpr std::size_t kPatternBytes = 64 * kMiB;

  [[nodiscard]] Stream& compute() { return device_.stream(Lane::kCompute); }
  /// The first pattern comes from the host, the others from the one before them.
  void write_numbers(std::byte* to, std::size_t bytes) {
    if (bytes == 0) return;
    std::size_t filled = std::min(bytes, kPatternBytes);
    compute().copy(to, staging_, filled, {});
    while (filled < bytes) {
      const std::size_t more = std::min(filled, bytes - filled);
      compute().copy(to + filled, to, more, {});
      filled += more;
    }
  }

  Device& device_;
  Arena arena_;
  Arena staging_arena_;
  std::byte* data_;
  std::byte* staging_;
  std::size_t bytes_;
  std::size_t used_ = 0;
};

}  // namespace strata::bench
