// This file declares the quantiser of columns that reads its input once, from fp8_columns_kept.cu.
// QuantizeFp8Columns takes it where keeps_columns() says so, and reads its input twice elsewhere.

#pragma once

#include "kernels/cuda/operators.h"

namespace strata::cuda {

/// Returns whether the current device can keep the operator's columns in the shared memory of a
/// cluster: bf16 in a layout of whole accesses of 16 bytes, and not too many rows.
[[nodiscard]] bool keeps_columns(const QuantizeFp8Columns& op);

/// Submits the operator; keeps_columns() holds. Throws BackendError that names the operator.
void quantize_kept_columns(const Context& context, const QuantizeFp8Columns& op);

}  // namespace strata::cuda
