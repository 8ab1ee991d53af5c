// This file turns queries and keys and adds keys and values to a cache, in one kernel; CudaKernels
// launches it through operators.h. It takes heads of any even size and alignment, in bf16 or f32,
// and gives the bits of rope.cu and kv_cache.cu. Rows must lie within the cache, which the device
// does not check.
//
// x[n] = turned by the angles of positions[n]; cache_k[rows[n]] = the last K heads of x[n];
// cache_v[rows[n]] = v[n].
//
// Shapes: x [N, H + K, D], v [N, K, D], caches [R, K, D], rows and positions [N].
// Tile: one thread for W pairs of a head of x, or twice W elements of v.
// Naive version: kernels/cpu.

#include "kernels/cuda/common/chain.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/grid.cuh"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/rows/rope_pieces.cuh"

namespace strata::cuda {
namespace {

template <class T>
struct Params {
  Rows<T> x;
  Rows<const T> v;
  Rows<T> cache_k, cache_v;
  const std::int32_t* rows;
  RopeTables tables;
  int heads;     ///< of queries and keys
  int kv_heads;  ///< of keys, the last ones of these, and of values
  int half;
};

template <class T, int W>
__global__ void fused_append(Params<T> p, Extent extent) {
  begin_chained();
  for_each_piece<W>(extent, [&](std::int64_t n, std::int64_t column) {
    const int head = static_cast<int>(column) / p.half;
    const int i = static_cast<int>(column) % p.half;
    const std::int64_t row = p.rows[n];
    if (head >= p.heads) {
      const std::int64_t at = static_cast<std::int64_t>(head - p.heads) * 2 * p.half + i;
      store_raw(p.cache_v.row(row) + at, load_raw<T, W>(p.v.row(n) + at));
      store_raw(p.cache_v.row(row) + at + p.half, load_raw<T, W>(p.v.row(n) + at + p.half));
      return;
    }
    T* const low = p.x.row(n) + static_cast<std::int64_t>(head) * 2 * p.half + i;
    float a[W];
    float b[W];
    load(low, a);
    load(low + p.half, b);
    rotate(p.tables, n, i, p.half, a, b);
    store(low, a);
    store(low + p.half, b);
    const int kv_head = head - (p.heads - p.kv_heads);
    if (kv_head < 0) return;
    T* const key = p.cache_k.row(row) + static_cast<std::int64_t>(kv_head) * 2 * p.half + i;
    store(key, a);
    store(key + p.half, b);
  });
}

}  // namespace

void enqueue(const Context& context, const FusedAppend& op) {
  const Rope& rope = op.rope;
  const AppendKv& append = op.append;
  const std::int64_t half = rope.x.shape[2] / 2;
  const std::int64_t heads = rope.x.shape[1];
  const std::int64_t kv_heads = append.k.shape[1];
  const Extent extent{rope.x.rows(), (heads + kv_heads) * half};
  const bool wide = is_wide(rope.x.dtype, half,
                            {rope.x, rope.cos, rope.sin, append.v, append.cache_k, append.cache_v});
  with_dtype_and_width(op.kName, rope.x.dtype, wide, [&]<class T, int W>() {
    const Params<T> params{.x = Rows<T>(rope.x),
                           .v = Rows<const T>(append.v),
                           .cache_k = Rows<T>(append.cache_k),
                           .cache_v = Rows<T>(append.cache_v),
                           .rows = data<std::int32_t>(append.rows),
                           .tables = {.positions = data<std::int32_t>(rope.positions),
                                      .cos = data<float>(rope.cos),
                                      .sin = data<float>(rope.sin),
                                      .sign = 1.0f},
                           .heads = static_cast<int>(heads),
                           .kv_heads = static_cast<int>(kv_heads),
                           .half = static_cast<int>(half)};
    launch(chained(over(op.kName, context.stream, extent, W)), fused_append<T, W>, params, extent);
  });
}

const void* fused_append_module() { return reinterpret_cast<const void*>(&fused_append<float, 1>); }

}  // namespace strata::cuda
