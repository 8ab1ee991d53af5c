// Checks the tensors of the operator that adds to a cache of keys and values, and lists the bytes
// that it touches. The kernel is in kernels/cpu/kv_cache.cpp.

#include "strata/ops/kv_cache.h"

#include "check.h"

namespace strata {

void AppendKv::check() const {
  const Checker c(kName);
  c.rank("k", k, 3);
  c.compute_dtype("k", k);
  c.matches("v", v, k.shape, k.dtype);
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

}  // namespace strata
