// How a block of weights lies in its home and on its way where it takes fewer bytes than in the
// dtype of the model: which bytes hold what of which matrix. Matrices are rounded one by one as a
// Hugging Face model has them; norms and biases stay as they are. The training state writes such
// blocks, and the weight store decodes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "strata/base/tensor.h"
#include "strata/base/thread_pool.h"
#include "strata/model/layout.h"
#include "strata/model/stored_nf4.h"
#include "strata/ops/nf4.h"
#include "strata/ops/quantize.h"
#include "strata/store/block_plan.h"

namespace strata {

/// A matrix of a packed block, whose elements begin at `begin` of the block. The others are bytes
/// from the beginning of the packed block to what the operator that decodes the matrix reads.
struct PackedMatrix {
  std::int64_t begin = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::size_t codes = 0;
  std::size_t scales = 0;
  std::size_t groups = 0;  ///< in 4 bits
  std::size_t tables = 0;  ///< in 4 bits

  [[nodiscard]] std::int64_t elements() const { return rows * cols; }
};

/// The operator that decodes a matrix.
using MatrixDecoder = std::variant<DequantizeNf4, DequantizeRows>;

/// A norm's weight or a bias of a packed block, in the dtype of the model.
struct UnpackedSegment {
  std::int64_t begin = 0;  ///< first element in the block
  std::int64_t elements = 0;
  std::size_t at = 0;  ///< bytes from the beginning of the packed block
};

/// All that a packed block holds, in this order.
struct PackedBlock {
  Form form = Form::kNf4;
  std::vector<PackedMatrix> matrices;
  std::vector<UnpackedSegment> segments;
  std::size_t bytes = 0;

  /// Lays out a block whose other weights are in `compute`. `form` is not plain; in 4 bits the
  /// elements of each matrix are a multiple of kNf4Block.
  PackedBlock(const Block& block, Form of_matrices, DType compute);

  /// Returns what decodes a matrix of the block that lies at `packed` to y [elements] X.
  [[nodiscard]] MatrixDecoder decoder(const PackedMatrix& matrix, const std::byte* packed,
                                      const TensorView& y) const;
};

/// Where the weights of a block come from.
struct WeightSource {
  /// Writes the values of a run of elements. It may be called by many threads at once.
  std::function<void(const SourceRun&, std::vector<double>&)> read;
  /// Returns the matrix of this name if it is in 4 bits there, else null. Absent where none is.
  std::function<const StoredNf4*(const std::string&)> in_4_bits;
};

/// Rounds the weights of a block to a form that is not plain, in parallel; a matrix that is in this
/// form where it comes from stays as it is. `packed` has PackedBlock::bytes or more; what no matrix
/// and no segment has becomes 0.
void pack_block(const Block& block, Form form, DType compute, const WeightSource& source,
                ThreadPool& pool, std::span<std::byte> packed);

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
