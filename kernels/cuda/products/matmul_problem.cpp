// This file describes a product to cuBLASLt, asks it for algorithms, and launches one. MatmulPlans
// and MatmulTimer call it; matmul_problem.h is the contract.
//
// cuBLASLt is column-major. A row-major matrix is the transposed column-major one, and out^T =
// op(b)^T op(a)^T, so the operands change places and the transpositions stay what they are in
// memory: no data moves. cuBLASLt's first operand is our b, its second our a. A bias of our columns
// is one of its rows, which its epilogue adds in f32 before it rounds; algorithms are asked for
// with that epilogue set.

#include "kernels/cuda/products/matmul_problem.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cinttypes>
#include <cstdio>

#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/products/fp8_product.h"
#include "strata/base/error.h"
#include "strata/base/log.h"

namespace strata::cuda {

void check(cublasStatus_t code, const CallSite& site) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  throw_call_failed(site, std::string(cublasLtGetStatusName(code)) + " (" +
                              std::to_string(static_cast<int>(code)) + "), " +
                              cublasLtGetStatusString(code));
}

namespace {

using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::kBF16: return CUDA_R_16BF;
    case DType::kF32: return CUDA_R_32F;
    case DType::kE4M3: return CUDA_R_8F_E4M3;
    default: throw_unsupported(Matmul::kName, dtype);
  }
}

[[nodiscard]] cublasStatus_t set_bias(cublasLtMatmulDesc_t operation, const void* bias) {
  return cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                        sizeof bias);
}

/// Has the operation add a bias of the dtype of its output. Until a launch names one, there is an
/// address that is as aligned: asking for algorithms looks at that and not behind it.
void add_bias(const MatmulOperation& operation, std::uint32_t alignment) {
  const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
  STRATA_CUDA_CHECK(cublasLtMatmulDescSetAttribute(operation.get(), CUBLASLT_MATMUL_DESC_EPILOGUE,
                                                   &epilogue, sizeof epilogue));
  // NOLINTNEXTLINE(performance-no-int-to-ptr): nobody reads there
  const auto* aligned = reinterpret_cast<const void*>(static_cast<std::uintptr_t>(alignment));
  STRATA_CUDA_CHECK(set_bias(operation.get(), aligned));
}

MatmulOperation make_operation(MatmulLayout layout) {
  cublasLtMatmulDesc_t raw = nullptr;
  STRATA_CUDA_CHECK(cublasLtMatmulDescCreate(&raw, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  MatmulOperation operation(raw);
  const cublasOperation_t first = layout == MatmulLayout::kNT ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = layout == MatmulLayout::kTN ? CUBLAS_OP_T : CUBLAS_OP_N;
  STRATA_CUDA_CHECK(
      cublasLtMatmulDescSetAttribute(raw, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
  STRATA_CUDA_CHECK(
      cublasLtMatmulDescSetAttribute(raw, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
  return operation;
}

/// Makes the layout of a row-major matrix [rows, columns], as cuBLASLt sees it. The stride of a
/// single row is not looked at, but has to be a valid one.
MatrixLayout make_layout(DType dtype, std::int64_t rows, std::int64_t columns,
                         std::int64_t stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  STRATA_CUDA_CHECK(cublasLtMatrixLayoutCreate(
      &layout, data_type(dtype), static_cast<std::uint64_t>(columns),
      static_cast<std::uint64_t>(rows), std::max<std::int64_t>(stride, 1)));
  return MatrixLayout(layout);
}

template <class Value>
void prefer(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
            Value value) {
  STRATA_CUDA_CHECK(
      cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value));
}

/// Returns the schemes that may be proposed; that without partial sums always is.
std::uint32_t mask_of(Reductions reductions) {
  switch (reductions) {
    case Reductions::kNone: return CUBLASLT_REDUCTION_SCHEME_NONE;
    case Reductions::kFixedOrder: return CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    case Reductions::kAny: break;
  }
  return CUBLASLT_REDUCTION_SCHEME_MASK;
}

Preference make_preference(const MatmulKey& key, std::size_t workspace_bytes,
                           Reductions reductions) {
  cublasLtMatmulPreference_t raw = nullptr;
  STRATA_CUDA_CHECK(cublasLtMatmulPreferenceCreate(&raw));
  Preference preference(raw);
  const std::uint32_t schemes = mask_of(reductions);
  prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
         static_cast<std::uint64_t>(workspace_bytes));
  prefer(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.alignment_b);
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.alignment_a);
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.alignment_out);
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.alignment_out);
  return preference;
}

bool adds_in_fixed_order(const cublasLtMatmulAlgo_t& algorithm) {
  std::uint32_t scheme = 0;
  std::size_t written = 0;
  STRATA_CUDA_CHECK(cublasLtMatmulAlgoConfigGetAttribute(
      &algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof scheme, &written));
  return scheme == CUBLASLT_REDUCTION_SCHEME_NONE ||
         scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
}

std::uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t largest = address & (~address + 1);
  // No bit is set in a null pointer, which belongs to an operand without elements.
  return largest == 0 ? MatmulKey::kFullAlignment
                      : static_cast<std::uint32_t>(
                            std::min<std::uintptr_t>(largest, MatmulKey::kFullAlignment));
}

constexpr std::size_t kHexDigits = 16;  // the digits of a word

}  // namespace

MatmulKey key_of(const Matmul& op) {
  return {.shape = shape_of(op),
          .alignment_a = alignment_of(op.a.data),
          .alignment_b = alignment_of(op.b.data),
          .alignment_out = alignment_of(op.out.data),
          .alignment_bias = alignment_of(op.bias.data)};
}

MatmulProblem::MatmulProblem(const MatmulKey& key)
    : key_(key), operation_(make_operation(key.shape.layout)) {
  const MatmulShape& s = key.shape;
  if (s.in == DType::kE4M3) {
    require_fp8(key);
    scale_rows(operation_.get());
  }
  const std::int64_t columns_a = s.layout == MatmulLayout::kTN ? s.m : s.k;
  const std::int64_t columns_b = s.layout == MatmulLayout::kNT ? s.k : s.n;
  a_ = make_layout(s.in, s.rows_a(), columns_a, s.stride_a);
  b_ = make_layout(s.in, s.rows_b(), columns_b, s.stride_b);
  out_ = make_layout(s.out, s.m, s.n, s.stride_out);
  if (s.bias) add_bias(operation_, key.alignment_bias);
}

std::vector<cublasLtMatmulAlgo_t> MatmulProblem::proposals(const MatmulPlace& place,
                                                           Reductions reductions, int most) const {
  const Preference preference = make_preference(key_, place.workspace.size(), reductions);
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(place.handle, operation_.get(), b_.get(), a_.get(), out_.get(),
                                     out_.get(), preference.get(), most, results.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  STRATA_CUDA_CHECK(status);
  results.resize(static_cast<std::size_t>(count));
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (const cublasLtMatmulHeuristicResult_t& result : results) {
    if (result.state != CUBLAS_STATUS_SUCCESS) continue;
    if (result.workspaceSize > place.workspace.size()) continue;
    if (reductions != Reductions::kAny && !adds_in_fixed_order(result.algo)) continue;
    algorithms.push_back(result.algo);
  }
  return algorithms;
}

std::string MatmulProblem::objection(const MatmulPlace& place,
                                     const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status =
      cublasLtMatmulAlgoCheck(place.handle, operation_.get(), b_.get(), a_.get(), out_.get(),
                              out_.get(), &algorithm, &result);
  if (status != CUBLAS_STATUS_SUCCESS) {
    return std::string("cuBLASLt refuses the algorithm: ") + cublasLtGetStatusName(status);
  }
  if (result.workspaceSize > place.workspace.size()) {
    return "the algorithm needs a workspace of " + std::to_string(result.workspaceSize) +
           " bytes, there are " + std::to_string(place.workspace.size());
  }
  if (!adds_in_fixed_order(algorithm)) return "the algorithm does not add in a fixed order";
  return {};
}

cublasStatus_t MatmulProblem::launch(const MatmulPlace& place,
                                     const cublasLtMatmulAlgo_t& algorithm,
                                     const MatmulOperands& operands) const {
  if (key_.shape.bias) {
    const cublasStatus_t status = set_bias(operation_.get(), operands.bias);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  if (key_.shape.in == DType::kE4M3) {
    set_scales(operation_.get(), operands.a_scale, operands.b_scale);
  }
  const float keep = key_.shape.update == MatmulUpdate::kAccumulate ? 1.0f : 0.0f;
  return cublasLtMatmul(place.handle, operation_.get(), &operands.alpha, operands.b, b_.get(),
                        operands.a, a_.get(), &keep, operands.out, out_.get(), operands.out,
                        out_.get(), &algorithm, place.workspace.data(), place.workspace.size(),
                        place.stream);
}

bool MatmulProblem::try_launch(const MatmulPlace& place, const cublasLtMatmulAlgo_t& algorithm,
                               const MatmulOperands& operands) const {
  const cublasStatus_t status = launch(place, algorithm, operands);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
      status == CUBLAS_STATUS_ARCH_MISMATCH) {
    log::debug("cuBLASLt refuses its own algorithm for {}: {}", to_string(key_.shape),
               cublasLtGetStatusName(status));
    (void)cudaGetLastError();
    return false;
  }
  STRATA_CUDA_CHECK(status);
  return true;
}

std::string hex_of(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text;
  for (const std::uint64_t word : algorithm.data) {
    std::array<char, kHexDigits + 1> digits{};
    std::snprintf(digits.data(), digits.size(), "%016" PRIx64, word);
    text += digits.data();
  }
  return text;
}

cublasLtMatmulAlgo_t algorithm_of(std::string_view hex) {
  cublasLtMatmulAlgo_t algorithm{};
  bool right = hex.size() == kHexDigits * std::size(algorithm.data);
  for (std::size_t i = 0; right && i < std::size(algorithm.data); ++i) {
    const char* begin = hex.data() + i * kHexDigits;
    constexpr int kBase = 16;
    const auto parsed = std::from_chars(begin, begin + kHexDigits, algorithm.data[i], kBase);
    right = parsed.ec == std::errc() && parsed.ptr == begin + kHexDigits;
  }
  if (!right) throw BackendError("\"" + std::string(hex) + "\" is not an algorithm of cuBLASLt");
  return algorithm;
}

}  // namespace strata::cuda
