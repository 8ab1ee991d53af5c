// This file declares what measures which algorithm of cuBLASLt runs a matrix product fastest, and
// whether it repeats its results. MatmulPlans makes one when a run tunes its products, or a
// benchmark compares them, and destroys it before the first step; InvariantProducts makes one to
// compare bits.

#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/cuda/products/matmul_problem.h"
#include "strata/device/device.h"

namespace strata::cuda {

/// Puts the product of these operands on the place's stream, and returns whether it runs.
using TimedProduct = std::function<cublasStatus_t(const MatmulPlace&, const MatmulOperands&)>;
/// Returns the product by an algorithm of cuBLASLt; the problem must outlive it.
[[nodiscard]] TimedProduct product_by(const MatmulProblem& problem,
                                      const cublasLtMatmulAlgo_t& algorithm);

/// Times products on random data in memory of its own, at the clock that the device holds under
/// load. It blocks; nothing else may run on the device meanwhile. Throws BackendError if a call
/// fails.
class MatmulTimer {
 public:
  /// Takes up to `memory_bytes` of free device memory until it is destroyed: enough for each of
  /// `shapes` that fits.
  MatmulTimer(cublasLtHandle_t handle, std::span<std::byte> workspace,
              std::span<const MatmulShape> shapes, std::size_t memory_bytes);

  /// Returns true if there is memory for the operands of one such product.
  [[nodiscard]] bool fits(const MatmulShape& shape) const;

  /// Returns the median seconds of each product of a shape, in their order. They run in turns, so
  /// that a clock that drifts is the same for all. The time is infinite for one that does not run,
  /// or that was clearly slower than the best and dropped out early; the first `kept` do not drop
  /// out.
  [[nodiscard]] std::vector<double> race(const MatmulShape& shape,
                                         std::span<const TimedProduct> products, std::size_t kept);
  /// Returns the seconds of each product of a shape at whatever clock there is: the best of a few
  /// turns, and infinite for one that does not run. For products that memory bounds, in a
  /// millisecond or two each.
  [[nodiscard]] std::vector<double> glance(const MatmulShape& shape,
                                           std::span<const TimedProduct> products);
  /// Returns a number that differs, but for chance, if any bit of the product does; nothing if the
  /// product does not run. The operands are the same in every call for a shape.
  [[nodiscard]] std::optional<std::uint64_t> fingerprint(const MatmulShape& shape,
                                                         const TimedProduct& product);
  /// Returns true if the product runs, and repeated ones of the same operands have the same bits.
  [[nodiscard]] bool repeats(const MatmulShape& shape, const TimedProduct& product);

 private:
  /// The operands, several times in a row, so that each product finds the caches cold.
  struct Copies {
    std::byte* first = nullptr;
    std::size_t b_offset = 0, out_offset = 0, bias_offset = 0;  ///< bytes, within one copy
    std::size_t bytes = 0;                                      ///< of one copy
    std::size_t a_scale_offset = 0, b_scale_offset = 0;         ///< bytes; 0 if there are no scales
    std::size_t count = 0, next = 0;
    [[nodiscard]] MatmulOperands take();
  };
  struct Runner;
  [[nodiscard]] std::size_t wanted_copies(std::size_t bytes) const;
  [[nodiscard]] Copies fill(const MatmulShape& shape, std::size_t most_copies);
  /// Puts a product on the stream and returns true, or false if it does not run.
  [[nodiscard]] bool runs(const TimedProduct& product, const MatmulOperands& operands) const;
  /// Returns those that run each product, after a first run, which loads the kernel.
  [[nodiscard]] std::vector<Runner> start(std::span<const TimedProduct> products,
                                          Copies& copies) const;
  /// Keeps the device busy for so long; returns the mean seconds of a product.
  double warm_up(const Runner& runner, Copies& copies, double seconds) const;
  /// Times one group of products of each runner, beginning with `first`.
  void time_round(std::vector<Runner>& runners, std::size_t first, Copies& copies,
                  int products) const;

  Owned<cudaStream_t, cudaStreamDestroy> stream_;
  MatmulPlace place_;
  std::size_t cold_bytes_ = 0;  ///< after so many other bytes the caches hold nothing of the first
  std::unique_ptr<DeviceMemory> memory_;
  std::span<std::byte> pool_;      ///< the memory for operands
  std::uint64_t* hash_ = nullptr;  ///< device memory
  bool warm_ = false;
};

}  // namespace strata::cuda
