#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "strata/comm/collectives.h"
#include "strata/comm/ranks.h"
#include "strata/data/batch.h"
#include "strata/ops/backend.h"
#include "strata/plan/assembly.h"
#include "strata/plan/choose_placement.h"
#include "strata/plan/setup.h"
#include "strata/run/startup.h"

namespace strata {

/// Bytes of one rank over the link between host and device.
struct LinkBytes {
  std::size_t weights_in = 0;
  std::size_t activations_in = 0;
  std::size_t out = 0;    ///< gradients and spilled activations
  std::size_t state = 0;  ///< of interleaved units, each way

  friend LinkBytes operator-(const LinkBytes& a, const LinkBytes& b) {
    return {a.weights_in - b.weights_in, a.activations_in - b.activations_in, a.out - b.out,
            a.state - b.state};
  }
};

/// A step that is over, as the submitting thread receives it.
struct FinishedStep {
  StepOutcome outcome;
  std::int64_t valid_tokens = 0;
  double finished_s = 0;  ///< steady clock, when norm and loss were known
  /// Of the host lane since the step before was finished (norms, sums, updates).
  double host_busy_s = 0;
  LinkBytes link{};  ///< that the step submitted
};

/// What a session is watched or tested with.
struct SessionHooks {
  TraceSink* trace = nullptr;                       ///< may be null; must outlive the session
  std::optional<WaitFor> omit_wait = std::nullopt;  ///< test of the race oracle
  /// Fills the batch of a pass instead of the data sets (step 0, pass 0 for a validation); returns
  /// the number of valid targets.
  std::function<std::int64_t(std::int64_t step, int pass, const BatchOptions&, const PassBuffers&)>
      fill = nullptr;
  std::filesystem::path run_folder{};  ///< holds what belongs to the run (plans.json); empty: none
};

/// One rank of a run, from a config to trained weights: builds the machine, puts stores and
/// schedule together on it, and feeds steps. Used by train and bench, and by tests.
class Session {
 public:
  /// Allocates everything and initialises or loads weights. `ranks` must outlive the session.
  /// Throws ConfigError, OutOfMemory, IoError, BackendError.
  Session(const RunConfig& config, Ranks& ranks, const SessionHooks& hooks = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] const Setup& setup() const { return setup_; }
  /// What was chosen by prediction.
  [[nodiscard]] const std::vector<PlacementChoice>& choices() const { return choices_; }
  [[nodiscard]] Device& device() { return *backend_.device; }
  [[nodiscard]] TrainingState& state() { return assembly_->state(); }
  [[nodiscard]] const Llama& model() const { return assembly_->model(); }
  [[nodiscard]] const WeightStore& weights() const { return assembly_->weights(); }
  [[nodiscard]] const GradientStore& gradients() const { return assembly_->gradients(); }
  [[nodiscard]] const ActivationStore& activations() const { return assembly_->activations(); }
  [[nodiscard]] const KeptStore& kept() const { return assembly_->kept(); }
  [[nodiscard]] const OptimizerEngine& optimizer() const { return assembly_->optimizer(); }
  /// Tells `observer`, which outlives the session, of every update from now on. Between steps.
  void observe(UpdateObserver& observer) { assembly_->optimizer().observe(observer); }
  /// All arenas: device, pinned, pageable.
  [[nodiscard]] std::vector<const Arena*> arenas() const { return assembly_->arenas(); }
  /// Submitted so far, evaluations included.
  [[nodiscard]] LinkBytes link_bytes() const;
  [[nodiscard]] const StartupTimes& startup() const { return startup_; }
  [[nodiscard]] bool has_validation() const { return validation_ != nullptr; }
  /// Tokens of all ranks in a step, targets that are ignored included.
  [[nodiscard]] std::int64_t global_tokens_per_step() const;

  /// Reads the step's batch and submits the step. Blocks first until at most one earlier step is
  /// unfinished. Throws what an earlier step's work threw.
  void submit(std::int64_t step, double lr);
  /// Steps that have finished since the last call, in order.
  [[nodiscard]] std::vector<FinishedStep> take_finished();
  /// Mean loss over the validation set (run.eval_batches passes of it), after all pending updates.
  [[nodiscard]] double evaluate();
  /// Waits for everything that was submitted, pending updates included.
  void synchronize();

 private:
  void open_data();
  void plan_products();
  void assemble();
  void step_finished(const StepOutcome& outcome, std::int64_t valid_tokens);

  RunConfig config_;
  Ranks& ranks_;
  SessionHooks hooks_;
  Backend backend_;
  std::unique_ptr<Collectives> collectives_;
  Setup setup_;
  std::vector<PlacementChoice> choices_;
  std::unique_ptr<TokenSource> train_source_, validation_source_;
  std::unique_ptr<BatchLoader> train_, validation_;
  std::unique_ptr<Assembly> assembly_;

  std::deque<LinkBytes> step_links_;  ///< of steps that take_finished has not returned
  StartupTimes startup_;
  std::mutex finished_mutex_;
  std::vector<FinishedStep> finished_;  ///< guarded by finished_mutex_, but for `link`
  double host_counted_s_ = 0;           ///< of the host lane, in finished steps; host lane's
  double first_end_s_ = 0;              ///< the process's age; guarded by finished_mutex_
};

}  // namespace strata
