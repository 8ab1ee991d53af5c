// A session is one rank of a run, from a config to trained weights. `train`, `bench` and tests make
// a session on every rank, submit steps, and take what has finished. The thread that makes it is
// the submitting thread, and all members are called by it; work that fails throws from a later
// submit(), evaluate() or synchronize().

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "strata/base/work_progress.h"
#include "strata/comm/collectives.h"
#include "strata/comm/rank_groups.h"
#include "strata/comm/ranks.h"
#include "strata/data/batch.h"
#include "strata/engine/training_engine.h"
#include "strata/ops/backend.h"
#include "strata/plan/choose_placement.h"
#include "strata/plan/setup.h"
#include "strata/predict/save_prediction.h"
#include "strata/runfiles/metrics.h"
#include "strata/train/checkpointer.h"
#include "strata/train/run_samples.h"
#include "strata/train/startup.h"
#include "strata/train/training_data.h"

namespace strata {

class SessionData;

/// These are the bytes that one rank moved over the link between host and device.
struct LinkBytes {
  std::size_t weights_in = 0;
  std::size_t activations_in = 0;
  std::size_t out = 0;    ///< gradients and spilled activations
  std::size_t state = 0;  ///< of interleaved blocks, each way

  friend LinkBytes operator-(const LinkBytes& a, const LinkBytes& b) {
    return {a.weights_in - b.weights_in, a.activations_in - b.activations_in, a.out - b.out,
            a.state - b.state};
  }
};

/// This is what the submitting thread receives of a step that has ended.
struct FinishedStep {
  StepOutcome outcome;
  std::int64_t valid_tokens = 0;  ///< of all passes and ranks
  double finished_s = 0;          ///< steady clock, when norm and loss were known
  /// How long the host lane was busy since the step before was finished (norms, sums, updates).
  double host_busy_s = 0;
  LinkBytes link{};  ///< what the step's submission moved
  /// Share of attention that document masks leave: that of squared lengths of documents in squared
  /// lengths of rows, of all ranks; 1 without masks.
  double attended = 1;
};

/// A session is watched and tested by hooks. Each of them may be left out.
struct SessionHooks {
  TraceSink* trace = nullptr;                       ///< may be null; must outlive the session
  std::optional<WaitFor> omit_wait = std::nullopt;  ///< left out, to test that races are found
  /// Makes the backend instead of strata::make_backend, which it may call.
  std::function<Backend(BackendKind, const BackendOptions&)> make_backend = nullptr;
  /// Makes the collectives instead of strata::make_group_collectives.
  std::function<GroupCollectives(RankGroups&, Device&)> make_collectives = nullptr;
  /// Fills the batch of a pass instead of the data sets (step 0, pass 0 for a validation), and
  /// returns the number of valid targets.
  std::function<std::int64_t(std::int64_t step, int pass, const BatchOptions&, const PassBuffers&)>
      fill = nullptr;
  /// Where checkpoints are saved and read; absent: the run neither saves nor resumes.
  std::optional<CheckpointPlace> checkpoints = std::nullopt;
  std::filesystem::path run_folder{};  ///< holds what belongs to the run (plans.json); empty: none
  /// Called where the work may be ended: between the parts of the start, the blocks of a checkpoint
  /// that is loaded, and the passes of a validation, on all ranks at the same places. What it
  /// throws comes out of the call that was made. May be null.
  std::function<void()> may_end = nullptr;
};

/// Builds the machine, puts stores and schedule together on it, and feeds steps. It owns all of
/// them, and the data sets.
class Session {
 public:
  /// Allocates everything and initialises or loads weights; all ranks call it. `ranks` must outlive
  /// the session. Throws ConfigError, OutOfMemory, IoError, BackendError; with several ranks an
  /// error that they do not all have is logged and takes them down, as fail_for_all() does.
  Session(const RunConfig& config, Ranks& ranks, const SessionHooks& hooks = {});
  /// Waits for all work in flight; an error of that work is logged, not thrown. If an exception
  /// takes down a session that was whole, and there are several ranks, all of them are aborted;
  /// whoever wants the cause told, or another exit code, sees to that while the session lives.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] RankGroups& groups() { return *groups_; }
  /// Returns the config with everything decided.
  [[nodiscard]] const RunConfig& config() const { return resolved_; }
  /// Returns the device, as predictions want it.
  [[nodiscard]] RatedDevice rated_device() const {
    return setup_.rated(backend_.device->info().name);
  }
  /// Returns how the run is laid out in memory.
  [[nodiscard]] const Setup& setup() const { return setup_; }
  /// Returns what a save should take, by hardware.disk_gbs or else by what was written at the
  /// start. The setup has saves.
  [[nodiscard]] SavePrediction predict_save() const;
  /// Returns what was chosen by prediction.
  [[nodiscard]] const std::vector<PlacementChoice>& choices() const { return choices_; }
  [[nodiscard]] Device& device() { return *backend_.device; }
  /// Returns what Collectives::failure() says of either group. Any thread may ask.
  [[nodiscard]] std::string collectives_failure() const {
    return collectives_.shard->failure() + collectives_.replicas->failure();
  }
  [[nodiscard]] TrainingState& state() { return engine_->state(); }
  [[nodiscard]] const Llama& model() const { return engine_->model(); }
  [[nodiscard]] const WeightStore& weights() const { return engine_->weights(); }
  [[nodiscard]] const GradientStore& gradients() const { return engine_->gradients(); }
  [[nodiscard]] const ActivationStore& activations() const { return engine_->activations(); }
  [[nodiscard]] const KeptStore& kept() const { return engine_->kept(); }
  [[nodiscard]] const Optimizer& optimizer() const { return engine_->optimizer(); }
  /// Tells `observer`, which outlives the session, of every update of the steps that are submitted
  /// from now on. To be called between steps; submits what the last step left to loads.
  void observe(UpdateObserver& observer);
  /// Returns all arenas: device, pinned, pageable.
  [[nodiscard]] std::vector<const Arena*> arenas() const { return engine_->arenas(); }
  /// Returns the bytes of everything submitted so far, evaluations included.
  [[nodiscard]] LinkBytes link_bytes() const;
  /// Returns where the time of the start went, complete once take_finished() has returned a step.
  [[nodiscard]] const StartupTimes& startup() const { return startup_; }
  [[nodiscard]] bool has_validation() const;
  /// Returns the sources that the run trains on, and what packing made of them.
  [[nodiscard]] const TrainingSet& training_set() const;
  /// Returns the tokens of all ranks in a step, ignored targets included.
  [[nodiscard]] std::int64_t global_tokens_per_step() const;

  /// Returns the passes of a validation on this rank.
  [[nodiscard]] std::int64_t validation_passes() const;
  /// Returns how many steps the run had done before this session: those of the checkpoint that it
  /// goes on from.
  [[nodiscard]] std::int64_t first_step() const {
    return hooks_.checkpoints ? hooks_.checkpoints->first_step() : 0;
  }
  /// Reads the batch of `step` (counted from 0) and submits the step. Blocks first until at most
  /// one earlier step is unfinished. Throws what an earlier step's work threw. Unless something is
  /// being saved, a save of the state behind the step is begun, of every kind that is asked for on
  /// any rank; returns what was begun.
  SaveKinds submit(std::int64_t step, double lr, const SaveKinds& save = {});
  /// Returns what saves checkpoints, or null if the run saves none.
  [[nodiscard]] Checkpointer* checkpoints() { return checkpoints_ ? &*checkpoints_ : nullptr; }
  /// Returns how many samples are consumed when `steps` steps are done.
  [[nodiscard]] std::int64_t samples_after(std::int64_t steps) const;
  /// Returns how many epochs of each source of the training set are over when `steps` steps are
  /// done, by the source's name. What was left out by a rollback counts.
  [[nodiscard]] MetricGroup epochs_after(std::int64_t steps) const;
  /// Returns the steps that have finished since the last call, in order. Does not block.
  [[nodiscard]] std::vector<FinishedStep> take_finished();
  /// Returns what steps have counted of rounding to e4m3, of those that have ended since the last
  /// call. Does not block.
  [[nodiscard]] std::vector<Fp8StepCounts> take_fp8_counts() { return engine_->take_fp8_counts(); }
  /// Returns the mean loss of a token over the validation set (run.eval_batches passes of it, or
  /// all), with all pending updates done. Blocks; all ranks call it. The session has a validation
  /// set or hooks that fill. `work`, if it is given, counts the passes that were submitted.
  [[nodiscard]] double evaluate(WorkProgress* work = nullptr);
  /// Continues the prompts of the run with the weights after `done` steps, pending updates
  /// included. Blocks; all ranks call it and draw the same. The run has samples.
  [[nodiscard]] std::vector<RunSample> sample(std::int64_t done);
  /// Blocks until everything that was submitted is done, pending updates included, but for
  /// checkpoints that are being saved.
  void synchronize();

 private:
  struct Unstarted {};
  /// Makes a session that has nothing yet but can be destroyed.
  Session(const RunConfig& config, Ranks& ranks, const SessionHooks& hooks, Unstarted);

  void build();
  void start_machine(WorkProgress& work);
  void open_data(const ModelSpec& spec, WorkProgress& work);
  void plan(const ModelSpec& spec, WorkProgress& work);
  void assemble(WorkProgress& work);
  void may_end() const;
  void step_finished(const StepOutcome& outcome, std::int64_t valid_tokens);

  RunConfig config_;
  Ranks& ranks_;
  SessionHooks hooks_;
  std::optional<RankGroups> groups_;
  Backend backend_;
  GroupCollectives collectives_;
  Setup setup_;
  RunConfig resolved_;
  std::vector<PlacementChoice> choices_;
  std::unique_ptr<SessionData> data_;
  std::optional<RunSamples> samples_;  ///< absent: the run takes none
  std::unique_ptr<TrainingEngine> engine_;
  double write_gbs_ = 0;  ///< of the disk that takes checkpoints
  std::optional<Checkpointer> checkpoints_;
  std::optional<int> exceptions_;  ///< that were under way when the session was whole

  /// What is known of a step when it is submitted.
  struct SubmittedStep {
    LinkBytes link;
    double attended = 1;
  };
  std::deque<SubmittedStep> submitted_;  ///< steps that take_finished has not returned
  StartupTimes startup_;
  std::mutex finished_mutex_;
  std::vector<FinishedStep> finished_;  ///< guarded by finished_mutex_, but for `link`
  double host_counted_s_ = 0;  ///< busy time of finished steps; touched on the host lane only
  double first_end_s_ = 0;     ///< age of the process; guarded by finished_mutex_
};

}  // namespace strata
