// Reads the process's start from /proc/self/stat and compares it with the clock since boot, the one
// that Linux states start times in.

#include "strata/base/process.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace strata {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double process_age_s() {
  std::ifstream file("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t bracket = text.rfind(')');  // ends the program's name, which may hold anything
  if (bracket == std::string::npos) return 0;
  constexpr int kStartTime = 22;  // fields of proc(5), the name being the second
  std::istringstream fields(text.substr(bracket + 1));
  std::string field;
  for (int i = 3; i <= kStartTime; ++i) fields >> field;
  double start_ticks = 0;
  timespec now{};
  if (!(std::istringstream(field) >> start_ticks) || clock_gettime(CLOCK_BOOTTIME, &now) != 0) {
    return 0;
  }
  const double start_s = start_ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  const double now_s = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  return std::max(0.0, now_s - start_s);
}

}  // namespace strata
