// Checks the tensors of the operators of a cache of keys and values, and lists the bytes that they
// touch. Kernels are in kernels/cpu/kv_cache.cpp and int8_kv.cpp, and kernels/cuda/rows.

#include "strata/ops/kv_cache.h"

#include "check.h"
#include "int8_kv.h"

namespace strata {

namespace {

void check_keys_and_values(const Checker& c, const ConstTensorView& k, const ConstTensorView& v) {
  c.rank("k", k, 3);
  c.compute_dtype("k", k);
  c.matches("v", v, k.shape, k.dtype);
}

}  // namespace

void AppendKv::check() const {
  const Checker c(kName);
  check_keys_and_values(c, k, v);
  c.matches_contiguous("rows", rows, {k.shape[0]}, DType::kI32);
  c.rank("cache_k", cache_k, 3);
  c.matches("cache_k", cache_k, {cache_k.shape[0], k.shape[1], k.shape[2]}, k.dtype);
  c.matches("cache_v", cache_v, cache_k.shape, k.dtype);
}

Accesses AppendKv::accesses() const {
  return {{k.bytes(), v.bytes(), rows.bytes()}, {cache_k.bytes(), cache_v.bytes()}};
}

/// Each row is read and written once.
Cost AppendKv::cost() const {
  return {.bytes = 4 * static_cast<std::size_t>(k.elements()) * size_of(k.dtype)};
}

void AppendInt8Kv::check() const {
  const Checker c(kName);
  check_keys_and_values(c, k, v);
  c.matches_contiguous("rows", rows, {k.shape[0]}, DType::kI32);
  check_int8_kv(c, cache, k.shape);
}

Accesses AppendInt8Kv::accesses() const {
  return {{k.bytes(), v.bytes(), rows.bytes()},
          {cache.k.bytes(), cache.v.bytes(), cache.k_scale.bytes(), cache.v_scale.bytes()}};
}

Cost AppendInt8Kv::cost() const {
  return {.bytes = 2 * static_cast<std::size_t>(k.elements()) * size_of(k.dtype) +
                   int8_kv_bytes(k.shape[0], k.shape)};
}

void DequantizeKv::check() const {
  const Checker c(kName);
  check_keys_and_values(c, k, v);
  check_int8_kv(c, cache, k.shape);
  c.require(cache.k.rows() == k.rows(), "k", "must have as many rows as the cache");
  c.rank("segments", segments, 2);
  c.matches_contiguous("segments", segments, {segments.shape[0], 5}, DType::kI32);
}

Accesses DequantizeKv::accesses() const {
  return {{cache.k.bytes(), cache.v.bytes(), cache.k_scale.bytes(), cache.v_scale.bytes(),
           segments.bytes()},
          {k.bytes(), v.bytes()}};
}

Cost DequantizeKv::cost() const {
  const std::int64_t rows = seen > 0 ? seen : k.rows();
  const auto elements = static_cast<std::size_t>(2 * rows * k.shape.row_elements());
  return {.bytes = elements * size_of(k.dtype) + int8_kv_bytes(rows, k.shape)};
}

}  // namespace strata
