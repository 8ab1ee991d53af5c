// Runs operators of any backend on values given and taken as f64. The operator cases and the
// goldens use it, so that a case is written once for all backends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "strata/device/arena.h"
#include "strata/ops/backend.h"
#include "support/guarded.h"

namespace strata::test {

/// Runs operators of a backend on values given and taken as f64. Every tensor lies between guard
/// bands (and has them between its rows, if strided); outputs begin as NaN. All work goes to the
/// compute lane; memory is taken once and reused after reset().
class OpRunner {
 public:
  static constexpr std::size_t kBytes = std::size_t{48} << 20;

  /// With `runs` above 1 every operator runs that many times on the same bytes, and must leave the
  /// same bytes in all tensors each time.
  explicit OpRunner(Backend& backend, int runs = 1);

  /// Forgets all tensors.
  void reset();
  /// A tensor with these values (row-major, without gaps), which must be exact in `dtype`.
  /// `row_stride` 0 means contiguous.
  [[nodiscard]] TensorView upload(const std::vector<double>& values, DType dtype,
                                  const Shape& shape, std::int64_t row_stride = 0);
  /// A tensor of NaN (integers: -1).
  [[nodiscard]] TensorView output(DType dtype, const Shape& shape, std::int64_t row_stride = 0);
  /// Bytes that a kernel reads through a plain pointer (AdamWScalars), in memory it can read.
  [[nodiscard]] void* upload_bytes(const void* bytes, std::size_t size);

  template <Op O>
  void run(const O& op) {
    names_.emplace(O::kName);
    repeat(O::kName, [&] { backend_.kernels->run(stream(), op, {}); });
  }
  /// Returns the names of all operators that have run.
  [[nodiscard]] const std::set<std::string>& names() const { return names_; }
  /// Waits, then the values of a tensor, row-major, without gaps.
  [[nodiscard]] std::vector<double> download(const ConstTensorView& view);
  /// Waits, then true if no guard band of any tensor was written.
  [[nodiscard]] bool guards_intact();

  [[nodiscard]] Kernels& kernels() const { return *backend_.kernels; }
  [[nodiscard]] Stream& stream() const { return backend_.device->stream(Lane::kCompute); }

 private:
  struct Tensor {
    GuardedImage image;
    std::byte* at = nullptr;
  };
  /// Throws std::runtime_error that names the operator and the run whose bytes differ.
  void repeat(std::string_view name, const std::function<void()>& submit);
  std::byte* place(const GuardedImage& image);
  void to_device(std::byte* at, const void* bytes, std::size_t size);
  void to_host(void* bytes, const std::byte* at, std::size_t size);

  Backend& backend_;
  int runs_;
  Arena device_arena_;
  Arena staging_arena_;
  std::byte* device_;
  std::byte* staging_;
  std::size_t used_ = 0;
  std::vector<Tensor> tensors_;
  std::set<std::string> names_;
};

}  // namespace strata::test
