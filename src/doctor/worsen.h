// How judges write findings: ok at first, and worse with each thing that is wrong.

#pragma once

#include <algorithm>
#include <string>

#include "strata/doctor/finding.h"

namespace strata {

/// Gives a finding at least this verdict, and a remedy behind those that it has.
inline void worsen(Finding& finding, Verdict verdict, const std::string& remedy) {
  finding.verdict = std::max(finding.verdict, verdict);
  finding.remedy += (finding.remedy.empty() ? "" : "; ") + remedy;
}

}  // namespace strata
