// The norms of directions that several ranks have parts of. A norm has the bits that one rank with
// the whole direction would find: ranks exchange the partial sums of SquaredNorm, and the elements
// of those blocks of it that shards cut. The updater of Muon on several ranks calls it on the
// submitting thread, and no call blocks.

#pragma once

#include <cstdint>

#include "optimizer/matrix_deal.h"
#include "strata/optimizer/updater.h"

namespace strata {

class MatrixNorms {
 public:
  /// Returns how many f64 values a rank says of a matrix.
  [[nodiscard]] static std::int64_t said_values(const DealtMatrix& matrix);
  /// Returns how many f64 values are put together from what all ranks say of it.
  [[nodiscard]] static std::int64_t known_values(const DealtMatrix& matrix);

  /// `at_home`, pinned, and `on_device` are [ranks, said_values(any matrix)] f64, and `known`, on
  /// the host, is [known_values(any matrix)] f64.
  MatrixNorms(const UpdaterParts& parts, const TensorView& at_home, const TensorView& on_device,
              const TensorView& known);

  /// Submits what measures a direction, of which `u`, A, is this rank's part on the host lane, or
  /// absent. All ranks call it. Returns the partial sums of the whole, which this rank can read on
  /// the host lane until the next call if it has a part.
  ConstTensorView measure(const DealtMatrix& matrix, const TensorView& u, const Tag& tag);

 private:
  [[nodiscard]] TensorView said_by(const DealtMatrix& matrix, int rank,
                                   const TensorView& place) const;
  void measure_own(const DealtMatrix& matrix, const TensorView& u, const Tag& tag) const;
  void exchange(const DealtMatrix& matrix, const Tag& tag);
  void complete(const DealtMatrix& matrix, const Tag& tag) const;

  UpdaterParts p_;
  int rank_;
  int ranks_;
  TensorView at_home_, on_device_, known_;
  Event gathered_;  ///< the last exchange
  Event read_;      ///< what it brought is home
};

}  // namespace strata
