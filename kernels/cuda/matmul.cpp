// out (+)= op(a) op(b) through cuBLASLt.
//
// Shapes: see strata/ops/matmul.h; row-major, rows may be strided.
// How: cuBLASLt is column-major. A row-major matrix is the transposed column-major one, and
// out^T = op(b)^T op(a)^T, so the operands change places and the transpositions stay what they are
// in memory: no data moves.
// Numerics: bf16 operands accumulate in f32; f32 operands are computed in true f32, not tf32.
// Split-K only with partial sums in f32 in the workspace, added in a fixed order, so results
// repeat bit for bit; they differ from the CPU's order of additions.
// Measured on one H200, 2026-11-21, short bursts in bf16: 810 to 840 TFLOP/s for 8192 x 12288 x
// 4096 in the three layouts, accumulating into f32 included.
// Naive version: plain_matmul.cu,
// kernels/cpu.

#include "kernels/cuda/matmul.h"

#include <algorithm>
#include <string>

#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/operators.h"
#include "src/device/cuda/check.h"
#include "strata/base/error.h"

namespace strata::cuda {

void check(cublasStatus_t code, const CallSite& site) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  throw_call_failed(site, std::string(cublasLtGetStatusName(code)) + " (" +
                              std::to_string(static_cast<int>(code)) + "), " +
                              cublasLtGetStatusString(code));
}

namespace {

template <auto destroy>
struct Destroy {
  template <class Handle>
  void operator()(Handle* handle) const {
    destroy(handle);  // frees host memory only; nothing can be done if it fails
  }
};
template <class Handle, auto destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<destroy>>;

using Operation = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::kBF16: return CUDA_R_16BF;
    case DType::kF32: return CUDA_R_32F;
    default: throw_unsupported(Matmul::kName, dtype);
  }
}

Operation make_operation(MatmulLayout layout) {
  cublasLtMatmulDesc_t raw = nullptr;
  STRATA_CUDA_CHECK(cublasLtMatmulDescCreate(&raw, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  Operation operation(raw);
  // cuBLASLt's first operand is our b, its second our a.
  const cublasOperation_t first = layout == MatmulLayout::kNT ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = layout == MatmulLayout::kTN ? CUBLAS_OP_T : CUBLAS_OP_N;
  STRATA_CUDA_CHECK(
      cublasLtMatmulDescSetAttribute(raw, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof(first)));
  STRATA_CUDA_CHECK(
      cublasLtMatmulDescSetAttribute(raw, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof(second)));
  return operation;
}

/// Of a row-major matrix [rows, columns], as cuBLASLt sees it.
Layout make_layout(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  cublasLtMatrixLayout_t raw = nullptr;
  STRATA_CUDA_CHECK(cublasLtMatrixLayoutCreate(&raw, data_type(dtype),
                                               static_cast<std::uint64_t>(columns),
                                               static_cast<std::uint64_t>(rows), stride));
  return Layout(raw);
}

template <class Value>
void prefer(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
            Value value) {
  STRATA_CUDA_CHECK(
      cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)));
}

Preference make_preference(const MatmulKey& key, std::size_t workspace_bytes) {
  cublasLtMatmulPreference_t raw = nullptr;
  STRATA_CUDA_CHECK(cublasLtMatmulPreferenceCreate(&raw));
  Preference preference(raw);
  prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
         static_cast<std::uint64_t>(workspace_bytes));
  prefer(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.alignment_b);
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.alignment_a);
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.alignment_out);
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.alignment_out);
  return preference;
}

/// Largest power of two, up to what any algorithm asks for, that divides the address.
std::uint32_t alignment_of(const void* data) {
  constexpr std::uintptr_t kMost = 256;
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return static_cast<std::uint32_t>(std::min(address & (~address + 1), kMost));
}

/// The distance of rows that are never stepped over is not looked at; cuBLASLt wants a valid one.
std::int64_t stride_of(const ConstTensorView& view) {
  return view.rows() <= 1 ? std::max<std::int64_t>(view.shape[1], 1) : view.row_stride;
}

MatmulKey key_of(const Matmul& op) {
  return {.m = op.m(),
          .n = op.n(),
          .k = op.k(),
          .stride_a = stride_of(op.a),
          .stride_b = stride_of(op.b),
          .stride_out = stride_of(op.out),
          .layout = op.layout,
          .update = op.update,
          .in = op.a.dtype,
          .out = op.out.dtype,
          .alignment_a = alignment_of(op.a.data),
          .alignment_b = alignment_of(op.b.data),
          .alignment_out = alignment_of(op.out.data)};
}

}  // namespace

struct MatmulPlans::Plan {
  Operation operation;
  Layout a;
  Layout b;
  Layout out;
  bool found = false;  ///< false: the plain kernel
  cublasLtMatmulAlgo_t algorithm{};
};

MatmulPlans::MatmulPlans(std::size_t workspace_bytes) : workspace_bytes_(workspace_bytes) {
  STRATA_CUDA_CHECK(cublasLtCreate(&handle_));
  if (workspace_bytes > 0) STRATA_CUDA_CHECK(cudaMalloc(&workspace_, workspace_bytes));
}

MatmulPlans::~MatmulPlans() {
  plans_.clear();
  cublasLtDestroy(handle_);
  STRATA_CUDA_CHECK_IN_DESTRUCTOR(cudaFree(workspace_));
}

std::unique_ptr<MatmulPlans::Plan> MatmulPlans::make_plan(const MatmulKey& key) const {
  auto plan = std::make_unique<Plan>();
  const bool transposed_a = key.layout == MatmulLayout::kTN;
  const bool transposed_b = key.layout == MatmulLayout::kNT;
  plan->operation = make_operation(key.layout);
  plan->a =
      make_layout(key.in, transposed_a ? key.k : key.m, transposed_a ? key.m : key.k, key.stride_a);
  plan->b =
      make_layout(key.in, transposed_b ? key.n : key.k, transposed_b ? key.k : key.n, key.stride_b);
  plan->out = make_layout(key.out, key.m, key.n, key.stride_out);
  const Preference preference = make_preference(key, workspace_bytes_);
  cublasLtMatmulHeuristicResult_t result{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_, plan->operation.get(), plan->b.get(), plan->a.get(), plan->out.get(),
      plan->out.get(), preference.get(), 1, &result, &count);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) STRATA_CUDA_CHECK(status);
  plan->found = status == CUBLAS_STATUS_SUCCESS && count > 0;
  plan->algorithm = result.algo;
  return plan;
}

const MatmulPlans::Plan& MatmulPlans::plan_for(const Matmul& op) {
  const MatmulKey key = key_of(op);
  auto at = plans_.find(key);
  if (at == plans_.end()) at = plans_.emplace(key, make_plan(key)).first;
  return *at->second;
}

void MatmulPlans::launch(cudaStream_t stream, const Matmul& op) {
  if (op.m() == 0 || op.n() == 0) return;
  if (op.k() == 0) return launch_plain_matmul(stream, op);
  const Plan& plan = plan_for(op);
  if (!plan.found) return launch_plain_matmul(stream, op);
  const float one = 1.0f;
  const float keep = op.update == MatmulUpdate::kAccumulate ? 1.0f : 0.0f;
  STRATA_CUDA_CHECK(cublasLtMatmul(handle_, plan.operation.get(), &one, op.b.data, plan.b.get(),
                                   op.a.data, plan.a.get(), &keep, op.out.data, plan.out.get(),
                                   op.out.data, plan.out.get(), &plan.algorithm, workspace_,
                                   workspace_bytes_, stream));
}

}  // namespace strata::cuda
