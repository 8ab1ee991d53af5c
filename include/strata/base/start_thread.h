// Starts threads, and says which limit of the machine is in the way where the system refuses one.
// Every thread of strata is started here: the pool's workers, lanes, and those that touch memory.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace strata {

/// Starts a thread with this name (of which the system shows 15 characters) that runs `body`. What
/// `body` uses must outlive the thread, which the caller joins by destroying it. Throws
/// OutOfThreads, which names the thread and the limits, if the system refuses.
[[nodiscard]] std::jthread start_thread(const std::string& name, std::function<void()> body);

/// Returns "; this process may have 30 MiB of addresses (ulimit -v)", or nothing if there is no
/// such limit: for messages about threads, and about memory, that the system refused.
[[nodiscard]] std::string address_limit();

}  // namespace strata
