// Numbers and texts as people read them, in progress lines, reports and messages.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace strata {

/// "12,345"
[[nodiscard]] std::string format_count(std::int64_t value);
/// "45s", "3m12s", "2h05m", "3d04h"
[[nodiscard]] std::string format_duration(double seconds);

/// The bytes of a user's own text that a message repeats at most.
inline constexpr std::size_t kMostShown = 80;
/// Returns UTF-8 text of at most `most` bytes; what is longer ends with "...".
[[nodiscard]] std::string shortened(std::string_view text, std::size_t most = kMostShown);

}  // namespace strata
