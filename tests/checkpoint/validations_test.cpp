// Tests what counts as a gain of a validation, against lists made by hand.

#include "strata/checkpoint/validations.h"

#include <limits>
#include <vector>

#include "support/catch.h"

namespace strata {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Returns what validations of these losses have found, of which there was one after each ten
/// steps.
Validations found_by(const std::vector<double>& losses) {
  Validations found;
  std::int64_t step = 0;
  for (const double loss : losses) found.add(step += 10, loss);
  return found;
}

}  // namespace

TEST_CASE("a validation gains if its loss is below all before it") {
  CHECK(found_by({}) == Validations());
  CHECK(found_by({3}).without_gain == 0);
  CHECK(found_by({3, 2}).without_gain == 0);
  const Validations found = found_by({3, 2, 2, 2.5});
  CHECK(found.without_gain == 2);
  CHECK(found.best == ValidatedLoss{.step = 20, .loss = 2});
  CHECK(found.last == ValidatedLoss{.step = 40, .loss = 2.5});
}

TEST_CASE("a loss that is not finite is no gain, and belongs to no checkpoint") {
  const Validations never = found_by({kNan, kInfinity, kNan});
  CHECK(never.without_gain == 3);
  CHECK_FALSE(never.best);
  CHECK_FALSE(never.last);
  const Validations once = found_by({kNan, 3, kNan});
  CHECK(once.without_gain == 1);
  CHECK(once.best == ValidatedLoss{.step = 20, .loss = 3});
  CHECK_FALSE(once.loss_of(30));
  CHECK(found_by({kNan, 3}).without_gain == 0);
}

TEST_CASE("a loss belongs to the state that was validated, and to none after it") {
  const Validations found = found_by({3, 2});
  CHECK(found.loss_of(20) == 2);
  CHECK_FALSE(found.loss_of(21));
  CHECK_FALSE(found.loss_of(10));
}

}  // namespace strata
