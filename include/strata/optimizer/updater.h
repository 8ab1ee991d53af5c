// Who changes the state of a block, behind one interface. The engine decides a step (norm,
// clipping, whether it counts at all) and calls the updater that the block's row of the table
// names, at the moments that the row names; each updater submits its work and returns. To add one:
// a class in a file of its own, a value of UpdatedBy or UpdateTime for its rows, and a line where
// the engine makes updaters.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/optimizer/adamw_rule.h"
#include "strata/store/gradient_store.h"
#include "strata/store/training_state.h"
#include "strata/store/weight_store.h"

namespace strata {

/// What is known of a step on the submitting thread.
struct StepPlan {
  std::int64_t step = 0;  ///< 0-based
  double lr = 0;
  std::int64_t valid_tokens = 0;  ///< of all passes and ranks
};

/// Watches updates, for instance to save state between two of them. Called by the submitting
/// thread.
class UpdateObserver {
 public:
  virtual ~UpdateObserver() = default;
  /// Work that changes the block's state is about to be submitted on `lane`. The observer may make
  /// the lane wait for what must be done with the old state.
  virtual void before_update(BlockId block, Stream& lane) = 0;
  /// The block's state is that of the step after `done`, at its home, until its next before_update.
  virtual void after_update(BlockId block, Event done) = 0;
};

/// What updaters share; all of it outlives them.
struct UpdaterParts {
  TrainingState& state;
  WeightStore& weights;
  Device& device;
  Kernels& kernels;       ///< run on device lanes
  Kernels& host_kernels;  ///< run on the host lane
  const AdamWRule& rule;
  const AdamWScalars* scalars;  ///< pinned: the numbers of the step once it is decided
  TensorView nonfinite;         ///< [1] i32: what updates on the host find
  TensorView device_nonfinite;  ///< [1] i32, device: what updates there find, or absent
  const StepPlan& step;         ///< the step that the host lane is at; read by host tasks
  const std::vector<UpdateObserver*>& observers;
};

class Updater {
 public:
  explicit Updater(const UpdaterParts& parts) : p_(parts) {}
  virtual ~Updater() = default;
  Updater(const Updater&) = delete;
  Updater& operator=(const Updater&) = delete;

  /// The gradient of a block is home and its norm was taken. Called for rows whose update happens
  /// on arrival (`decided` is then the event of the step's decision) or is speculated (it is
  /// absent).
  virtual void arrived(BlockId block, Arrival& arrival, std::optional<Event> decided,
                       const Tag& tag);
  /// The decision of the step is submitted. Called block by block in the order of the next forward,
  /// for rows whose update is decided or was speculated.
  virtual void decided(BlockId block, Arrival& arrival, Event decided, const Tag& tag);
  /// The weights are loaded next, or the step must end. Called for rows whose update waits for
  /// that. Copies to the device should wait for `turn` (WeightStore::update_later).
  virtual void before_load(BlockId block, Event decided, Event turn, const Tag& tag);

  /// Host lane, as a step begins: the numbers that its update will probably have.
  virtual void expect(const AdamWScalars& /*guess*/) {}
  /// Host lane, as the step is decided: the numbers that it has. Returns false if updates that
  /// happened before must be done again.
  virtual bool settle(const AdamWScalars& /*actual*/) { return true; }
  /// What expect() and settle() write; nothing if they do nothing.
  [[nodiscard]] virtual std::optional<ByteRange> numbers() const { return std::nullopt; }

 protected:
  [[nodiscard]] Stream& lane(Lane lane) const { return p_.device.stream(lane); }
  /// Tells the observers that work on `lane` is about to change the block.
  void begin(BlockId block, Stream& lane) const;
  /// Tells the weight store and the observers that the block is done after `done`.
  void end(BlockId block, Event done) const;
  /// Submits a host task that throws NumericalError if an update found a weight that is not finite.
  void check_update(const TensorView& nonfinite, BlockId block, const Tag& tag) const;

  UpdaterParts p_;
};

/// Submits a host task that throws NumericalError, naming `what`, if `nonfinite` is set. The update
/// belongs to the step `steps_ago` before the one that the host lane is at.
void submit_update_check(Stream& host, const TensorView& nonfinite, const StepPlan& step,
                         int steps_ago, const std::string& what, const Tag& tag);

[[nodiscard]] std::unique_ptr<Updater> make_host_updater(const UpdaterParts& parts);
[[nodiscard]] std::unique_ptr<Updater> make_resident_updater(const UpdaterParts& parts);

}  // namespace strata
