// Compares what a save is predicted to cost with what a run waits for. The disk is one that stops,
// so that bytes are counted and not seconds: the run must get past the save with those that it was
// predicted to wait for, and not without them.

#include <chrono>
#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "checkpoint/memory_files.h"
#include "strata/base/error.h"
#include "strata/checkpoint/throttled_files.h"
#include "strata/predict/save_prediction.h"
#include "support/catch.h"
#include "support/patience.h"
#include "support/predictions.h"
#include "train/save_ways.h"
#include "train/saved_run.h"

namespace strata::test {
namespace {

constexpr double kDiskGbs = 0.0015;
constexpr std::int64_t kCostSteps = 5;

/// Returns a run of some megabytes of state, half of it staged, on rates at which only the disk
/// takes time.
RunConfig slow_disk_config() {
  RunConfig config = save_config({}, {}, Staged::kNone);
  config.model.llama.hidden_size = 64;
  config.model.llama.intermediate_size = 256;
  config.debug.poison_slots = false;
  constexpr double kInstant = 1e6;
  for (auto* rate : {&config.hardware.product_tflops, &config.hardware.attention_forward_tflops,
                     &config.hardware.attention_backward_tflops, &config.hardware.device_gbs,
                     &config.hardware.host_gbs, &config.hardware.link_gbs}) {
    *rate = kInstant;
  }
  config.checkpoint.staging = ByteSize{1'500'000};
  return config;
}

/// A disk that writes so many bytes and then waits to be opened.
class StoppingDisk {
 public:
  explicit StoppingDisk(MemoryFiles& memory) : memory_(memory) {}

  [[nodiscard]] double written() const {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < memory_.operations(); ++i) {
      const MemoryFiles::Operation operation = memory_.operation(i);
      if (operation.change == MemoryFiles::Change::kWrite) bytes += operation.bytes;
    }
    return static_cast<double>(bytes);
  }
  void stop_at(double bytes) {
    const std::lock_guard lock(mutex_);
    most_ = bytes;
  }
  void open() {
    stop_at(std::numeric_limits<double>::infinity());
    opened_.notify_all();
  }
  /// Is called before each write.
  void pass() {
    std::unique_lock lock(mutex_);
    const std::chrono::duration<double> patience(kPatienceS);
    if (opened_.wait_for(lock, patience, [&] { return written() < most_; })) return;
    throw IoError("training waits for more than the prediction says");
  }

 private:
  MemoryFiles& memory_;
  std::mutex mutex_;
  std::condition_variable opened_;
  double most_ = std::numeric_limits<double>::infinity();  ///< guarded by mutex_
};

/// Trains past a save on a disk that stops after `most_bytes` of it. Returns how many it had
/// written when the steps behind the mark were done.
double bytes_behind(const RunConfig& config, double most_bytes) {
  MemoryFiles memory(kRunFolder);
  StoppingDisk disk(memory);
  ThrottledFiles slow(memory, kDiskGbs);
  HookedFiles files(slow, [&] { disk.pass(); });
  const auto self = make_self_ranks();
  Session session(
      config, *self,
      {.checkpoints = CheckpointPlace{.files = &files, .folder = kCheckpoints, .resume = {}}});
  const double before = disk.written();  // the test of the disk at the start
  disk.stop_at(before + most_bytes);
  REQUIRE(session.submit(0, config.optimizer.lr, {.whole = true}).any());
  for (std::int64_t step = 1; step < kCostSteps; ++step) {
    static_cast<void>(session.submit(step, config.optimizer.lr));
  }
  session.synchronize();
  const double written = disk.written() - before;
  disk.open();
  session.checkpoints()->wait();
  const std::vector<SaveReport> reports = session.checkpoints()->take_reports();
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].failure == "");
  return written;
}

}  // namespace

TEST_CASE("a save on a slow disk holds up training until as much is written as predicted",
          "[long]") {
  const RunConfig config = slow_disk_config();
  const auto self = make_self_ranks();
  MemoryFiles memory(kRunFolder);
  const Session session(
      config, *self,
      {.checkpoints = CheckpointPlace{.files = &memory, .folder = kCheckpoints, .resume = {}}});
  const SavePrediction p = predict_save(session.setup(), "a device of this test", kDiskGbs);
  REQUIRE(p.unknown == "");
  CHECK(p.blocked_s < 0.8 * p.write_s);
  // The disk alone takes time in the prediction, so times are bytes.
  const double predicted = p.blocked_s * kDiskGbs * 1e9;
  const double written = bytes_behind(config, 1.2 * predicted);
  INFO(written << " bytes were written, " << predicted << " predicted of " << p.write_s << " s");
  CHECK(written > 0.8 * predicted);
}

}  // namespace strata::test
