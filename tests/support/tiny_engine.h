// Steps of a tiny model without a session: what tests of the layers from stores to plan need of a
// run. One rank's backend, synthetic tokens, placement and engine are put together as a session
// puts them together; there are no data files, no tuned products and nothing to measure.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "strata/data/batch.h"
#include "strata/data/token_source.h"
#include "strata/engine/training_engine.h"
#include "strata/plan/setup.h"
#include "support/tiny_config.h"

namespace strata::test {

/// What tests watch and replace. Each may be left out.
struct TinyHooks {
  TraceSink* trace = nullptr;                       ///< may be null; must outlive the engine
  std::optional<WaitFor> omit_wait = std::nullopt;  ///< left out, to test that races are found
  /// Fills the batch of a pass instead of the synthetic tokens (step 0, pass 0 for an evaluation),
  /// and returns the number of valid targets.
  std::function<std::int64_t(std::int64_t step, int pass, const BatchOptions&, const PassBuffers&)>
      fill = nullptr;
  /// Makes the backend instead of make_backend().
  std::function<Backend(BackendKind, const BackendOptions&)> make_backend = nullptr;
};

class TinyEngine {
 public:
  /// Puts one rank together on the cpu backend, or on the GPU if the config names it, and
  /// initialises the weights. `ranks` outlives the engine; all ranks call it.
  TinyEngine(const RunConfig& config, Ranks& ranks, const TinyHooks& hooks = {});
  /// Waits for the work in flight, which refers to members; an error of that work is lost.
  ~TinyEngine();
  TinyEngine(const TinyEngine&) = delete;
  TinyEngine& operator=(const TinyEngine&) = delete;

  /// Submits a step. Throws what an earlier step's work threw.
  void submit(std::int64_t step, double lr);
  /// Submits the steps from `begin` up to `end`, each at optimizer.lr.
  void submit_steps(std::int64_t begin, std::int64_t end);
  /// Submits pending updates and waits for everything.
  void synchronize();
  /// Returns losses and norms of the steps that have ended since the last call. All work is done:
  /// synchronize() comes before it.
  [[nodiscard]] std::vector<StepOutcome> take_outcomes();
  /// Returns what the steps that have ended since the last call have counted.
  [[nodiscard]] std::vector<Fp8StepCounts> take_fp8_counts() { return engine_->take_fp8_counts(); }
  /// Returns the mean loss of a token of the batch that `fill` of the hooks says, with all pending
  /// updates done.
  [[nodiscard]] double evaluate();
  /// Tells the observer of all later updates.
  void observe(UpdateObserver& observer);

  [[nodiscard]] RankGroups& groups() { return groups_; }
  [[nodiscard]] const RunConfig& config() const { return config_; }
  [[nodiscard]] const Setup& setup() const { return setup_; }
  [[nodiscard]] Device& device() { return *backend_.device; }
  [[nodiscard]] TrainingState& state() { return engine_->state(); }
  [[nodiscard]] const WeightStore& weights() const { return engine_->weights(); }
  [[nodiscard]] const GradientStore& gradients() const { return engine_->gradients(); }
  [[nodiscard]] std::vector<const Arena*> arenas() const { return engine_->arenas(); }

 private:
  std::int64_t fill(std::int64_t step, int pass, const PassBuffers& buffers);

  RunConfig config_;
  Ranks& ranks_;
  TinyHooks hooks_;
  RankGroups groups_;
  Backend backend_;
  GroupCollectives collectives_;
  SyntheticTokens tokens_;
  BatchLoader loader_;
  Setup setup_;
  std::vector<StepOutcome> outcomes_;  ///< written by the host lane
  std::unique_ptr<TrainingEngine> engine_;
};

}  // namespace strata::test
