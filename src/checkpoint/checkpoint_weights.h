// The weights of a checkpoint, as their masters or rounded: low halves are joined to bf16 weights.
// Every window of a file is read and verified once. Both kinds of exports read through this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "strata/base/dtype.h"
#include "strata/checkpoint/checkpoint_folder.h"
#include "strata/checkpoint/checkpoint_layout.h"
#include "strata/checkpoint/files.h"
#include "strata/checkpoint/manifest.h"
#include "strata/checkpoint/window_buffers.h"
#include "strata/model/config.h"
#include "strata/model/layout.h"

namespace strata {

/// Reads blocks of a checkpoint, many at a time. Throws IoError that names the file that is
/// damaged, missing or of another model.
class CheckpointWeights {
 public:
  /// The windows that a thread holds: one of weights and one of low halves.
  static constexpr std::size_t kWindowsOfThread = 2;
  /// The same and one that is written.
  static constexpr std::size_t kWindowsOfExport = kWindowsOfThread + 1;

  /// `buffers` have kHashWindow bytes each. All references outlive this. Throws IoError if the
  /// checkpoint has not the files of this model.
  CheckpointWeights(const Files& files, const FoundCheckpoint& checkpoint, const LlamaConfig& model,
                    WindowBuffers& buffers);
  /// Makes one that reads what the checkpoint holds of this layout: of a model with adapters, those
  /// alone.
  CheckpointWeights(const Files& files, const FoundCheckpoint& checkpoint,
                    const ModelLayout& layout, WindowBuffers& buffers);

  /// Throws IoError if the checkpoint does not have weights in this dtype, or more exact ones: f32
  /// where bf16 weights are alone.
  void require(DType dtype) const;
  /// Reads the files of the model that hold no weights, and compares them with the manifest.
  void verify_small_files() const;

  /// Fills `out` with elements of a block from `begin` on, in some dtype. It belongs to one thread,
  /// and is called with ascending elements.
  using Fill = std::function<void(std::int64_t begin, std::span<std::byte> out)>;
  /// Returns what fills memory with the weights of a block as f32 or bf16: as the checkpoint holds
  /// them where it has this dtype, else rounded to nearest (f64 to bf16 through f32). bf16 weights
  /// that are alone are widened.
  [[nodiscard]] Fill fill(BlockId block, DType dtype) const;

 private:
  struct Sources;

  [[nodiscard]] const Manifest& manifest() const { return checkpoint_.manifest; }
  [[nodiscard]] const CheckpointTypes& types() const { return manifest().types; }
  [[nodiscard]] const ManifestFile& entry(const StateFile& file) const;
  void convert_elements(Sources& sources, DType to, std::int64_t begin,
                        std::span<std::byte> out) const;

  const Files& files_;
  const FoundCheckpoint& checkpoint_;
  WindowBuffers& buffers_;
  std::map<std::string, const ManifestFile*, std::less<>> files_of_;
  CheckpointLayout layout_;
};

}  // namespace strata
