// The calling thread's name and the cores that it may run on. Lanes, pool workers and core binding
// use it; it is the only room that knows pthread and sched calls. A system that refuses is no error
// here: callers get an empty list or an error code and decide.
#pragma once

#include <span>
#include <string>
#include <system_error>
#include <vector>

namespace strata {

/// Names the calling thread for debuggers, profilers and top, cut to the 15 characters that the
/// system keeps.
void name_this_thread(const std::string& name);

/// Returns the cores that the calling thread may run on, ascending, or none where the system does
/// not say. A new thread takes over its creator's cores.
[[nodiscard]] std::vector<int> cores_of_this_thread();

/// Restricts the calling thread to these cores. Returns the system's reason if it refuses.
[[nodiscard]] std::error_code bind_this_thread(std::span<const int> cores);

}  // namespace strata
