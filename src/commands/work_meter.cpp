#include "commands/work_meter.h"

#include <unistd.h>

#include <utility>

#include "strata/base/bytes.h"
#include "strata/base/log.h"
#include "strata/base/text.h"

namespace strata {

WorkMeter::~WorkMeter() { log::live(""); }

bool WorkMeter::is_due() {
  constexpr double kPauseS = 0.2;
  const double now_s = steady_seconds();
  if (now_s - shown_s_ < kPauseS) return false;
  shown_s_ = now_s;
  return true;
}

void WorkMeter::print(const std::string& text) {
  constexpr double kLogPauseS = 30;
  if (isatty(STDERR_FILENO) != 0) {
    log::live(work_ + " " + text);
  } else if (steady_seconds() - logged_s_ >= kLogPauseS) {
    logged_s_ = steady_seconds();
    log::info("{} {}", work_, text);
  }
}

void WorkMeter::show(std::size_t bytes_done, std::size_t bytes, const std::string& counted) {
  if (!is_due()) return;
  std::string text = counted.empty() ? "" : counted + " ";
  text += format_bytes(bytes_done) + "/" + format_bytes(bytes);
  if (bytes_done > 0) {
    const auto done = static_cast<double>(bytes_done);
    text += " eta " + format_duration(seconds() * (static_cast<double>(bytes) - done) / done);
  }
  print(text);
}

void WorkMeter::show(const std::string& text) {
  if (is_due()) print(text);
}

}  // namespace strata
