// Steps of a tiny model without a session: what tests of the layers from stores to schedule need of
// a run. There is one rank, on a cpu device, with the memory that the rules give it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "strata/data/batch.h"
#include "strata/data/token_source.h"
#include "strata/plan/assembly.h"
#include "support/tiny_config.h"

namespace strata::test {

class TinyAssembly {
 public:
  /// Puts everything together for synthetic tokens and initialises the weights.
  explicit TinyAssembly(const RunConfig& config);
  /// Waits for the work in flight, which refers to members.
  ~TinyAssembly();
  TinyAssembly(const TinyAssembly&) = delete;
  TinyAssembly& operator=(const TinyAssembly&) = delete;

  /// Submits the steps from `begin` up to `end`, each at optimizer.lr.
  void submit(std::int64_t begin, std::int64_t end);
  /// Submits pending updates and waits for everything.
  void synchronize();
  /// Tells the observer of all later updates.
  void observe(UpdateObserver& observer);

  [[nodiscard]] TrainingState& state() { return assembly_->state(); }
  [[nodiscard]] Device& device() { return *backend_.device; }
  /// Returns losses and norms of the steps that are over.
  [[nodiscard]] const std::vector<StepOutcome>& outcomes() const { return outcomes_; }

 private:
  RunConfig config_;
  std::unique_ptr<Ranks> ranks_ = make_self_ranks();
  Backend backend_;
  std::unique_ptr<Collectives> collectives_;
  SyntheticTokens tokens_;
  std::unique_ptr<BatchLoader> loader_;
  Setup setup_;
  std::vector<StepOutcome> outcomes_;  ///< written by the host lane
  std::unique_ptr<Assembly> assembly_;
};

}  // namespace strata::test
