// A device lane on CUDA: one non-blocking stream, its events by ticket, and its counter for the
// host. The device owns the lanes, and they share its context. This and the host lanes are the only
// places that turn events of the machine into CUDA waits.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <optional>

#include "src/device/cuda/counters.h"
#include "src/device/cuda/driver.h"
#include "src/device/cuda/event_pool.h"
#include "src/device/cuda/host_failure.h"
#include "src/device/cuda/profiler.h"
#include "src/device/cuda/span_timer.h"
#include "src/device/queue_progress.h"
#include "strata/device/lane_state.h"
#include "strata/device/stream.h"

namespace strata {

/// What the lanes of one CUDA device share.
struct CudaLaneContext {
  cuda::Driver driver;
  cuda::TicketCounters counters;
  cuda::SpanTimer timer;
  cuda::Profiler profiler{};
  HostFailure host_failure{};
  std::atomic<double> host_busy_us{0};  ///< of kHost; written by its thread alone
};

/// A device lane: one non-blocking CUDA stream.
class CudaStream final : public Stream {
 public:
  /// `context` must outlive the stream.
  CudaStream(Device& device, Lane lane, CudaLaneContext& context);
  ~CudaStream() override;

  [[nodiscard]] cudaStream_t handle() const { return handle_; }
  [[nodiscard]] void* native() override { return handle_; }
  /// Makes sure that the lane's counter will reach `ticket`, for somebody on the host.
  void tell_host(std::uint64_t ticket);
  /// Returns what the lane is at, by the last of its tickets that the host was to be told of. Any
  /// thread; it asks the device nothing.
  [[nodiscard]] LaneState state() const;
  /// Blocks until `ticket` has passed.
  void wait_on_host(std::uint64_t ticket);

 protected:
  void do_record(std::uint64_t ticket) override;
  void do_wait(Event event) override;
  void do_copy(void* to, const void* from, std::size_t bytes) override;
  void do_set(void* to, std::uint8_t value, std::size_t bytes) override;
  void do_announce(const SubmissionLabel& label) override;
  void do_begin(std::uint64_t ticket) override;
  void do_end(std::uint64_t ticket) override;

 private:
  CudaLaneContext& context_;
  cudaStream_t handle_ = nullptr;
  cuda::EventPool events_;
  std::uint64_t submitted_ = 0;
  QueueProgress progress_;
  std::optional<cuda::ProfilerRange> range_;  ///< of the submission under way
};

/// Returns the CUDA stream of a lane. Throws BackendError for host lanes and for lanes of
/// other backends.
[[nodiscard]] cudaStream_t native_stream(Stream& stream);

}  // namespace strata
