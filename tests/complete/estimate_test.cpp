// Tests that estimates have the errors that textbooks give for means of the same numbers.

#include "strata/complete/estimate.h"

#include <cmath>
#include <vector>

#include "support/catch.h"

namespace strata::test {
namespace {

/// Returns the mean of numbers with the standard error of a mean.
Estimate plain_mean(const std::vector<double>& numbers) {
  const auto count = static_cast<double>(numbers.size());
  double sum = 0;
  for (const double number : numbers) sum += number;
  double squares = 0;
  for (const double number : numbers) squares += (number - sum / count) * (number - sum / count);
  return {.value = sum / count, .standard_error = std::sqrt(squares / (count - 1) / count)};
}

}  // namespace

TEST_CASE("a share has the error of the mean of ones and zeros") {
  const Estimate share = share_of({true, false, true, true, false, true, true});
  const Estimate mean = plain_mean({1, 0, 1, 1, 0, 1, 1});
  CHECK(share.value == Approx(mean.value));
  CHECK(share.standard_error.value() == Approx(mean.standard_error.value()));
  CHECK(share_of({true, true}).standard_error.value() == 0);
  CHECK(!share_of({true}).standard_error);
}

TEST_CASE("the loss of windows of one length has the error of the mean of their losses") {
  const std::vector<WindowLoss> windows{{.nats = 8, .tokens = 4},
                                        {.nats = 10, .tokens = 4},
                                        {.nats = 5, .tokens = 4},
                                        {.nats = 9, .tokens = 4}};
  const Estimate loss = mean_loss(windows);
  const Estimate mean = plain_mean({2, 2.5, 1.25, 2.25});
  CHECK(loss.value == Approx(mean.value));
  CHECK(loss.standard_error.value() == Approx(mean.standard_error.value()));
}

TEST_CASE("a window counts by its tokens, and one alone has no error") {
  const std::vector<WindowLoss> windows{{.nats = 3, .tokens = 1}, {.nats = 9, .tokens = 9}};
  CHECK(mean_loss(windows).value == Approx(1.2));
  const std::vector<WindowLoss> one{{.nats = 3, .tokens = 2}};
  CHECK(mean_loss(one).value == Approx(1.5));
  CHECK(!mean_loss(one).standard_error);
}

}  // namespace strata::test
