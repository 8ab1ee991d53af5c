// This file declares what products of codes in e4m3 have beside others for cuBLASLt: the scales of
// rows, and what the library and the device must be. MatmulProblem calls it.

#pragma once

#include <cublasLt.h>

#include "kernels/cuda/products/matmul_problem.h"

namespace strata::cuda {

/// Throws BackendError, naming operator and product, if it cannot run here: it needs compute
/// capability 9.0, CUDA 12.9, and sizes, strides and addresses that tensor cores can load.
void require_fp8(const MatmulKey& key);

/// Says that both operands have a scale for each row.
void scale_rows(cublasLtMatmulDesc_t operation);

/// Says where the scales of the rows of a and b are, in device memory.
void set_scales(cublasLtMatmulDesc_t operation, const float* a_scale, const float* b_scale);

}  // namespace strata::cuda
