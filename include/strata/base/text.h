// Numbers as people read them, in progress lines and reports.

#pragma once

#include <cstdint>
#include <string>

namespace strata {

/// "12,345"
[[nodiscard]] std::string format_count(std::int64_t value);
/// "45s", "3m12s", "2h05m", "3d04h"
[[nodiscard]] std::string format_duration(double seconds);

}  // namespace strata
