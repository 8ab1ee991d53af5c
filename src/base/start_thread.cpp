// Starts a thread, or says why the system starts none. The system says no more than that a resource
// is unavailable, so a refusal lists all limits that are set: the user's processes, those of
// control groups, and the address space that stacks take.

#include "strata/base/start_thread.h"

#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "base/control_groups.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/this_thread.h"

namespace strata {

namespace {

std::optional<rlim_t> soft_limit(__rlimit_resource_t resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

/// Returns what each control group says that limits processes and threads.
std::string group_limits() {
  std::string text;
  for (const std::filesystem::path& folder : control_groups("pids")) {
    std::size_t most = 0;
    std::size_t now = 0;
    if (!(std::ifstream(folder / "pids.max") >> most)) continue;
    std::ifstream(folder / "pids.current") >> now;
    text += "; pids.max of the control group " + folder.string() + " is " + std::to_string(most) +
            ", of which " + std::to_string(now) + " are in use";
  }
  return text;
}

/// Returns "; ..." for every limit that is set.
std::string limits() {
  std::string text;
  if (const auto processes = soft_limit(RLIMIT_NPROC)) {
    text +=
        "; this user may have " + std::to_string(*processes) + " processes and threads (ulimit -u)";
  }
  return text + group_limits() + address_limit();
}

}  // namespace

std::string address_limit() {
  const std::optional<rlim_t> bytes = soft_limit(RLIMIT_AS);
  if (!bytes) return {};
  return "; this process may have " + format_bytes(*bytes) + " of addresses (ulimit -v)";
}

std::jthread start_thread(const std::string& name, std::function<void()> body) {
  try {
    return std::jthread([name, body = std::move(body)] {
      name_this_thread(name);
      body();
    });
  } catch (const std::system_error& refused) {
    throw OutOfThreads("cannot start the thread \"" + name + "\": " + refused.code().message() +
                       limits() + ". Raise the limit that is reached, or lower run.threads");
  }
}

}  // namespace strata
