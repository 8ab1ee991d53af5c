// What the dry machine throws where the system gives it no addresses: a plan that could not be
// made, which is another matter than a run that does not fit.
#pragma once

#include "strata/base/error.h"

namespace strata {

/// The system gives no more addresses, of which a plan takes some where a run would take memory.
/// The message names the limit.
class OutOfAddresses : public Error {
 public:
  using Error::Error;
  [[nodiscard]] int exit_code() const noexcept override { return 3; }
};

}  // namespace strata
