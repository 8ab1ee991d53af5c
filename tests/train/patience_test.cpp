// Tests when a run is ended because validations gain nothing more, and what is said then.

#include "strata/train/patience.h"

#include <limits>

#include "support/catch.h"

namespace strata {

TEST_CASE("a run ends when as many validations in a row gained nothing as its patience says") {
  RunSection run;
  run.patience = 2;
  Validations found;
  const auto ends_after = [&](std::int64_t step, double loss) {
    found.add(step, loss);
    return is_out_of_patience(run, found);
  };
  CHECK_FALSE(ends_after(10, 3));
  CHECK_FALSE(ends_after(20, 3.5));
  CHECK_FALSE(ends_after(30, 2));  // counting begins again
  CHECK_FALSE(ends_after(40, 2));
  CHECK(ends_after(50, 2));
  CHECK(without_gain_text(found) ==
        "2 validations without gain (run.patience), the lowest loss 2.0000 after step 30");
  run.patience = 0;
  CHECK_FALSE(is_out_of_patience(run, found));
}

TEST_CASE("a run none of whose validations had a finite loss ends, and names no lowest one") {
  RunSection run;
  run.patience = 1;
  Validations found;
  found.add(10, std::numeric_limits<double>::quiet_NaN());
  CHECK(is_out_of_patience(run, found));
  CHECK(without_gain_text(found) ==
        "1 validation without gain (run.patience), and none has had a finite loss");
}

}  // namespace strata
