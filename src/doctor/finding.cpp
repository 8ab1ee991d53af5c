// Findings are printed with the verdict first, so that a reader sees at a glance what is not ok.

#include "strata/doctor/finding.h"

#include <algorithm>

#include "strata/base/log.h"

namespace strata {

namespace {

/// Returns a remedy whose further lines begin below its first one; names have so many columns.
std::string indented(std::string_view remedy, std::size_t width) {
  constexpr std::size_t kVerdictAndArrow = 11;
  std::string text;
  for (const char c : remedy) {
    text += c;
    if (c == '\n') text.append(kVerdictAndArrow + width, ' ');
  }
  return text;
}

}  // namespace

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
      text += fmt::format("{:<5} {:<{}}  -> {}\n", "", "", width, indented(finding.remedy, width));
  }
  return text;
}

}  // namespace strata
