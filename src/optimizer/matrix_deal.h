// Deals the matrices of a block out to the ranks that share its state: each one is orthogonalised
// by one rank, while its elements lie in the shards of one or several. Ranks work it out alone and
// come to the same result. The updater of Muon on several ranks makes the deal of each block once,
// before the first step.

#pragma once

#include <cstdint>
#include <vector>

#include "strata/optimizer/parameter_groups.h"

namespace strata {

/// Elements [begin, end) of a matrix, or blocks of SquaredNorm of its elements.
struct MatrixRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t count() const { return end - begin; }
};

/// A matrix, who works on it and who has its elements.
struct DealtMatrix {
  const ParameterRun* run = nullptr;
  int worker = 0;                        ///< the rank that orthogonalises it
  std::int64_t place = 0;                ///< its first element among those that the worker has
  std::int64_t shard_elements = 0;       ///< of the block
  std::vector<std::int64_t> cut_blocks;  ///< blocks of SquaredNorm with elements of several ranks

  [[nodiscard]] std::int64_t elements() const { return run->rows * run->segment->cols; }
  /// Returns the elements that a rank's shard has.
  [[nodiscard]] MatrixRange part(int rank) const;
  /// Returns the rank whose shard has an element.
  [[nodiscard]] int rank_of(std::int64_t element) const;
  /// Returns whether several ranks have elements.
  [[nodiscard]] bool is_cut() const { return rank_of(0) != rank_of(elements() - 1); }
  /// Returns the elements of a block of SquaredNorm, the last of which may be short.
  [[nodiscard]] MatrixRange block(std::int64_t index) const;
  /// Returns the blocks of SquaredNorm of which a rank has all elements.
  [[nodiscard]] MatrixRange whole_blocks(int rank) const;
};

/// The matrices of a block in order, with about the same work for each rank.
struct MatrixDeal {
  MatrixDeal() = default;
  /// Shards have `shard_elements` each. `runs` outlive the deal.
  MatrixDeal(const std::vector<ParameterRun>& runs, std::int64_t shard_elements, int ranks);

  std::vector<DealtMatrix> matrices;
  std::int64_t work_elements = 0;  ///< room for what a rank works on, the same for all
};

}  // namespace strata
