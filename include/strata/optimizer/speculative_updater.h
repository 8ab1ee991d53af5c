// Updates blocks on the host as soon as their gradient is there, as if the step were not clipped,
// and does so again from the old state if it is (Deep Optimizer States, 2024, with an undo log).
// Nobody reads the new weights before the update is confirmed: only then the weight store hears of
// it. BlockUpdates makes it and calls it on the submitting thread, but for expect() and settle().

#pragma once

#include "strata/optimizer/undo_log.h"
#include "strata/optimizer/updater.h"

namespace strata {

/// Updates the blocks of rows whose `updated` is kSpeculated.
class SpeculativeUpdater final : public Updater {
 public:
  SpeculativeUpdater(const UpdaterParts& parts, UndoLog undo)
      : Updater(parts), undo_(std::move(undo)) {}

  /// Saves the old state and submits the early update.
  void arrived(BlockId block, Arrival& arrival, std::optional<Event> decided,
               const Tag& tag) override;
  /// Submits what leaves the early update as it is, or gives the block its old state and the update
  /// that is due. Which of the two happens is known inside host tasks only.
  void decided(BlockId block, Arrival& arrival, Event decided, const Tag& tag) override;

  /// Run on the host lane; see Updater.
  void expect(const AdamWScalars& guess) override { undo_.predict(guess); }
  bool settle(const AdamWScalars& actual) override { return undo_.settle(actual); }
  [[nodiscard]] std::optional<ByteRange> numbers() const override { return undo_.numbers(); }

 private:
  UndoLog undo_;
};

}  // namespace strata
