#pragma once

#include <span>
#include <string>
#include <system_error>
#include <vector>

// The calling thread's name and cores.

namespace strata {

/// For debuggers, profilers and top; cut to the 15 characters that the system keeps.
void name_this_thread(const std::string& name);

/// Cores that the calling thread may run on, ascending. A new thread takes over its creator's.
/// Empty where the system does not say.
[[nodiscard]] std::vector<int> cores_of_this_thread();

/// Restricts the calling thread to these cores. Systems may refuse.
[[nodiscard]] std::error_code bind_this_thread(std::span<const int> cores);

}  // namespace strata
