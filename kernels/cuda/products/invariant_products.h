// This file declares the batch-invariant products on CUDA: MatmulPlans hands them over. A row of
// such a product has the same bits however many rows there are. Few rows run on a kernel of our own
// (invariant_matmul.cu); more run on what was measured to be fastest: that kernel, or an algorithm
// of cuBLASLt that was seen to give its bits.

#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "kernels/cuda/products/matmul_problem.h"

namespace strata::cuda {

class MatmulTimer;

/// Chooses and launches. A product that was not prepared runs on our own kernel, at any size; which
/// one runs changes no bit.
class InvariantProducts {
 public:
  /// Measures what runs products of these weights with up to op.m() rows, whose views need no data.
  /// It blocks, nothing else may run on the device, and it takes up to `memory_bytes` of device
  /// memory meanwhile; with less than it needs it finds no algorithm.
  void prepare(const MatmulPlace& place, const Matmul& op, std::size_t memory_bytes);
  /// Launches the product on the place's stream and never blocks.
  void launch(const MatmulPlace& place, const Matmul& op);

 private:
  /// What runs products of so many rows at most; without an algorithm our own kernel does.
  struct Choice {
    std::int64_t rows = 0;
    std::optional<cublasLtMatmulAlgo_t> algorithm;
  };
  /// A product of a size. Without an algorithm, or if it is refused, our own kernel runs.
  struct Sized {
    MatmulProblem problem;
    std::vector<cublasLtMatmulAlgo_t> algorithms;  ///< one or none
  };
  /// Returns the fastest for a shape, and nothing where no algorithm gave the bits of our own
  /// kernel and that takes fewer rows.
  [[nodiscard]] static std::optional<Choice> fastest(const MatmulPlace& place,
                                                     const MatmulShape& shape, MatmulTimer& timer);
  [[nodiscard]] Sized& sized(const MatmulPlace& place, const MatmulKey& key);

  std::map<MatmulKey, std::vector<Choice>> choices_;  ///< by a key with m = 0, by ascending rows
  std::map<MatmulKey, Sized> sized_;
};

}  // namespace strata::cuda
