// The operators that add keys and values of new tokens to those of earlier ones, as they are or as
// int8, and that bring int8 back. Generation runs them in every layer, before attention reads the
// cache. Letters of shapes are those of strata/ops/embedding.h.
#pragma once

#include <type_traits>

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

/// Keys and values as int8 with a scale for each row and head: element d of key [r, h] is
/// k[r, h, d] * k_scale[r, h], and so is that of the value by v_scale. Rows may be strided.
template <class View>
struct BasicInt8Kv {
  View k;        ///< [R, K, D] i8
  View v;        ///< [R, K, D] i8
  View k_scale;  ///< [R, K] f32
  View v_scale;  ///< [R, K] f32

  /// What can be written can also be read.
  template <class Other>
    requires(std::is_same_v<Other, ConstTensorView> && !std::is_same_v<Other, View>)
  operator BasicInt8Kv<Other>() const {  // NOLINT(google-explicit-constructor)
    return {k, v, k_scale, v_scale};
  }
};
using Int8Kv = BasicInt8Kv<TensorView>;
using ConstInt8Kv = BasicInt8Kv<ConstTensorView>;

/// Rows rows[n] of the cache become k[n] and v[n], each head of a row rounded to int8 as
/// QuantizeRows rounds a row: by half a scale at most, which is 1/254 of the head's largest
/// magnitude. A head with a NaN or an infinity gets the scale NaN, so that all who see it get NaN.
/// No row is named twice.
struct AppendInt8Kv {
  static constexpr std::string_view kName = "append_int8_kv";
  ConstTensorView k;     ///< [N, K, D] X; rows may be strided
  ConstTensorView v;     ///< [N, K, D] X; rows may be strided
  ConstTensorView rows;  ///< [N] i32, each in [0, R)
  Int8Kv cache;
  void check() const;
  [[nodiscard]] Accesses accesses() const;
  [[nodiscard]] Cost cost() const;
};

/// k[r] and v[r] = row r of the cache, in A, rounded once to X, for each row r that a query of the
/// segments sees: these are the first min(k_length, q_length + q_offset) keys of a segment. Other
/// rows keep what they hold. No row is in two segments.
struct DequantizeKv {
  static constexpr std::string_view kName = "dequantize_kv";
  ConstInt8Kv cache;
  ConstTensorView segments;  ///< [M, 5] i32, see AttentionSegments
  TensorView k;              ///< [R, K, D] X; rows may be strided
  TensorView v;              ///< [R, K, D] X; rows may be strided
  /// How many rows the segments see, for whoever asks what it costs; 0: as many as there can be.
  std::int64_t seen = 0;
  void check() const;
  [[nodiscard]] Accesses accesses() const;
  [[nodiscard]] Cost cost() const;
};

}  // namespace strata
