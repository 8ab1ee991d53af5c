// How findings are put together and printed.

#include "strata/doctor/finding.h"

#include <vector>

#include "support/catch.h"

namespace strata {
namespace {

TEST_CASE("the worst finding decides, and none is ok") {
  CHECK(worst({}) == Verdict::kOk);
  const std::vector<Finding> findings{{"link", Verdict::kOk, "", ""},
                                      {"disk", Verdict::kBad, "", "make room"},
                                      {"memory", Verdict::kWarn, "", "free some"}};
  CHECK(worst(findings) == Verdict::kBad);
}

TEST_CASE("findings stand in columns, each remedy below its own") {
  const std::vector<Finding> findings{{"link", Verdict::kOk, "55 GB/s", ""},
                                      {"disk space", Verdict::kBad, "1 GiB", "make room\nsoon"}};
  CHECK(to_string(findings) ==
        "ok    link        55 GB/s\n"
        "bad   disk space  1 GiB\n"
        "                  -> make room\n"
        "                     soon\n");
}

}  // namespace
}  // namespace strata
