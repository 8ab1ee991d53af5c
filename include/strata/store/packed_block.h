// How a block of weights lies in its home and on its way where it is in 4 bits: which bytes hold
// what of which matrix. Matrices are in 4-bit NormalFloat, one by one as a Hugging Face model has
// them; norms and biases stay in the dtype of the model. The training state writes such blocks, and
// the weight store decodes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "strata/base/tensor.h"
#include "strata/base/thread_pool.h"
#include "strata/model/layout.h"
#include "strata/ops/nf4.h"
#include "strata/store/block_plan.h"

namespace strata {

/// A matrix of a packed block: elements [begin, begin + elements) of the block. The others are
/// bytes from the beginning of the packed block to what DequantizeNf4 reads.
struct PackedMatrix {
  std::int64_t begin = 0;
  std::int64_t elements = 0;
  std::size_t codes = 0;
  std::size_t scales = 0;
  std::size_t groups = 0;
  std::size_t tables = 0;

  /// Returns the operator that decodes it from a packed block to y [elements].
  [[nodiscard]] DequantizeNf4 decode(const std::byte* packed, const TensorView& y) const;
};

/// A norm's weight or a bias of a packed block, in the dtype of the model.
struct UnpackedSegment {
  std::int64_t begin = 0;  ///< first element in the block
  std::int64_t elements = 0;
  std::size_t at = 0;  ///< bytes from the beginning of the packed block
};

/// All that a packed block holds, in this order.
struct PackedBlock {
  std::vector<PackedMatrix> matrices;
  std::vector<UnpackedSegment> segments;
  std::size_t bytes = 0;

  /// Lays out a block whose other weights are in `compute`. The elements of its matrices are
  /// multiples of kNf4Block.
  PackedBlock(const Block& block, DType compute);
};

/// Writes the values of a run of elements. It may be called by many threads at once.
using WeightSource = std::function<void(const SourceRun&, std::vector<double>&)>;

/// Rounds the weights of a block to 4 bits, in parallel. `packed` has PackedBlock::bytes or more;
/// what no matrix and no segment has becomes 0.
void pack_block(const Block& block, DType compute, const WeightSource& source, ThreadPool& pool,
                std::span<std::byte> packed);

/// Returns the dtype of one rank's shard of a block's weights in its home, and how many elements of
/// it the shard has: parameters, or the bytes of a packed block.
struct WeightShape {
  DType dtype = DType::kBF16;
  std::int64_t elements = 0;
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(elements) * size_of(dtype);
  }
  bool operator==(const WeightShape&) const = default;
};
[[nodiscard]] WeightShape weight_shape(const Block& block, Form form, const StatePlan& plan);

}  // namespace strata
