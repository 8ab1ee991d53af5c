// What `doctor` has to say: one line for each thing that it looked at, with a verdict and, where
// something is wrong, what to do about it. Checks of the machine and the self-test both give lists
// of them.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

/// How well a thing is.
enum class Verdict : std::uint8_t {
  kOk,    ///< nothing to do
  kWarn,  ///< runs work, but slower or less safely than they could
  kBad,   ///< runs fail, or their results are wrong
};

/// One thing that was looked at.
struct Finding {
  std::string name{};  ///< such as "memlock limit"
  Verdict verdict = Verdict::kOk;
  std::string found{};   ///< what there is, with units
  std::string remedy{};  ///< what to do; empty if and only if the verdict is kOk
};

/// Returns "ok", "warn" or "bad".
[[nodiscard]] std::string_view name_of(Verdict verdict);

/// Returns the worst verdict of a list, kOk of an empty one.
[[nodiscard]] Verdict worst(std::span<const Finding> findings);

/// Returns one line for each finding, "ok    name   found", with the remedy on lines of its own
/// below what is not ok. Names stand in one column.
[[nodiscard]] std::string to_string(std::span<const Finding> findings);

}  // namespace strata
