// The passes of host threads over the state of matrices that Muon updates (Jordan et al., 2024):
// one makes a direction of gradient and moment, one brings it to the norm of 1, and one steps along
// what the device makes of it. Updaters submit them on the host lane, for a matrix or for a part of
// one: every element gets the same bits either way.
#pragma once

#include <cstdint>

#include "strata/base/thread_pool.h"
#include "strata/optimizer/updater.h"

namespace strata {

/// Submits the passes, in the letters of MuonUpdater. No call blocks.
class MuonPasses {
 public:
  /// This is memory for parts of up to so many elements.
  struct Memory {
    Memory() = default;
    Memory(DType compute, std::int64_t most_elements, Allocator& memory);

    std::byte* numbers = nullptr;  ///< pageable: Numbers
    TensorView direction;          ///< pageable, [most_elements] A: u
  };

  /// `pool` has the threads of the host lane's tasks. It and the owner of the memory outlive the
  /// passes.
  MuonPasses(const UpdaterParts& parts, const Memory& memory, double momentum, ThreadPool& pool);

  /// Submits what makes the direction of `n` elements of a block, from `begin` on, and their new
  /// moments. Returns u, [n] A, which the next of these calls overwrites.
  TensorView make_direction(BlockId block, std::int64_t begin, std::int64_t n,
                            const Tag& tag) const;
  /// Submits what writes x, [n] X. `partials` are those of SquaredNorm of the whole matrix that u
  /// is of.
  void normalize(const TensorView& u, const ConstTensorView& partials, const TensorView& x,
                 const Tag& tag) const;
  /// Submits the step of elements of a matrix, from `begin` of the block on, along `o`, [n] X.
  void apply(BlockId block, const ParameterRun& matrix, std::int64_t begin,
             const ConstTensorView& o, const Tag& tag) const;

  /// Takes, on the host lane, the numbers of the step.
  void settle(const AdamWScalars& actual);
  /// Returns what settle() writes.
  [[nodiscard]] ByteRange numbers() const;

 private:
  /// Host tasks read these.
  struct Numbers {
    AdamWScalars direct;  ///< by which m and u are made
    AdamWScalars apply;   ///< by which o is applied
  };

  [[nodiscard]] Momentum operator_of(BlockId block, std::int64_t begin) const;

  UpdaterParts p_;
  TensorView direction_;
  double momentum_;
  ThreadPool& pool_;
  Numbers* numbers_ = nullptr;  ///< host lane only
};

}  // namespace strata
