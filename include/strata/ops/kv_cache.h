// The operator that adds keys and values of new tokens to those of earlier ones. Generation runs it
// in every layer, before attention reads the cache. Letters of shapes are those of
// strata/ops/embedding.h.
#pragma once

#include "strata/base/tensor.h"
#include "strata/device/trace.h"

namespace strata {

/// cache_k[rows[n]] = k[n] and cache_v[rows[n]] = v[n], copied as they are. No row is named twice.
struct AppendKv {
  static constexpr std::string_view kName = "append_kv";
  ConstTensorView k;     ///< [N, K, D] X; rows may be strided
  ConstTensorView v;     ///< [N, K, D] X; rows may be strided
  ConstTensorView rows;  ///< [N] i32, each in [0, R)
  TensorView cache_k;    ///< [R, K, D] X; rows may be strided
  TensorView cache_v;    ///< [R, K, D] X; rows may be strided
  void check() const;
  [[nodiscard]] Accesses accesses() const;
  [[nodiscard]] Cost cost() const;
};

}  // namespace strata
