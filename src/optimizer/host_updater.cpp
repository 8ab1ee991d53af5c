// Updates blocks whose state lives on the host, by host threads on the host lane. The optimizer has
// made that lane wait for the gradient, and the step is decided there, so an update waits for
// nothing more.

#include "strata/optimizer/updater.h"

namespace strata {

namespace {

class HostUpdater final : public Updater {
 public:
  using Updater::Updater;

  void arrived(BlockId block, Arrival& arrival, std::optional<Event> /*decided*/,
               const Tag& tag) override {
    update(block, arrival, tag);
  }
  // No wait is needed: the decision was taken on the same lane.
  void decided(BlockId block, Arrival& arrival, Event /*decided*/, const Tag& tag) override {
    update(block, arrival, tag);
  }

 private:
  void update(BlockId block, Arrival& arrival, const Tag& tag) const {
    Stream& host = lane(Lane::kHost);
    begin(block, host);
    p_.rule.submit(p_.host_kernels, host, block, p_.state.block(block), arrival.gradient,
                   {.scalars = p_.scalars, .nonfinite = p_.nonfinite}, tag);
    arrival.slot.end();
    check_update(p_.nonfinite, block, tag);
    end(block, host.record());
  }
};

}  // namespace

std::unique_ptr<Updater> make_host_updater(const UpdaterParts& parts) {
  return std::make_unique<HostUpdater>(parts);
}

}  // namespace strata
