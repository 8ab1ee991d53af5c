#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "strata/model/config.h"
#include "strata/model/ids.h"

namespace strata {

/// A tensor as Hugging Face names it, that fills consecutive rows of a segment.
struct SourceTensor {
  std::string name;  ///< e.g. "model.layers.3.self_attn.q_proj.weight"
  std::int64_t rows = 0;
};

enum class Initializer : std::uint8_t { kNormal, kOnes };

/// One parameter matrix (or vector, as one row) inside a block.
struct Segment {
  std::string name;         ///< e.g. "layers.3.qkv"
  std::int64_t offset = 0;  ///< elements from the beginning of the block, a multiple of kAlignment
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  bool decay = true;  ///< false: never decayed unless optimizer.decay_norms (norm weights)
  Initializer initializer = Initializer::kNormal;
  std::vector<SourceTensor> sources;  ///< [rows, cols] in all, one below the other

  static constexpr std::int64_t kAlignment = 64;
  [[nodiscard]] std::int64_t elements() const { return rows * cols; }
};

enum class UnitKind : std::uint8_t { kEmbedding, kLayer, kHead };

/// The parameters that live, travel and are updated together: one flat run of elements on the host,
/// sharded over the ranks.
struct Block {
  std::string name;
  UnitKind kind = UnitKind::kLayer;  ///< of the unit that it belongs to
  std::vector<Segment> segments;
  std::int64_t elements = 0;  ///< alignment gaps included

  /// Elements of one rank's shard: equal on all ranks, padded at the end of the last.
  [[nodiscard]] std::int64_t shard_elements(int ranks) const;
  [[nodiscard]] std::int64_t padded_elements(int ranks) const {
    return shard_elements(ranks) * ranks;
  }
};

/// What streams: a run of consecutive operators with the blocks whose weights they read. Tied
/// embeddings: the head also reads the embedding's block.
struct Unit {
  UnitKind kind = UnitKind::kLayer;
  int layer = -1;  ///< 0-based, for kLayer
  std::vector<BlockId> blocks;
};

/// Units in forward order: embedding, layers, head; every unit has one block of its own, in the
/// same order.
struct ModelLayout {
  PerBlock<Block> blocks;
  PerUnit<Unit> units;

  [[nodiscard]] int layers() const { return static_cast<int>(units.size()) - 2; }
  [[nodiscard]] UnitId embedding() const { return UnitId(0); }
  [[nodiscard]] UnitId unit_of_layer(int layer) const { return UnitId(layer + 1); }
  [[nodiscard]] UnitId head() const { return units.last(); }
  /// The block of the first layer, which stands for all of them: layers are equal.
  [[nodiscard]] BlockId first_layer_block() const { return BlockId(1); }
  /// How many units add to the gradient of this block in one pass (2 for a tied embedding).
  [[nodiscard]] int gradient_sources(BlockId block) const;
};

[[nodiscard]] ModelLayout make_layout(const LlamaConfig& config);

/// Consecutive elements of a block that come from consecutive elements of one source tensor.
struct SourceRun {
  const Segment* segment = nullptr;
  const SourceTensor* source = nullptr;
  std::int64_t source_begin = 0;  ///< element in the source tensor
  std::int64_t block_begin = 0;   ///< element in the block
  std::int64_t count = 0;
};
/// The runs that fill elements [begin, end) of a block, in order, none longer than `longest`;
/// alignment gaps and padding belong to no run.
[[nodiscard]] std::vector<SourceRun> source_runs(const Block& block, std::int64_t begin,
                                                 std::int64_t end, std::int64_t longest);

}  // namespace strata
