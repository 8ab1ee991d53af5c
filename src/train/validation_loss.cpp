// Losses of passes are added on the host lane, in the order of the passes. validation_loss.h is the
// contract.

#include "train/validation_loss.h"

#include <array>

namespace strata {

void ValidationLoss::submit(TrainingEngine& engine, std::int64_t passes, std::int64_t host_slots,
                            const Fill& fill, const std::function<void()>& may_end,
                            WorkProgress* work) {
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    may_end();
    const int slot = static_cast<int>(pass % host_slots);
    valid_sum_ += static_cast<double>(fill(pass, engine.batches().host(slot)));
    engine.schedule().evaluate(slot,
                               [sum = loss_sum_](const LossSums& sums) { *sum += sums.loss; });
    count_work(work, 1);
  }
}

double ValidationLoss::mean(Ranks& ranks) const {
  std::array<double, 2> sums{*loss_sum_, valid_sum_};
  ranks.all_reduce_sum(sums, Channel::kSubmit);
  return sums[1] > 0 ? sums[0] / sums[1] : 0.0;
}

}  // namespace strata
