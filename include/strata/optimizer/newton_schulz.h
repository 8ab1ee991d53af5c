// Orthogonalises a matrix by products alone, as Muon needs it (Jordan et al., "Muon: An optimizer
// for hidden layers in neural networks", 2024). Five Newton-Schulz steps leave its singular vectors
// as they are, and bring its singular values near 1. The submitting thread calls it, and it does
// not block. X is the dtype of strata/ops/embedding.h; products sum as strata/ops/matmul.h says.
#pragma once

#include "strata/ops/kernels.h"

namespace strata {

/// The memory of a matrix's steps, where its kernels can reach it, of any shape. n is the smaller
/// extent of the matrix. Contents mean nothing before and after the steps.
struct NewtonSchulzScratch {
  TensorView gram;        ///< X, n * n elements or more
  TensorView polynomial;  ///< X, n * n elements or more
  TensorView copy;        ///< X, rows * columns elements or more
};

/// What the matrix must still be multiplied by after the steps: 3.4445^5. The caller's next pass
/// over the matrix does so, as products can add to a matrix but cannot scale it in place.
inline constexpr double kNewtonSchulzGain = 3.4445 * 3.4445 * 3.4445 * 3.4445 * 3.4445;

/// Submits the steps on `lane`, one of the device where `kernels` run. `x`, [rows, columns] X, is
/// contiguous and replaced. Its Frobenius norm, and so any singular value, must be at most 1, but
/// for rounding. Values from 0.002 on then end between 0.68 and 1.21, and smaller ones below 0.87.
void submit_newton_schulz(Kernels& kernels, Stream& lane, const TensorView& x,
                          const NewtonSchulzScratch& scratch, const Tag& tag);

}  // namespace strata
