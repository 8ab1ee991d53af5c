// Where every byte of the training state lies in a checkpoint's files. A block has two safetensors
// files: its weights under their Hugging Face names in model/, and low halves and moments, flat and
// in the block's own order, in state/. The layout depends on the model and on dtypes alone, so any
// number of ranks writes it together and any other number reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/base/dtype.h"
#include "strata/model/layout.h"
#include "strata/ops/moment_codes.h"

namespace strata {

/// The tensors of a block that a checkpoint holds.
enum class StatePart : std::uint8_t { kWeight, kLow, kM, kV, kScale };
/// Returns how many elements of a block an entry of a part is of: of scales, a block of codes.
[[nodiscard]] constexpr std::int64_t elements_of_entry(StatePart part) {
  return part == StatePart::kScale ? kMomentBlock : 1;
}

/// Entries of one part of a block, of an element each but for scales, that lie one behind the other
/// in the block and in a file.
struct FileRun {
  StatePart part = StatePart::kWeight;
  std::int64_t begin = 0;    ///< first entry in the block
  std::int64_t count = 0;    ///< entries
  std::uint64_t offset = 0;  ///< of the first one in the file, bytes from its beginning
};

/// One file of a checkpoint that holds state. Its tensors begin at header.size(), a multiple of
/// kFileAlignment.
struct StateFile {
  std::string path;           ///< in the checkpoint's folder, such as "state/layers.3.safetensors"
  std::string header;         ///< the safetensors header with its length, filled with spaces
  std::vector<FileRun> runs;  ///< by offset; without gaps, but for the ends of flat tensors, which
                              ///< are zeros up to the next multiple of kFileAlignment
  std::uint64_t bytes = 0;    ///< of the whole file
};

/// The files of one block. `model` has the weights without the gaps that align segments in memory;
/// `state` has "low" (where bf16 weights are split), "m", "v" if there are two moments, and "scale"
/// if they are codes. A block that nobody trains has none.
struct BlockFiles {
  StateFile model;                 ///< its path is empty where nobody trains the block
  std::optional<StateFile> state;  ///< absent where weights are alone

  /// Returns those that there are.
  [[nodiscard]] std::vector<const StateFile*> files() const;
};

/// The dtypes in which a checkpoint holds state.
struct CheckpointTypes {
  DType weight = DType::kBF16;  ///< bf16, f32 or f64
  /// kMomentCode, bf16, f32 or f64; absent where weights are alone, also without their low halves.
  std::optional<DType> moment = DType::kF32;
  int moments = 2;    ///< that a parameter has: m, and v if there are two
  bool split = true;  ///< bf16 weights have low halves in i16, where they are not alone
  bool operator==(const CheckpointTypes&) const = default;
  /// Returns these without all but the weights: what a model is, and no run can go on from.
  [[nodiscard]] CheckpointTypes weights_alone() const { return {.weight = weight, .moment = {}}; }
  [[nodiscard]] bool are_weights_alone() const { return !moment; }
  /// Returns the bytes of an entry of a part, 0 if there is no such part.
  [[nodiscard]] std::size_t bytes_of(StatePart part) const;
};

/// All files of a checkpoint that hold state.
struct CheckpointLayout {
  CheckpointTypes types;
  PerBlock<BlockFiles> blocks;
  /// Returns the bytes of all files.
  [[nodiscard]] std::uint64_t bytes() const;
};

/// Returns the layout of a model's checkpoints. Files in model/ are numbered as Hugging Face does,
/// one for each block: "model/model-00001-of-00034.safetensors"; those in state/ have the block's
/// name. Files in model/ are the same whether weights are alone or not. Where adapters are trained
/// they and what is trained beside them have files alone, "adapter/layers.3.safetensors" and
/// "adapter/head.safetensors" in place of those in model/.
[[nodiscard]] CheckpointLayout make_checkpoint_layout(const ModelLayout& layout,
                                                      const CheckpointTypes& types);

/// Consecutive bytes of a file that one rank owns, with what they hold.
struct FileSlice {
  std::uint64_t begin = 0;  ///< bytes from the beginning of the file
  std::uint64_t end = 0;
  std::vector<FileRun> runs;  ///< by offset, within [begin, end); what they leave out are zeros
};
/// Returns the slices of a file that rank `rank` of `ranks` owns, by begin: what its shard of the
/// block has of each run, and of the last rank that has any of a flat tensor the zeros behind it
/// too. All slices of all ranks cover everything behind the header, once. None is empty, and none
/// begins where the one before it ends.
[[nodiscard]] std::vector<FileSlice> slices_of(const StateFile& file, const Block& block, int rank,
                                               int ranks, const CheckpointTypes& types);

}  // namespace strata
