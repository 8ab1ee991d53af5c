// This file adds keys and values of new tokens to a cache on CUDA; CudaKernels launches it through
// operators.h. Rows must lie within the cache, which the device does not check.
//
// cache_k[rows[n]] = k[n], cache_v[rows[n]] = v[n].
//
// Shapes: k and v [N, K D], caches [R, K D], rows [N].
// Tile: one thread per 16 bytes of k and the same ones of v.
// Naive version: kernels/cpu.

#include "kernels/cuda/common/chain.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/grid.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"

namespace strata::cuda {
namespace {

template <class T, int W>
__global__ void append_kv(const std::int32_t* rows, Rows<const T> k, Rows<const T> v,
                          Rows<T> cache_k, Rows<T> cache_v, Extent extent) {
  begin_chained();
  for_each_piece<W>(extent, [&](std::int64_t n, std::int64_t c) {
    const auto key = load_raw<T, W>(k.row(n) + c);
    const auto value = load_raw<T, W>(v.row(n) + c);
    const std::int64_t row = rows[n];
    store_raw(cache_k.row(row) + c, key);
    store_raw(cache_v.row(row) + c, value);
  });
}

}  // namespace

void enqueue(const Context& context, const AppendKv& op) {
  const Extent extent{op.k.rows(), op.k.shape.row_elements()};
  const bool wide = is_wide(op.k.dtype, extent.columns, {op.k, op.v, op.cache_k, op.cache_v});
  with_dtype_and_width(op.kName, op.k.dtype, wide, [&]<class T, int W>() {
    launch(chained(over(op.kName, context.stream, extent, W)), append_kv<T, W>,
           data<std::int32_t>(op.rows), Rows<const T>(op.k), Rows<const T>(op.v),
           Rows<T>(op.cache_k), Rows<T>(op.cache_v), extent);
  });
}

const void* kv_cache_module() { return reinterpret_cast<const void*>(&append_kv<float, 1>); }

}  // namespace strata::cuda
