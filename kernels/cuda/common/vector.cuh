// This file has the element access of the memory-bound kernels, which all include it: W elements
// move as one access of up to 16 bytes and are computed on as f32. Numbers are rounded to nearest,
// ties to even; addresses must be multiples of the access.

#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <type_traits>

namespace strata::cuda {

template <class T, int W>
struct alignas(sizeof(T) * W < 16 ? sizeof(T) * W : 16) Vector {
  T values[W];
};

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }

/// Rounds to nearest, ties to even.
template <class T>
__device__ __forceinline__ T narrow_to(float x);
template <>
__device__ __forceinline__ float narrow_to<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ __nv_bfloat16 narrow_to<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

template <class T, int W>
__device__ __forceinline__ Vector<T, W> load_raw(const T* from) {
  return *reinterpret_cast<const Vector<T, W>*>(from);
}

template <class T, int W>
__device__ __forceinline__ void store_raw(T* to, const Vector<T, W>& from) {
  *reinterpret_cast<Vector<T, W>*>(to) = from;
}

/// Stores what no kernel reads soon: 8 bytes are then the first to leave the cache.
template <class T, int W>
__device__ __forceinline__ void store_raw_streaming(T* to, const Vector<T, W>& from) {
  if constexpr (sizeof(from) == sizeof(uint2)) {
    __stcs(reinterpret_cast<uint2*>(to), __builtin_bit_cast(uint2, from));
  } else {
    store_raw(to, from);
  }
}

template <class T, int W>
__device__ __forceinline__ void unpack(const Vector<T, W>& from, float (&to)[W]) {
#pragma unroll
  for (int i = 0; i < W; ++i) to[i] = widen(from.values[i]);
}

template <class T, int W>
__device__ __forceinline__ Vector<T, W> pack(const float (&from)[W]) {
  Vector<T, W> to;
#pragma unroll
  for (int i = 0; i < W; ++i) to.values[i] = narrow_to<T>(from[i]);
  return to;
}

template <class T, int W>
__device__ __forceinline__ void load(const T* from, float (&to)[W]) {
  unpack(load_raw<T, W>(from), to);
}

template <class T, int W>
__device__ __forceinline__ void store(T* to, const float (&from)[W]) {
  store_raw(to, pack<T, W>(from));
}

/// W elements as a thread keeps them in registers for later: of a Vector of bf16 the compiler gives
/// every element a register of its own.
template <class T, int W>
struct Packed {
  using Word = std::conditional_t<sizeof(T) * W % sizeof(unsigned) == 0, unsigned, unsigned short>;
  static constexpr int kWords = static_cast<int>(sizeof(T) * W / sizeof(Word));
  Word words[kWords];
};

template <class T, int W>
__device__ __forceinline__ Packed<T, W> load_packed(const T* from) {
  using Word = typename Packed<T, W>::Word;
  const auto words = load_raw<Word, Packed<T, W>::kWords>(reinterpret_cast<const Word*>(from));
  return __builtin_bit_cast(Packed<T, W>, words);
}

template <class T, int W>
__device__ __forceinline__ void store_raw(T* to, const Packed<T, W>& from) {
  using Word = typename Packed<T, W>::Word;
  store_raw(reinterpret_cast<Word*>(to),
            __builtin_bit_cast(Vector<Word, Packed<T, W>::kWords>, from));
}

template <class T, int W>
__device__ __forceinline__ void unpack(const Packed<T, W>& from, float (&to)[W]) {
  if constexpr (sizeof(T) == sizeof(float)) {
#pragma unroll
    for (int i = 0; i < W; ++i) to[i] = __uint_as_float(from.words[i]);
  } else if constexpr (W == 1) {
    to[0] = __uint_as_float(static_cast<unsigned>(from.words[0]) << 16);
  } else {  // two bf16 in a word
#pragma unroll
    for (int i = 0; i < W / 2; ++i) {
      to[2 * i] = __uint_as_float(from.words[i] << 16);
      to[2 * i + 1] = __uint_as_float(from.words[i] & 0xffff0000u);
    }
  }
}

/// Returns two numbers, rounded to bf16, as a word; the first is in the low half.
__device__ __forceinline__ unsigned pair_of(float first, float second) {
  const __nv_bfloat162_raw pair = __floats2bfloat162_rn(first, second);
  return static_cast<unsigned>(pair.x) | static_cast<unsigned>(pair.y) << 16;
}

/// Returns a piece of 16 bytes of numbers, rounded to the dtype.
template <class T>
__device__ __forceinline__ Packed<T, 16 / sizeof(T)> packed_piece(
    const float (&x)[16 / sizeof(T)]) {
  Packed<T, 16 / sizeof(T)> to;
#pragma unroll
  for (int i = 0; i < to.kWords; ++i) {
    if constexpr (sizeof(T) == sizeof(float)) {
      to.words[i] = __float_as_uint(x[i]);
    } else {
      to.words[i] = pair_of(x[2 * i], x[2 * i + 1]);
    }
  }
  return to;
}

/// Writes 16 bytes, as one access for certain: the compiler may take a plain store after branches
/// apart.
__device__ __forceinline__ void store_words(void* to, unsigned a, unsigned b, unsigned c,
                                            unsigned d) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}
/// Writes 16 bytes of elements, rounded to the dtype.
__device__ __forceinline__ void store_piece(float* to, const float (&x)[4]) {
  store_words(to, __float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]),
              __float_as_uint(x[3]));
}
__device__ __forceinline__ void store_piece(__nv_bfloat16* to, const float (&x)[8]) {
  store_words(to, pair_of(x[0], x[1]), pair_of(x[2], x[3]), pair_of(x[4], x[5]),
              pair_of(x[6], x[7]));
}

/// Hides from the compiler where the words came from: it would rather keep what they were made of.
template <class T, int W>
__device__ __forceinline__ void keep(Packed<T, W>& packed) {
#pragma unroll
  for (unsigned& word : packed.words) asm volatile("" : "+r"(word));
}

}  // namespace strata::cuda
