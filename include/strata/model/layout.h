// How the parameters of a model lie in memory and who reads them. A block is a run of parameters
// that lives, travels and is updated together; a unit is what computes (embedding, layer, head)
// with the blocks whose weights it reads. make_layout lists both once; stores and updaters move
// blocks, the schedule walks units, and unit_views turns a unit's blocks into tensors.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "strata/model/ids.h"
#include "strata/model/spec.h"

namespace strata {

/// What a parameter is before training.
enum class Initializer : std::uint8_t {
  kNormal,    ///< normal random numbers, as matrices
  kOnes,      ///< 1, as weights of norms
  kZeros,     ///< 0, as biases
  kAdapterA,  ///< uniform random numbers within 1 / sqrt(cols), as A of an adapter
  kAdapterB,  ///< 0, as B of an adapter
};

/// Returns whether a parameter is one of an adapter, which is in no file of the model.
[[nodiscard]] constexpr bool is_of_adapter(Initializer initializer) {
  return initializer == Initializer::kAdapterA || initializer == Initializer::kAdapterB;
}

/// One parameter matrix inside a block. The weight of a norm is a matrix of one row, a bias one of
/// one column.
struct Segment {
  std::string name;         ///< the block's and its own, e.g. "layers.3.qkv"
  std::int64_t offset = 0;  ///< elements from the beginning of the block, a multiple of kAlignment
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  bool decay = true;  ///< false for norm weights and biases: only optimizer.decay_norms decays them
  Initializer initializer = Initializer::kNormal;
  std::vector<SourceTensor> sources;  ///< one below the other, [rows, cols] together

  static constexpr std::int64_t kAlignment = 64;
  [[nodiscard]] std::int64_t elements() const { return rows * cols; }
  /// Returns the shape that one of the sources has in a Hugging Face model.
  [[nodiscard]] std::vector<std::int64_t> shape_of(const SourceTensor& source) const;
};

enum class UnitKind : std::uint8_t { kEmbedding, kLayer, kHead };

/// Parameters that live, travel and are updated together: one flat run of elements, cut into one
/// shard per rank.
struct Block {
  std::string name;
  UnitKind kind = UnitKind::kLayer;  ///< of the unit that it belongs to
  UnitId unit{};                     ///< that it belongs to
  bool adapter = false;              ///< it has the adapters of a layer, else what they adapt
  bool whole = false;                ///< it is trained beside adapters, as ModelSpec::whole says
  std::vector<Segment> segments;
  std::int64_t elements = 0;  ///< with the gaps that align segments, without padding for ranks

  /// Returns whether files of adapters hold it, not those of the model that they adapt.
  [[nodiscard]] bool is_beside_base() const { return adapter || whole; }
  /// Returns the elements of one rank's shard. Shards are equal on all ranks; the last is padded at
  /// its end.
  [[nodiscard]] std::int64_t shard_elements(int ranks) const;
  /// Returns the elements of all shards together.
  [[nodiscard]] std::int64_t padded_elements(int ranks) const {
    return shard_elements(ranks) * ranks;
  }
};

/// What computes: consecutive operators with the blocks whose weights they read. The head of a
/// model with tied embeddings reads the embedding's block after its own.
struct Unit {
  UnitKind kind = UnitKind::kLayer;
  int layer = -1;               ///< from 0 on, of a kLayer
  std::vector<BlockId> blocks;  ///< its own first
};

/// The blocks and units of a model. Units are in forward order: embedding, layers, head; layer l is
/// unit l + 1. The first blocks are those of units, one of each in the same order. If of norm and
/// projection one is trained beside adapters and the other one stays, it is a block behind those.
/// Blocks of adapters follow, in the order of the layers that have any. The head may read the
/// embedding's block beside its own.
struct ModelLayout {
  PerBlock<Block> blocks;
  PerUnit<Unit> units;

  [[nodiscard]] int layers() const { return static_cast<int>(units.size()) - 2; }
  [[nodiscard]] UnitId embedding() const { return UnitId(0); }
  [[nodiscard]] UnitId unit_of_layer(int layer) const { return UnitId(layer + 1); }
  [[nodiscard]] UnitId head() const { return units.last(); }
  /// Returns whether adapters are trained, and of other blocks those alone that are `whole`.
  [[nodiscard]] bool adapted() const { return blocks.size() > units.size(); }
  [[nodiscard]] bool is_trained(BlockId block) const {
    return !adapted() || blocks[block].is_beside_base();
  }
  /// Returns the block with the weights of a layer.
  [[nodiscard]] BlockId block_of_layer(int layer) const {
    return units[unit_of_layer(layer)].blocks.front();
  }
  /// Returns how many units add to the gradient of this block in one pass: 2 for a tied embedding,
  /// else 1.
  [[nodiscard]] int gradient_sources(BlockId block) const;
};

/// Return the names, after that of their block, of the segments of a linear's adapters: A of all
/// sources, and B of one.
[[nodiscard]] std::string adapter_segment_a(LinearId id);
[[nodiscard]] std::string adapter_segment_b(LinearId id, std::size_t source);

/// Returns the name that a tensor of a block has in the files of adapters, as PEFT names it.
[[nodiscard]] std::string adapter_tensor(const Block& block, const SourceTensor& source);

/// Returns the layout of a model. Throws as ModelSpec::require_common does.
[[nodiscard]] ModelLayout make_layout(const ModelSpec& spec);

/// Consecutive elements of a block that come from consecutive elements of one source tensor.
struct SourceRun {
  const Block* block = nullptr;
  const Segment* segment = nullptr;
  const SourceTensor* source = nullptr;
  std::int64_t source_begin = 0;  ///< first element in the source tensor
  std::int64_t block_begin = 0;   ///< first element in the block
  std::int64_t count = 0;
};
/// Returns the runs that fill elements [begin, end) of a block, in order, none longer than
/// `longest`. Alignment gaps and padding belong to no run. Runs point to and into `block`.
[[nodiscard]] std::vector<SourceRun> source_runs(const Block& block, std::int64_t begin,
                                                 std::int64_t end, std::int64_t longest);

}  // namespace strata
