// This file declares the last part of sums over rows: the blocks of a kernel leave partial sums in
// a workspace, a row for each, and add_partial_rows() adds them to a gradient. The backward of
// RMSNorm and that of a bias call it.

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string_view>

namespace strata::cuda {

/// A matrix of partial sums [rows, columns], contiguous.
struct PartialRows {
  const float* data;
  int rows;
  std::int64_t columns;
};

/// Adds the sum of the rows to sum [columns], in an order that is fixed for a given number of rows.
/// Submits to the stream; throws BackendError that names the operator.
void add_partial_rows(std::string_view name, cudaStream_t stream, const PartialRows& partial,
                      float* sum);

}  // namespace strata::cuda
