// Holds each stream on a flag of the host and looks whether the others move. The environment
// variable that gives a process its hardware queues is set here, since CUDA reads it once, at its
// first call.

#include "src/device/cuda/self_test.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>

#include "src/device/cuda/check.h"
#include "src/device/cuda/counters.h"
#include "strata/base/error.h"
#include "strata/device/lane.h"

namespace strata::cuda {
namespace {

constexpr const char* kVariable = "CUDA_DEVICE_MAX_CONNECTIONS";
constexpr const char* kWanted = "32";  ///< the most that CUDA gives
/// Connections for the streams that are no lanes: the clock of traces and those of libraries.
constexpr int kOthers = 5;
/// The fewest connections: one for each lane that is a stream, and those.
constexpr int kLeast = kLaneCount - kHostLaneCount + kOthers;
/// How long a stream may take to move; long, since the device may be busy with other programs.
constexpr std::chrono::seconds kPatience{10};

const char* remedy() {
  return "unset CUDA_DEVICE_MAX_CONNECTIONS, or set it to 32, before the program starts (job "
         "scripts made for tensor parallelism often export 1), and leave CUDA_LAUNCH_BLOCKING "
         "unset";
}

/// One flag per stream, and one that holds the stream under test.
class Flags {
 public:
  explicit Flags(std::size_t count) : memory_(count * sizeof(std::uint32_t)) {}
  [[nodiscard]] std::atomic_ref<std::uint32_t> host(std::size_t i) const {
    return std::atomic_ref(reinterpret_cast<std::uint32_t*>(memory_.host())[i]);
  }
  [[nodiscard]] std::uint32_t* device(std::size_t i) const {
    return reinterpret_cast<std::uint32_t*>(memory_.device()) + i;
  }

 private:
  MappedMemory memory_;
};

/// Returns true once every flag but those of `held` and the gate has reached `value`, false after
/// kPatience.
bool others_moved(const Flags& flags, std::size_t streams, std::size_t held, std::uint32_t value) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (std::size_t i = 0; i < streams; ++i) {
    while (i != held && flags.host(i).load(std::memory_order_acquire) != value) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
  }
  return true;
}

}  // namespace

void prepare_connections() { setenv(kVariable, kWanted, /*overwrite=*/0); }

void require_connections() {
  const char* text = std::getenv(kVariable);
  if (text == nullptr || std::atoi(text) >= kLeast) return;
  throw BackendError(std::string(kVariable) + " is " + text + ", but the lanes need at least " +
                     std::to_string(kLeast) + ": " + remedy());
}

void require_independent(const Driver& driver, const std::vector<cudaStream_t>& streams) {
  const std::size_t gate = streams.size();
  const Flags flags(streams.size() + 1);
  for (std::size_t held = 0; held < streams.size(); ++held) {
    const auto round = static_cast<std::uint32_t>(held + 1);
    wait_counter(driver, streams[held], flags.device(gate), round);
    for (std::size_t i = 0; i < streams.size(); ++i) {
      write_counter(driver, streams[i], flags.device(i), round);
    }
    const bool moved = others_moved(flags, streams.size(), held, round);
    flags.host(gate).store(round, std::memory_order_release);
    STRATA_CUDA_CHECK(cudaStreamSynchronize(streams[held]));
    if (!moved) {
      throw BackendError(std::string("a stream that waits for the host stops the others: ") +
                         remedy());
    }
  }
}

}  // namespace strata::cuda
