// The meter is fed by the threads that write, one at a time, and a signal ends them there.

#include "commands/new_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/process.h"
#include "strata/base/stop_signals.h"
#include "strata/base/text.h"

namespace strata {
namespace {

/// More threads would only take more memory: so many write as fast as disks do.
constexpr int kMostThreads = 8;

/// Shows how far the work is, a few times a second.
class Meter {
 public:
  explicit Meter(const std::string& command) : command_(command) {}

  void show(const ModelProgress& progress) {
    const double now_s = steady_seconds();
    if (now_s - shown_s_ < 0.2 || progress.bytes_done == 0) return;
    shown_s_ = now_s;
    const auto done = static_cast<double>(progress.bytes_done);
    const double left_s = (now_s - begin_s_) * (static_cast<double>(progress.bytes) - done) / done;
    log::live(command_ + " " + format_bytes(static_cast<std::size_t>(progress.bytes_done)) + "/" +
              format_bytes(static_cast<std::size_t>(progress.bytes)) + " eta " +
              format_duration(left_s));
  }
  [[nodiscard]] double seconds() const { return steady_seconds() - begin_s_; }

 private:
  const std::string& command_;
  double begin_s_ = steady_seconds();
  double shown_s_ = 0;
};

/// Takes the live line away, also where an error ends the command.
struct NoLiveLine {
  NoLiveLine() = default;
  ~NoLiveLine() { log::live(""); }
  NoLiveLine(const NoLiveLine&) = delete;
  NoLiveLine& operator=(const NoLiveLine&) = delete;
};

}  // namespace

std::string NewModel::text() const {
  return format_bytes(static_cast<std::size_t>(bytes)) + " in " + fmt::format("{:.1f} s", seconds);
}

NewModel make_new_model(Files& files, const std::filesystem::path& to, OldModel old_model,
                        const std::string& command, const WriteModel& write) {
  const StopSignals stop;
  NewFolder folder(files, to, old_model);
  Meter meter(command);
  NewModel made;
  const NoLiveLine no_line;
  ThreadPool pool(std::min(usable_cores(), kMostThreads));
  write(
      folder.path(),
      [&](const ModelProgress& progress) {
        if (const int signal = stop.received()) throw Interrupted(signal);
        made.bytes = progress.bytes_done;
        meter.show(progress);
      },
      pool);
  folder.publish();
  made.seconds = meter.seconds();
  return made;
}

}  // namespace strata
