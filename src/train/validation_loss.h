// The loss of the validation set under the weights as they are. A session makes one for each
// validation, submits its passes, and asks for the loss when they are done.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "strata/base/work_progress.h"
#include "strata/comm/ranks.h"
#include "strata/engine/training_engine.h"

namespace strata {

class ValidationLoss {
 public:
  /// Fills the buffers of a pass and returns how many of its targets count.
  using Fill = std::function<std::int64_t(std::int64_t pass, const PassBuffers& buffers)>;

  /// Submits so many passes, which take turns in the host slots of the engine's batches. Calls
  /// `may_end` before each, and counts each in `work`, which may be null. The engine has nothing
  /// left to do before.
  void submit(TrainingEngine& engine, std::int64_t passes, std::int64_t host_slots,
              const Fill& fill, const std::function<void()>& may_end, WorkProgress* work);
  /// Returns the mean loss of a target of all ranks, or 0 if none counts. What was submitted is
  /// done. All ranks call it; it blocks.
  [[nodiscard]] double mean(Ranks& ranks) const;

 private:
  // Shared with tasks that may still run when a later pass throws.
  std::shared_ptr<double> loss_sum_ = std::make_shared<double>(0.0);
  double valid_sum_ = 0;
};

}  // namespace strata
