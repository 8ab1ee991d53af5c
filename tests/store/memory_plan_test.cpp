// Tests that a memory plan adds up aligned bytes, against sums worked out by hand.

#include "strata/store/memory_plan.h"

#include "support/catch.h"

namespace strata {

TEST_CASE("a plan adds up aligned bytes by memory") {
  MemoryPlan plan;
  plan.allocate(Space::kDevice, "a", 1);
  plan.allocate(Space::kDevice, "a", 256);
  plan.allocate(Space::kPinned, "a", 300);
  for (int i = 0; i < 3; ++i) plan.allocate(Space::kPageable, "b", 10);
  CHECK(plan.entries().size() == 3);
  CHECK(plan.total(Space::kDevice) == 512);
  CHECK(plan.total(Space::kPinned) == 512);
  CHECK(plan.total(Space::kPageable) == 768);
  CHECK(plan.host_total() == 1280);
  CHECK(plan.bytes(Space::kDevice, "a") == 512);
  CHECK(plan.bytes(Space::kPageable, "b") == 768);
  CHECK(plan.bytes(Space::kDevice, "b") == 0);
}

TEST_CASE("a plan lists its largest entries first") {
  MemoryPlan plan;
  plan.allocate(Space::kDevice, "small", 256);
  plan.allocate(Space::kDevice, "large", 4096);
  const std::string text = plan.to_string();
  CHECK(text.find("large") < text.find("small"));
}

}  // namespace strata
