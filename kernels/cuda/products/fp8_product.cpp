// This file tells cuBLASLt about the scales of products of codes in e4m3; fp8_product.h is the
// contract. As everywhere, cuBLASLt's first operand is our b, its second our a.

#include "kernels/cuda/products/fp8_product.h"

#include <string>

#include "strata/base/error.h"

namespace strata::cuda {
namespace {

/// The sizes that cuBLASLt takes, in elements and in bytes: codes have one.
constexpr std::int64_t kMultiple = 16;

#if CUBLAS_VERSION >= 120900
constexpr bool kHasScalesOfRows = true;
constexpr auto kScaleModeOfA = CUBLASLT_MATMUL_DESC_A_SCALE_MODE;
constexpr auto kScaleModeOfB = CUBLASLT_MATMUL_DESC_B_SCALE_MODE;
constexpr std::int32_t kScalesOfRows = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
#else  // only named: require_fp8 refuses all products
constexpr bool kHasScalesOfRows = false;
constexpr auto kScaleModeOfA = cublasLtMatmulDescAttributes_t{};
constexpr auto kScaleModeOfB = cublasLtMatmulDescAttributes_t{};
constexpr std::int32_t kScalesOfRows = 0;
#endif

int compute_capability() {
  int device = 0;
  int major = 0;
  int minor = 0;
  STRATA_CUDA_CHECK(cudaGetDevice(&device));
  STRATA_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  STRATA_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return 10 * major + minor;
}

template <class Value>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, Value value) {
  STRATA_CUDA_CHECK(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value));
}

bool is_multiple(std::int64_t value) { return value % kMultiple == 0; }

}  // namespace

void require_fp8(const MatmulKey& key) {
  const MatmulShape& s = key.shape;
  const auto fail = [&](const std::string& problem) {
    throw BackendError("operator " + std::string(Matmul::kName) + ": " + to_string(s) + ": " +
                       problem);
  };
  constexpr int kHopper = 90;
  const int capability = compute_capability();
  if (!kHasScalesOfRows) fail("products in e4m3 need a program built with CUDA 12.9 or later");
  if (capability != kHopper) {
    fail("products in e4m3 need a GPU of compute capability 9.0; this one has " +
         std::to_string(capability / 10) + "." + std::to_string(capability % 10));
  }
  if (!is_multiple(s.n) || !is_multiple(s.k)) {
    fail("products in e4m3 need n and k that are multiples of " + std::to_string(kMultiple));
  }
  const auto out_bytes = s.stride_out * static_cast<std::int64_t>(size_of(s.out));
  if (!is_multiple(s.stride_a) || !is_multiple(s.stride_b) || !is_multiple(out_bytes) ||
      key.alignment_a < kMultiple || key.alignment_b < kMultiple || key.alignment_out < kMultiple) {
    fail("products in e4m3 need rows that begin at multiples of " + std::to_string(kMultiple) +
         " bytes");
  }
}

void scale_rows(cublasLtMatmulDesc_t operation) {
  set(operation, kScaleModeOfA, kScalesOfRows);
  set(operation, kScaleModeOfB, kScalesOfRows);
  // Algorithms are proposed for products that have scales; each launch says where its own are.
  const auto* const somewhere = reinterpret_cast<const float*>(kMultiple);
  set_scales(operation, somewhere, somewhere);
}

void set_scales(cublasLtMatmulDesc_t operation, const float* a_scale, const float* b_scale) {
  set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, b_scale);
  set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, a_scale);
}

}  // namespace strata::cuda
