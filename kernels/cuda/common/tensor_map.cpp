// This file makes tensor maps through the driver, which alone can encode them; tensor_map.h says
// what they describe. The driver's functions are loaded once. A failure throws BackendError that
// names the call.

#include "kernels/cuda/common/tensor_map.h"

#include <array>

#include "src/device/cuda/check.h"
#include "src/device/cuda/driver.h"

namespace strata::cuda {

namespace {

const Driver& driver() {
  static const Driver loaded = load_driver();
  return loaded;
}

}  // namespace

CUtensorMap make_head_map(const ConstTensorView& x, int box_rows) {
  constexpr cuuint64_t kColumns = 64;
  const auto head_panels = static_cast<cuuint64_t>(x.shape[2]) / kColumns;
  const std::array<cuuint64_t, 3> sizes{kColumns, static_cast<cuuint64_t>(x.shape[0]),
                                        static_cast<cuuint64_t>(x.shape[1]) * head_panels};
  const std::array<cuuint64_t, 2> strides{static_cast<cuuint64_t>(x.row_stride) * 2, kColumns * 2};
  const std::array<cuuint32_t, 3> box{static_cast<cuuint32_t>(kColumns),
                                      static_cast<cuuint32_t>(box_rows),
                                      static_cast<cuuint32_t>(head_panels)};
  constexpr std::array<cuuint32_t, 3> kSteps{1, 1, 1};
  CUtensorMap map;
  STRATA_CUDA_CHECK(driver().tensor_map_encode_tiled(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, const_cast<void*>(x.data), sizes.data(),
      strides.data(), box.data(), kSteps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

CUtensorMap make_sum_map(const TensorView& x, int box_rows) {
  const auto columns = static_cast<cuuint64_t>(x.shape[1] * x.shape[2]);
  const std::array<cuuint64_t, 2> sizes{columns, static_cast<cuuint64_t>(x.shape[0])};
  const std::array<cuuint64_t, 1> strides{columns * 4};
  const std::array<cuuint32_t, 2> box{32, static_cast<cuuint32_t>(box_rows)};
  constexpr std::array<cuuint32_t, 2> kSteps{1, 1};
  CUtensorMap map;
  STRATA_CUDA_CHECK(driver().tensor_map_encode_tiled(
      &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, x.data, sizes.data(), strides.data(), box.data(),
      kSteps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

}  // namespace strata::cuda
