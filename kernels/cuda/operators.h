// This file declares what the kernel files give to CudaKernels: enqueue() for every operator, and
// one kernel of every .cu file, by which CUDA finds the file's module to load it at start-up.
// CudaKernels calls both; kernels that are made of other operators call enqueue(), too. Operators
// must have passed check().

#pragma once

#include <cuda_runtime_api.h>

#include "strata/ops/operator_list.h"

namespace strata::cuda {

struct AttentionBackend;
class CudnnAttention;
class MatmulPlans;

/// What every operator is given: a stream, and what the operators with a workspace share, which
/// serves one stream at a time.
struct Context {
  cudaStream_t stream;
  const AttentionBackend& attention;
  MatmulPlans& products;
  CudnnAttention* cudnn;  ///< null unless kernels.attention is "cudnn"
};

/// Puts the operator's kernels on the stream; never blocks, and allocates nothing that prepare()
/// and the tuner could have taken before. Throws BackendError, naming the operator, for a dtype or
/// a case that CUDA does not run.
#define STRATA_DECLARE(Operator) void enqueue(const Context& context, const Operator& op);
STRATA_FOR_EACH_OPERATOR(STRATA_DECLARE)
#undef STRATA_DECLARE

/// Expands to apply(file) for every .cu file with kernels of operators but those for sm_90a, which
/// not every device can load. The file defines file_module(), which returns one of its kernels.
#define STRATA_FOR_EACH_KERNEL_FILE(apply)                                                       \
  apply(adamw) apply(adamw_codes) apply(attention_delta) apply(attention_reference)              \
      apply(attention_reference_backward) apply(bias) apply(count_fp8) apply(cross_entropy)      \
          apply(decode_attention) apply(decode_int8_attention) apply(dropout) apply(elementwise) \
              apply(embedding) apply(flash_backward) apply(flash_forward)                        \
                  apply(flash_key_gradients) apply(flash_wide_key_gradients) apply(fp8_columns)  \
                      apply(fp8_columns_kept) apply(fused_append) apply(fused_linear)            \
                          apply(head_norm) apply(head_norm_backward) apply(int8_kv)              \
                              apply(invariant_matmul) apply(kv_cache) apply(momentum) apply(nf4) \
                                  apply(norm) apply(norm_backward) apply(partial_rows)           \
                                      apply(plain_matmul) apply(preference) apply(quantize)      \
                                          apply(rope) apply(sampling) apply(soft_cap)            \
                                              apply(squared_norm) apply(swiglu)
#define STRATA_DECLARE(file) [[nodiscard]] const void* file##_module();
STRATA_FOR_EACH_KERNEL_FILE(STRATA_DECLARE)
#undef STRATA_DECLARE

/// Runs AdamW with moments in 8 bits.
void launch_adamw_codes(cudaStream_t stream, const AdamW& op);
/// Runs the products that cuBLASLt has no algorithm for, and those with K = 0, at any size and
/// slowly.
void launch_plain_matmul(cudaStream_t stream, const Matmul& op);
/// Runs a batch-invariant product of any size; it is fast for few rows.
void launch_invariant_matmul(cudaStream_t stream, const Matmul& op);

}  // namespace strata::cuda
