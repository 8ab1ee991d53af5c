// The meter is fed by the threads that write, one at a time, and a signal ends them there.

#include "strata/checkpoint/new_model.h"

#include <algorithm>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/stop_signals.h"
#include "strata/base/work_meter.h"
#include "strata/checkpoint/new_file.h"

namespace strata {
namespace {

/// More threads would only take more memory: so many write as fast as disks do.
constexpr int kMostThreads = 8;

/// Has `write` fill a NewFolder or a NewFile, and publishes it.
template <class New, class Write>
NewModel publish_when_written(New& model, const std::string& command, const StopSignals& stop,
                              const Write& write) {
  WorkProgress work;
  work.begin(command);
  const WorkMeter meter(work, WorkMeter::Elsewhere::kLogged);
  NewModel made;
  ThreadPool pool(std::min(usable_cores(), kMostThreads));
  write(
      [&](const ModelProgress& progress) {
        if (const int signal = stop.received()) throw Interrupted(signal);
        made.bytes = progress.bytes_done;
        work.set(progress.bytes_done, progress.bytes);
      },
      pool);
  model.publish();
  made.seconds = work.seconds();
  return made;
}

}  // namespace

std::string NewModel::text() const {
  return format_bytes(static_cast<std::size_t>(bytes)) + " in " + fmt::format("{:.1f} s", seconds);
}

NewModel make_new_model(Files& files, const std::filesystem::path& to, OldModel old_model,
                        const std::string& command, const WriteModel& write) {
  const StopSignals stop;
  NewFolder folder(files, to, old_model);
  return publish_when_written(folder, command, stop,
                              [&](const OnModelProgress& progress, ThreadPool& pool) {
                                write(folder.path(), progress, pool);
                              });
}

NewModel make_new_model_file(Files& files, const std::filesystem::path& to,
                             const std::string& magic, OldModel old_model,
                             const std::string& command, const WriteModelFile& write) {
  const StopSignals stop;
  NewFile file(files, to, magic, old_model);
  return publish_when_written(file, command, stop,
                              [&](const OnModelProgress& progress, ThreadPool& pool) {
                                write(file.writer(), progress, pool);
                              });
}

}  // namespace strata
