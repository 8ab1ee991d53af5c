// `export` finds the checkpoint, has its model written to a new folder, and says what is in it. A
// meter below the log shows how far it is.

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>

#include "commands/find_checkpoint.h"
#include "commands/new_folder.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/process.h"
#include "strata/base/stop_signals.h"
#include "strata/base/text.h"
#include "strata/base/thread_pool.h"
#include "strata/checkpoint/export_model.h"
#include "strata/commands/commands.h"

namespace strata {
namespace {

/// More threads would only take more memory: so many write as fast as disks do.
constexpr int kMostThreads = 8;

/// Says what the weights are, compared with those of the checkpoint.
std::string weights_text(DType made, const CheckpointTypes& types) {
  const std::string name(name_of(made));
  if (made == types.weight) return name + ", as the checkpoint holds them";
  if (types.weight == DType::kBF16) return name + ", the exact masters";
  return name + ", rounded from " + std::string(name_of(types.weight));
}

/// Names the checkpoints of the run that are newer than the one that was found, but not whole.
void warn_of_newer(const NamedFolder& named) {
  for (const OtherCheckpoint& other : named.others) {
    const auto step = step_of_name(other.folder.filename().string());
    if (step.value_or(0) <= named.checkpoint->manifest.step) continue;
    log::warn("passed over: {}", other.problem);
  }
}

/// Shows how far an export is, a few times a second.
class ExportMeter {
 public:
  void show(const ExportProgress& progress) {
    const double now_s = steady_seconds();
    if (now_s - shown_s_ < 0.2 || progress.bytes_done == 0) return;
    shown_s_ = now_s;
    const auto done = static_cast<double>(progress.bytes_done);
    const double left_s = (now_s - begin_s_) * (static_cast<double>(progress.bytes) - done) / done;
    log::live("export " + format_bytes(static_cast<std::size_t>(progress.bytes_done)) + "/" +
              format_bytes(static_cast<std::size_t>(progress.bytes)) + " eta " +
              format_duration(left_s));
  }
  [[nodiscard]] double seconds() const { return steady_seconds() - begin_s_; }

 private:
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

int export_command(const ExportOptions& options) {
  log::configure(0, 1, "");
  const std::unique_ptr<Files> files = make_system_files();
  const NamedFolder named = find_named_folder(*files, options.checkpoint);
  if (!named.checkpoint) {
    throw ConfigError(options.checkpoint.string() +
                      ": is a model already; name a checkpoint or a run folder");
  }
  warn_of_newer(named);
  const DType weight = options.dtype == "f32" ? DType::kF32 : DType::kBF16;
  const StopSignals stop;
  NewFolder folder(*files, options.to, options.overwrite ? OldModel::kReplace : OldModel::kRefuse);
  ExportMeter meter;
  std::uint64_t bytes = 0;
  {
    const NoLiveLine no_line;
    ThreadPool pool(std::min(usable_cores(), kMostThreads));
    export_model(*files,
                 {.checkpoint = *named.checkpoint,
                  .model = model_of(*named.checkpoint),
                  .weight = weight,
                  .to = folder.path(),
                  .progress =
                      [&](const ExportProgress& progress) {
                        if (const int signal = stop.received()) throw Interrupted(signal);
                        bytes = progress.bytes_done;
                        meter.show(progress);
                      }},
                 pool);
    folder.publish();
  }
  const Manifest& manifest = named.checkpoint->manifest;
  std::cout << printable(options.to.string()) << ": the model after step "
            << format_count(manifest.step) << ", weights in "
            << weights_text(weight, manifest.types) << "; "
            << format_bytes(static_cast<std::size_t>(bytes)) << " in "
            << fmt::format("{:.1f} s", meter.seconds()) << '\n';
  return 0;
}

}  // namespace strata
