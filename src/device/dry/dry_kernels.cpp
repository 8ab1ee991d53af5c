// Operators that do nothing when launched. Checks and trace happen in Kernels::run before.

#include "device/dry/dry_kernels.h"

namespace strata {

namespace {

class DryKernels final : public Kernels {
 private:
#define STRATA_LAUNCH(Operator) \
  void launch(Stream&, const Operator&) override {}
  STRATA_FOR_EACH_OPERATOR(STRATA_LAUNCH)
#undef STRATA_LAUNCH
};

}  // namespace

std::unique_ptr<Kernels> make_dry_kernels() { return std::make_unique<DryKernels>(); }

}  // namespace strata
