// Findings are printed with the verdict first, so that a reader sees at a glance what is not ok.

#include "strata/doctor/finding.h"

#include <algorithm>

#include "strata/base/log.h"

namespace strata {

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk: return "ok";
    case Verdict::kWarn: return "warn";
    case Verdict::kBad: return "bad";
  }
  return "";
}

Verdict worst(std::span<const Finding> findings) {
  Verdict verdict = Verdict::kOk;
  for (const Finding& finding : findings) verdict = std::max(verdict, finding.verdict);
  return verdict;
}

std::string to_string(std::span<const Finding> findings) {
  std::size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.name.size());
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("{:<5} {:<{}}  {}\n", name_of(finding.verdict), finding.name, width,
                        finding.found);
    if (!finding.remedy.empty())
      text += fmt::format("{:<5} {:<{}}  -> {}\n", "", "", width, finding.remedy);
  }
  return text;
}

}  // namespace strata
