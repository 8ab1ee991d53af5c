// Tests the order of a pass: when a key is used next, and that a caller who leaves the order is
// refused.

#include "strata/store/access_plan.h"

#include "support/catch.h"

namespace strata {

TEST_CASE("the next use of a key counts from the current access") {
  AccessPlan plan({5, 6, 5, 7});
  CHECK(plan.next_use(5) == 0);
  CHECK(plan.next_use(7) == 3);
  CHECK(plan.next_use(9) == AccessPlan::kNever);
  plan.advance(5);
  CHECK(plan.next_use(5) == 2);
  plan.advance(6);
  CHECK(plan.next_use(6) == AccessPlan::kNever);
  plan.advance(5);
  CHECK(plan.next_use(5) == AccessPlan::kNever);
}

TEST_CASE("an access that was not planned is refused") {
  AccessPlan plan({1, 2});
  CHECK_THROWS_AS(plan.advance(2), std::logic_error);
  plan.advance(1);
  plan.advance(2);
  CHECK_THROWS_AS(plan.advance(1), std::logic_error);
}

}  // namespace strata
