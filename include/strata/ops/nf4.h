// The operator that decodes weights of 4 bits. The weight store runs it on weights that nobody
// trains when a layer is visited. X is the dtype of strata/ops/embedding.h; the format is that of
// strata/ops/nf4_format.h.
#pragma once

#include "strata/base/tensor.h"
#include "strata/device/trace.h"
#include "strata/ops/nf4_format.h"

namespace strata {

/// With k the code of element i, s that of its scale, in f32, every operation rounded:
///   y[i] = level[k] * (scale_value[s] * group[i / (kNf4Block kNf4Group)] + offset)
/// rounded once more to X.
struct DequantizeNf4 {
  static constexpr std::string_view kName = "dequantize_nf4";
  ConstTensorView codes;   ///< [n / 2] u8: element 2 i in the upper four bits, 2 i + 1 in the lower
  ConstTensorView scales;  ///< [n / kNf4Block] u8
  ConstTensorView groups;  ///< [ceil(n / (kNf4Block kNf4Group))] f32
  ConstTensorView tables;  ///< [kNf4Tables] f32: offset, levels, values of scales
  TensorView y;            ///< [n] X, contiguous; n is a multiple of kNf4Block
  void check() const;
  [[nodiscard]] Accesses accesses() const;
};

}  // namespace strata
