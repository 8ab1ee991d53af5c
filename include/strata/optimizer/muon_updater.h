// Updates the matrices of layers by Muon (Jordan et al., "Muon: An optimizer for hidden layers in
// neural networks", 2024), with AdamW's learning rates and decoupled decay (Liu et al., "Muon is
// scalable for LLM training", 2025). The state stays on the host: host threads make a direction of
// a matrix's gradient and moment, which visits the device, where its singular values are brought
// near 1, and apply it when it is back. Everything else in these blocks is updated by elements.
// BlockUpdates makes the updater and calls it on the submitting thread.

#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "strata/optimizer/muon_passes.h"
#include "strata/optimizer/newton_schulz.h"
#include "strata/optimizer/updater.h"

namespace strata {

/// Updates the blocks of rows whose `updated_by` is kMuon, which one rank has whole. Of each tensor
/// that is a matrix, [rows, columns], with g the clipped gradient:
///   m = fma(momentum, m, g),  u = fma(momentum, m, g)
///   x = u (1 / max(|u|, 1e-7)), the factor rounded to A, x to X; |u| is the Frobenius norm
///   o = what Newton-Schulz steps leave of x
///   w = fma(-(lr * weight_decay), w, w),  w = fma(-lr * 0.2 * sqrt(max(rows, columns)), o, w)
/// Masters, moments and their rounding are those of Momentum (strata/ops/optimizer.h).
class MuonUpdater final : public Updater {
 public:
  /// This is memory for the largest matrices of the rows. Two of them are on their way at once.
  struct Memory {
    Memory(const ModelLayout& layout, const StatePlan& plan, Allocator& memory);

    MuonPasses::Memory passes;
    TensorView partials;                  ///< pageable, f64: of its squared norm
    std::array<TensorView, 2> at_home;    ///< pinned, [elements] X: x, then o
    std::array<TensorView, 2> on_device;  ///< device, [elements] X: likewise
    NewtonSchulzScratch scratch;          ///< device
  };

  /// `pool` has the threads of the host lane's tasks. It and the owner of the memory outlive the
  /// updater.
  MuonUpdater(const UpdaterParts& parts, const Memory& memory, double momentum, ThreadPool& pool);

  /// Submits the updates of the block's matrices and of all else in it.
  void before_load(BlockId block, Event decided, const Tag& tag) override;
  [[nodiscard]] bool settle(const AdamWScalars& actual) override;
  [[nodiscard]] std::optional<ByteRange> numbers() const override;

 private:
  /// A matrix whose direction is on its way.
  struct Travel {
    const ParameterRun* run = nullptr;
    TensorView direction;  ///< pinned, [elements] X
    Event home;            ///< when o is there
  };

  [[nodiscard]] Travel send(BlockId block, const ParameterRun& run, std::size_t place,
                            const Tag& tag) const;
  void apply(BlockId block, const Travel& back, const Tag& tag) const;

  Memory memory_;
  MuonPasses passes_;
};

}  // namespace strata
