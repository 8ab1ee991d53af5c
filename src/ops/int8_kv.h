// Checks and counts what the operators on int8 keys and values have in common.
#pragma once

#include "check.h"
#include "strata/ops/kv_cache.h"

namespace strata {

/// Checks a cache whose rows have the heads and the head dim of `like` [any, K, D].
inline void check_int8_kv(const Checker& c, const ConstInt8Kv& kv, const Shape& like) {
  c.rank("cache.k", kv.k, 3);
  const std::int64_t rows = kv.k.shape[0];
  c.matches("cache.k", kv.k, {rows, like[1], like[2]}, DType::kI8);
  c.matches("cache.v", kv.v, kv.k.shape, DType::kI8);
  c.matches("cache.k_scale", kv.k_scale, {rows, like[1]}, DType::kF32);
  c.matches("cache.v_scale", kv.v_scale, {rows, like[1]}, DType::kF32);
}

/// Returns the bytes of so many rows of keys and values, scales included.
inline std::size_t int8_kv_bytes(std::int64_t rows, const Shape& like) {
  const auto heads = static_cast<std::size_t>(rows * like[1]);
  return 2 * heads * (static_cast<std::size_t>(like[2]) + sizeof(float));
}

}  // namespace strata
