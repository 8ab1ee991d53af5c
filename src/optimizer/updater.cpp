// All updaters share what is here: they tell the weight store and observers of an update, and find
// one that went wrong. A moment that an updater does not answer is an error of whoever made the
// table.

#include "strata/optimizer/updater.h"

#include <stdexcept>

#include "strata/base/error.h"

namespace strata {

void Updater::arrived(BlockId, Arrival&, std::optional<Event>, const Tag&) {
  throw std::logic_error("this updater does nothing when a gradient arrives");
}

void Updater::decided(BlockId, Arrival&, Event, const Tag&) {
  throw std::logic_error("this updater does nothing when a step is decided");
}

void Updater::before_load(BlockId, Event, const Tag&) {
  throw std::logic_error("this updater does nothing before a load");
}

void Updater::begin(BlockId block, Stream& lane) const {
  for (UpdateObserver* observer : p_.observers) observer->before_update(block, lane);
}

void Updater::end(BlockId block, Event done) const {
  p_.weights.updated(block, done);
  for (UpdateObserver* observer : p_.observers) observer->after_update(block, done);
}

void Updater::check_update(const TensorView& nonfinite, BlockId block, const Tag& tag) const {
  submit_update_check(lane(Lane::kHost), nonfinite,
                      {.step_number = p_.step.number(),
                       .what = p_.state.layout().blocks[block].name,
                       .judge = p_.judge},
                      tag);
}

void submit_update_check(Stream& host, const TensorView& nonfinite, const CheckedUpdate& update,
                         const Tag& tag) {
  host.host_task(
      "check_update", [&] { return Accesses({ConstTensorView(nonfinite).bytes()}, {}); }, tag,
      [nonfinite, update] {
        if (*nonfinite.as<std::int32_t>() == 0 || update.judge.given_up()) return;
        throw NumericalError("step " + std::to_string(update.step_number) + ": a weight of " +
                             update.what + " is not finite after its update (lower optimizer.lr)");
      });
}

}  // namespace strata
