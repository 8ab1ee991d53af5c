// Ranges of what options take that is a number. The parser's own conversion takes the nearest
// number for one that is too large, and "nan" for one that no comparison holds for. So every option
// with a number has one of these checks, which says in words what it may be;
// tests/command_line/number_options_test.cpp walks all options for one without.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

#include "strata/complete/generator.h"

namespace strata {

/// What is counted is at most this, as in the run config.
inline constexpr std::int64_t kMostCounted = std::numeric_limits<std::int32_t>::max();
/// Tokens and documents of files, and tokens of a step of all ranks.
inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 40;
/// Sequences that are continued or scored at once.
inline constexpr std::int64_t kMostAtOnce = 100'000;
/// Linux knows no more cores.
inline constexpr std::int64_t kMostThreads = 8192;

/// Each returns the check of an option that takes
/// a whole number,
[[nodiscard]] CLI::Validator whole_number(std::int64_t least, std::int64_t most = kMostCounted);
/// any number,
[[nodiscard]] CLI::Validator number(double least, double most);
/// a number by which tokens are drawn,
[[nodiscard]] CLI::Validator sampling_number(double Sampling::*member);
/// or a size in bytes, such as 24GiB, above 0.
[[nodiscard]] CLI::Validator size_in_bytes();

}  // namespace strata
