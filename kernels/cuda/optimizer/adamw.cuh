// This file has what the kernels of updates (adamw.cu, adamw_codes.cu, momentum.cu) share: the
// numbers of a step, AdamW of one parameter, keys of random bits, and the f32 master in one tensor
// or two.

#pragma once

#include <type_traits>

#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/random.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "strata/ops/optimizer.h"

namespace strata::cuda {

constexpr int kAdamWThreads = 256;
/// How many parameters a thread takes: 16 bytes of each f32 tensor.
constexpr int kAdamWParameters = 4;

/// The numbers of AdamWScalars as the kernel computes with them.
struct AdamWNumbers {
  float lr;
  float beta1;
  float beta2;
  float rest1;  ///< 1 - beta1
  float rest2;  ///< 1 - beta2
  float eps;
  float correction1;
  float correction2;
  float grad_factor;
  float decay;                    ///< lr * weight_decay
  std::uint64_t rounding;         ///< the part of the keys of rounding that all blocks share
  std::uint64_t weight_rounding;  ///< the same for weights without low halves
  bool apply;
};

/// Returns the key of the random bits of the block of parameters around this place. `shared` is the
/// part of keys that all blocks share.
__device__ __forceinline__ std::uint64_t rounding_key(std::uint64_t shared, std::int64_t place) {
  return mix64(shared ^ static_cast<std::uint64_t>(place / SquaredNorm::kBlock));
}

/// `p` are the arguments of a kernel.
template <class Arguments>
__device__ AdamWNumbers round_scalars(const AdamWScalars& s, const Arguments& p) {
  const double lr = __dmul_rn(s.lr, p.lr_factor);
  return {
      .lr = __double2float_rn(lr),
      .beta1 = __double2float_rn(s.beta1),
      .beta2 = __double2float_rn(s.beta2),
      .rest1 = __double2float_rn(__dsub_rn(1.0, s.beta1)),
      .rest2 = __double2float_rn(__dsub_rn(1.0, s.beta2)),
      .eps = __double2float_rn(s.eps),
      .correction1 = __double2float_rn(s.correction1),
      .correction2 = __double2float_rn(s.correction2),
      .grad_factor = __double2float_rn(s.grad_factor),
      .decay = __double2float_rn(__dmul_rn(lr, p.weight_decay)),
      .rounding = mix64(mix64(s.rounding_seed) ^ p.rounding_stream),
      .weight_rounding = mix64(mix64(s.rounding_seed) ^ p.rounding_stream ^ AdamW::kWeightStream),
      .apply = s.apply != 0};
}

__device__ __forceinline__ float updated(const AdamWNumbers& s, float grad, float w, float& m,
                                         float& v) {
  const float g = __fmul_rn(grad, s.grad_factor);
  m = __fmaf_rn(s.beta1, m, __fmul_rn(s.rest1, g));
  v = __fmaf_rn(s.beta2, v, __fmul_rn(__fmul_rn(s.rest2, g), g));
  const float root = __fsqrt_rn(__fdiv_rn(v, s.correction2));
  const float u = __fdiv_rn(__fdiv_rn(m, s.correction1), __fadd_rn(root, s.eps));
  w = __fmaf_rn(-s.decay, w, w);
  return __fmaf_rn(-s.lr, u, w);
}

/// Rounds stochastically by 16 random bits.
__device__ __forceinline__ __nv_bfloat16 round_by(float x, std::uint32_t random) {
  const std::uint32_t bits = __float_as_uint(x);
  const std::uint32_t quiet = isnan(x) ? 0x00400000u : 0u;
  const std::uint32_t added = isfinite(x) ? bits + random : bits | quiet;
  return __ushort_as_bfloat16(static_cast<unsigned short>(added >> 16));
}

/// Returns the f32 master of two halves.
__device__ __forceinline__ float join(__nv_bfloat16 high, std::int16_t low) {
  const std::uint32_t bits = static_cast<std::uint32_t>(__bfloat16_as_ushort(high)) << 16;
  return __uint_as_float(bits + static_cast<std::uint32_t>(std::int32_t{low}));
}
/// Makes the halves of an f32 master.
__device__ __forceinline__ void split(float w, __nv_bfloat16& high, std::int16_t& low) {
  const std::uint32_t bits = __float_as_uint(w);
  const std::uint32_t upper = (bits + 0x8000u) >> 16;
  high = __ushort_as_bfloat16(static_cast<unsigned short>(upper));
  low = static_cast<std::int16_t>(bits - (upper << 16));
}

/// A bf16 weight that is all there is of it.
struct OnlyBf16 {
  __nv_bfloat16 value;
};

/// Calls `launch` with the type of an update's weights.
template <class Update, class Launch>
void with_weights(const Update& op, const Launch& launch) {
  with_dtype(op.kName, op.weight.dtype, [&]<class W>() {
    if constexpr (sizeof(W) == sizeof(__nv_bfloat16)) {
      if (!op.low) return launch.template operator()<OnlyBf16>();
    }
    launch.template operator()<W>();
  });
}

/// Reads and writes the f32 master of kCount parameters, which are in one block.
template <class W, int kCount>
struct Master {
  template <class Arguments>
  static __device__ void read(const Arguments& p, std::int64_t i, float (&w)[kCount]) {
    if constexpr (sizeof(W) == sizeof(float)) {
      load(p.weight + i, w);
    } else if constexpr (std::is_same_v<W, OnlyBf16>) {
      const auto all = load_raw<W, kCount>(p.weight + i);
#pragma unroll
      for (int j = 0; j < kCount; ++j) w[j] = __bfloat162float(all.values[j].value);
    } else {
      const auto high = load_raw<W, kCount>(p.weight + i);
      const auto low = load_raw<std::int16_t, kCount>(p.low + i);
#pragma unroll
      for (int j = 0; j < kCount; ++j) w[j] = join(high.values[j], low.values[j]);
    }
  }
  template <class Arguments>
  static __device__ void write(const Arguments& p, const AdamWNumbers& s, std::int64_t i,
                               const float (&w)[kCount]) {
    if constexpr (sizeof(W) == sizeof(float)) {
      store(p.weight + i, w);
    } else if constexpr (std::is_same_v<W, OnlyBf16>) {
      const std::int64_t place = p.rounding_begin + i;
      const std::uint64_t key = rounding_key(s.weight_rounding, place);
      const auto first = static_cast<std::uint32_t>(place % SquaredNorm::kBlock);
      Vector<W, kCount> all;
#pragma unroll
      for (unsigned j = 0; j < kCount; ++j) {
        all.values[j].value = round_by(w[j], bits_of(key, first + j) & 0xffffu);
      }
      store_raw(p.weight + i, all);
    } else {
      Vector<W, kCount> high;
      Vector<std::int16_t, kCount> low;
#pragma unroll
      for (int j = 0; j < kCount; ++j) split(w[j], high.values[j], low.values[j]);
      store_raw(p.weight + i, high);
      store_raw(p.low + i, low);
    }
  }
};

}  // namespace strata::cuda
