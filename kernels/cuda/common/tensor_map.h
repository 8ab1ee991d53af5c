// This file describes tensors for the copy engine of compute capability 9.0 (TMA); the sm_90a
// attention kernels take such maps as parameters. Making one touches no device memory. Views that
// the engine cannot copy, by their alignment, throw BackendError.

#pragma once

#include <cuda.h>

#include "strata/base/tensor.h"

namespace strata::cuda {

/// Describes x [rows, heads, 64 * n] bf16 to the copy engine as [64 columns, rows, panels of 64
/// columns]: a box is `box_rows` rows of the n panels of a head, whose first panel is head * n, and
/// arrives in shared memory as n panels of box_rows x 128 bytes in the 128-byte swizzle. Rows must
/// begin at multiples of 16 bytes.
[[nodiscard]] CUtensorMap make_head_map(const ConstTensorView& x, int box_rows);

/// Describes sums [rows, heads, D] f32, contiguous, as [rows, heads * D]: a box is `box_rows` rows
/// of 32 columns, in shared memory rows of 128 bytes in the 128-byte swizzle.
[[nodiscard]] CUtensorMap make_sum_map(const TensorView& x, int box_rows);

}  // namespace strata::cuda
