// This file brings rows of logits to shared memory, where they stay until their gradient is
// written: the ring of the persistent kernels of cross_entropy.cu.

#pragma once

#include <cstdint>

#include "kernels/cuda/common/copy_async.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/rows/cross_entropy_rows.cuh"
#include "kernels/cuda/rows/cross_entropy_softmax.cuh"
#include "kernels/cuda/rows/row_rings.h"

namespace strata::cuda::cross_entropy {

template <class T>
using Vector16 = Packed<T, kWide<T>>;

__device__ __forceinline__ void store_shared(std::uint32_t to, unsigned word) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(word) : "memory");
}
template <class T>
__device__ __forceinline__ Vector16<T> load_shared(std::uint32_t from) {
  Vector16<T> x;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.words[0]), "=r"(x.words[1]), "=r"(x.words[2]), "=r"(x.words[3])
               : "r"(from)
               : "memory");
  return x;
}

/// The pieces of this thread in all rows, in order, on their way through shared memory; what a
/// piece has after its row's end is -infinity. A thread reads what it copied itself, so there are
/// no barriers. Every piece is a group of copies.
template <class T, class R>
class Ring {
  static constexpr int kThreads = R::kThreads;

 public:
  /// Starts as many pieces as there is room for.
  __device__ Ring(const Arguments<T>& p, unsigned char* shared) : walk_(p) {
    const auto begin = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
    // The asm hides the address, since the compiler would rather work it out again for every piece.
    asm volatile("mov.u32 %0, %1;" : "=r"(base_) : "r"(begin + threadIdx.x * 16));
    enter();
    for (int i = 0; i < R::kSlots; ++i) replace_oldest();
  }

  /// Loads the piece that is `ahead` of the oldest one in the ring; its group must have arrived.
  __device__ __forceinline__ void load(int ahead, Vector16<T> (&piece)[kVectors]) const {
    const int slot = oldest_ + ahead * kPieceBytes;
    const std::uint32_t at = base_ + (slot < kRingBytes ? slot : slot - kRingBytes);
#pragma unroll
    for (int j = 0; j < kVectors; ++j) piece[j] = load_shared<T>(at + j * kThreads * 16);
  }
  /// Says that the oldest piece is done with: its place goes to the next one that is not in the
  /// ring.
  __device__ __forceinline__ void replace_oldest() {
    if (left_ > 0) {
      start_piece();
      if (--left_ == 0) {
        walk_.advance();
        enter();
      }
    }
    end_copy_group();
    oldest_ = oldest_ + kPieceBytes < kRingBytes ? oldest_ + kPieceBytes : 0;
  }

 private:
  static constexpr int kPieceBytes = R::kPieceBytes;
  static constexpr int kRingBytes = R::kRingBytes;
  static constexpr int kApart = Part<T, kThreads>::kApart;

  /// Makes the first piece of the row that the walk has come to the next one to start.
  __device__ __forceinline__ void enter() {
    if (walk_.done()) return;
    left_ = walk_.part().pieces;
    room_ = walk_.part().room;
    next_ = walk_.row() + walk_.part().first;
  }
  __device__ __forceinline__ void start_piece() {
    constexpr unsigned kLowest = sizeof(T) == sizeof(float) ? 0xff800000 : 0xff80ff80;  // -infinity
    const std::uint32_t at = base_ + oldest_;
    if (room_ > (kVectors - 1) * kApart) {
#pragma unroll
      for (int j = 0; j < kVectors; ++j) start_copy(at + j * kThreads * 16, next_ + j * kApart);
    } else {
#pragma unroll
      for (int j = 0; j < kVectors; ++j) {
        if (room_ > j * kApart) {
          start_copy(at + j * kThreads * 16, next_ + j * kApart);
        } else {
          store_shared(at + j * kThreads * 16, kLowest);
        }
      }
    }
    next_ += kVectors * kApart;
    room_ -= kVectors * kApart;
  }

  RowWalk<T, kThreads> walk_;
  std::uint32_t base_;  ///< the address of the thread's places
  int oldest_ = 0;      ///< bytes from base_ to the oldest piece
  int left_ = 0;        ///< pieces of the row that are not started yet
  int room_ = 0;        ///< columns from the next piece to the end of the share
  const T* next_ = nullptr;
};

/// Adds a piece to the sum of its thread.
template <class T>
__device__ __forceinline__ void add_piece(const Vector16<T> (&piece)[kVectors],
                                          RunningSoftmax<T>& own) {
  float largest = largest_of(piece[0]);
#pragma unroll
  for (int j = 1; j < kVectors; ++j) largest = fmaxf(largest, largest_of(piece[j]));
  own.look_at(largest);
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    float x[kWide<T>];
    unpack(piece[j], x);
    own.add(x);
  }
}

}  // namespace strata::cuda::cross_entropy
