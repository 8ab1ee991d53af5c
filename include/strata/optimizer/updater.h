// An updater changes the state of blocks; this is the interface of all of them. The optimizer
// decides a step (norm, clipping, whether it counts at all) and calls the updater that the block's
// row of the table names, at the moments that the row names; each updater submits its work and
// returns, without blocking. docs/adding.md lists all places where one is added.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/comm/collectives.h"
#include "strata/optimizer/step.h"
#include "strata/optimizer/step_judge.h"
#include "strata/optimizer/update_rule.h"
#include "strata/store/gradient_store.h"
#include "strata/store/training_state.h"
#include "strata/store/weight_store.h"

namespace strata {

/// Watches updates, for instance to save state between two of them. It is called by the submitting
/// thread.
class UpdateObserver {
 public:
  virtual ~UpdateObserver() = default;
  /// Says that work that changes the block's state is about to be submitted on `lane`. The observer
  /// may make the lane wait for what must be done with the old state.
  virtual void before_update(BlockId block, Stream& lane) = 0;
  /// Says that from `done` until its next before_update() the block has, at its home, the state
  /// after this update.
  virtual void after_update(BlockId block, Event done) = 0;
};

/// All updaters share these parts, which outlive them.
struct UpdaterParts {
  TrainingState& state;
  WeightStore& weights;
  Collectives& collectives;  ///< of the ranks that share the state
  Device& device;
  Kernels& kernels;       ///< run on device lanes
  Kernels& host_kernels;  ///< run on the host lane
  const UpdateRule& rule;
  const AdamWScalars* scalars;  ///< pinned: the numbers of the step once it is decided
  TensorView nonfinite;         ///< [1] i32: what updates on the host find
  TensorView device_nonfinite;  ///< [1] i32, device: what updates there find, or absent
  const StepPlan& step;         ///< the step that is being submitted
  const StepJudge& judge;       ///< host lane only: whether updates may go wrong
  const std::vector<UpdateObserver*>& observers;
};

/// Updates the blocks of some rows. An updater answers the moments that its rows name; the others
/// throw std::logic_error.
class Updater {
 public:
  explicit Updater(const UpdaterParts& parts) : p_(parts) {}
  virtual ~Updater() = default;
  Updater(const Updater&) = delete;
  Updater& operator=(const Updater&) = delete;

  /// Says that the gradient of a block is home and its norm was taken. It is called for rows whose
  /// update happens on arrival (`decided` is then the event of the step's decision) or is
  /// speculated (`decided` is absent).
  virtual void arrived(BlockId block, Arrival& arrival, std::optional<Event> decided,
                       const Tag& tag);
  /// Says that the decision of the step is submitted; it is over after `decided`. It is called
  /// block by block in the order of the next forward, for rows whose update is decided or was
  /// speculated.
  virtual void decided(BlockId block, Arrival& arrival, Event decided, const Tag& tag);
  /// Says that the weights of the block are loaded next, or that the step must end. It is called
  /// for rows whose update waits for that. Copies to the device should wait for
  /// WeightStore::turn().
  virtual void before_load(BlockId block, Event decided, const Tag& tag);

  /// Takes, on the host lane as a step begins, the numbers that its update will probably have.
  virtual void expect(const AdamWScalars& /*guess*/) {}
  /// Takes, on the host lane as the step is decided, the numbers that it has. Returns false if
  /// updates that happened before must be done again.
  virtual bool settle(const AdamWScalars& /*actual*/) { return true; }
  /// Returns what expect() and settle() write, or nothing if they do nothing.
  [[nodiscard]] virtual std::optional<ByteRange> numbers() const { return std::nullopt; }

 protected:
  [[nodiscard]] Stream& lane(Lane lane) const { return p_.device.stream(lane); }
  /// Tells the observers that work on `lane` is about to change the block.
  void begin(BlockId block, Stream& lane) const;
  /// Tells the weight store and the observers that the block is updated once `done` has passed.
  void end(BlockId block, Event done) const;
  /// Submits a host task that throws NumericalError if an update found a weight that is not finite.
  void check_update(const TensorView& nonfinite, BlockId block, const Tag& tag) const;

  UpdaterParts p_;
};

/// This is what the check of an update says of it.
struct CheckedUpdate {
  std::int64_t step_number = 0;  ///< as people count steps
  std::string what;              ///< which blocks were updated
  const StepJudge& judge;        ///< host lane only: whether it matters what is wrong
};
/// Submits a host task that throws NumericalError, naming the update, if `nonfinite` is set.
void submit_update_check(Stream& host, const TensorView& nonfinite, const CheckedUpdate& update,
                         const Tag& tag);

/// Makes the updater of rows whose `updated_by` is kHost and that are not speculated.
[[nodiscard]] std::unique_ptr<Updater> make_host_updater(const UpdaterParts& parts);
/// Makes the updater of rows whose `updated_by` is kResident.
[[nodiscard]] std::unique_ptr<Updater> make_resident_updater(const UpdaterParts& parts);

}  // namespace strata
