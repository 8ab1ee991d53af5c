// Updates blocks whose state lives on the device, where it lives, on the out lane. The gradient
// came there by the same lane, so an update needs to wait for the step's decision alone.

#include "strata/optimizer/updater.h"

namespace strata {

namespace {

class ResidentUpdater final : public Updater {
 public:
  using Updater::Updater;

  void arrived(BlockId block, Arrival& arrival, std::optional<Event> decided,
               const Tag& tag) override {
    update(block, arrival, decided.value(), tag);
  }
  void decided(BlockId block, Arrival& arrival, Event decided, const Tag& tag) override {
    update(block, arrival, decided, tag);
  }

 private:
  void update(BlockId block, Arrival& arrival, Event decided, const Tag& tag) const {
    Stream& out = lane(Lane::kOut);
    begin(block, out);
    out.wait(decided, WaitFor::kDecided);
    p_.rule.submit(p_.kernels, out, block, p_.state.block(block), arrival.gradient,
                   {.scalars = p_.scalars, .nonfinite = p_.device_nonfinite}, tag);
    arrival.slot.end();
    end(block, out.record());
  }
};

}  // namespace

std::unique_ptr<Updater> make_resident_updater(const UpdaterParts& parts) {
  return std::make_unique<ResidentUpdater>(parts);
}

}  // namespace strata
