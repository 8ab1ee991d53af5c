// A validation whose loss is not finite gains nothing, so a run without any finite one ends as
// well, and has no lowest loss to tell of.

#include "strata/train/patience.h"

#include "strata/base/log.h"
#include "strata/base/text.h"

namespace strata {

bool is_out_of_patience(const RunSection& run, const Validations& found) {
  return run.patience > 0 && found.without_gain >= run.patience;
}

std::string without_gain_text(const Validations& found) {
  const std::string text = format_count(found.without_gain) +
                           (found.without_gain == 1 ? " validation" : " validations") +
                           " without gain (run.patience), ";
  if (!found.best) return text + "and none has had a finite loss";
  return text + fmt::format("the lowest loss {:.4f} after step {}", found.best->loss,
                            format_count(found.best->step));
}

}  // namespace strata
