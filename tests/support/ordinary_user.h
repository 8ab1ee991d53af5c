// Gives up root for a while, for tests of what a user may not read or write.
#pragma once

#include <unistd.h>

#include "support/catch.h"

namespace strata::test {

/// A user other than root while it lives: root may read and write everything.
class OrdinaryUser {
 public:
  OrdinaryUser() : root_(::geteuid() == 0) {
    constexpr uid_t kNobody = 65534;
    if (root_) REQUIRE(::seteuid(kNobody) == 0);
  }
  ~OrdinaryUser() {
    if (root_) (void)!::seteuid(0);
  }
  OrdinaryUser(const OrdinaryUser&) = delete;
  OrdinaryUser& operator=(const OrdinaryUser&) = delete;

 private:
  bool root_;
};

}  // namespace strata::test
