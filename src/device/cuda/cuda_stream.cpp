// Submits to a CUDA stream. Waits between streams go through events, waits for host lanes
// through their counters; copies are cut where pinned memory was registered in slices.

#include "src/device/cuda/cuda_stream.h"

#include <algorithm>
#include <string>

#include "src/device/cuda/check.h"
#include "src/device/cuda/memory.h"
#include "strata/base/error.h"
#include "strata/device/device.h"

namespace strata {
namespace {

/// Events enough for a lane that runs one step ahead of the device.
constexpr int kInitialEvents = 64;

/// Lanes whose every record is told to the host: host tasks wait for what arrives on them, and a
/// counter written right behind the work is seen sooner than one written at the tail of the lane.
bool always_tells_host(Lane lane) { return lane == Lane::kOut || lane == Lane::kComm; }

/// Runs `piece(offset, bytes)` over parts that cross no border of pinned slices in either pointer.
template <class Piece>
void for_each_piece(const void* a, const void* b, std::size_t bytes, const Piece& piece) {
  std::size_t offset = 0;
  while (offset < bytes) {
    const std::size_t n = std::min(
        {bytes - offset, cuda::bytes_to_slice_end(a, offset), cuda::bytes_to_slice_end(b, offset)});
    piece(offset, n);
    offset += n;
  }
}

}  // namespace

CudaStream::CudaStream(Device& device, Lane lane, CudaLaneContext& context)
    : Stream(device, lane), context_(context), events_(kInitialEvents) {
  int least = 0;
  int greatest = 0;
  STRATA_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  STRATA_CUDA_CHECK(cudaStreamCreateWithPriority(&handle_, cudaStreamNonBlocking,
                                                 lane == Lane::kCompute ? greatest : least));
  context_.profiler.name_stream(handle_, lane);
}

CudaStream::~CudaStream() { STRATA_CUDA_CHECK_IN_DESTRUCTOR(cudaStreamDestroy(handle_)); }

void CudaStream::tell_host(std::uint64_t ticket) {
  if (ticket <= progress_.newest_told()) return;
  cuda::write_counter(context_.driver, handle_, context_.counters.device(lane()),
                      cuda::TicketCounters::low(submitted_));
  progress_.told(submitted_);
}

void CudaStream::wait_on_host(std::uint64_t ticket) {
  if (ticket > events_.newest()) events_.record(submitted_, handle_);
  // Safe with reused events: the thread that would record this one again is the one that waits.
  if (cudaEvent_t event = events_.find(ticket)) STRATA_CUDA_CHECK(cudaEventSynchronize(event));
}

void CudaStream::do_record(std::uint64_t ticket) {
  events_.record(ticket, handle_);
  if (always_tells_host(lane())) tell_host(ticket);
}

void CudaStream::do_wait(Event event) {
  if (is_host_lane(event.lane)) {
    if (context_.counters.passed(event)) return;
    cuda::wait_counter(context_.driver, handle_, context_.counters.device(event.lane),
                       cuda::TicketCounters::low(event.ticket));
    return;
  }
  const auto& other = static_cast<const CudaStream&>(device().stream(event.lane));
  if (cudaEvent_t recorded = other.events_.find(event.ticket)) {
    STRATA_CUDA_CHECK(cudaStreamWaitEvent(handle_, recorded, 0));
  }
}

void CudaStream::do_copy(void* to, const void* from, std::size_t bytes) {
  for_each_piece(to, from, bytes, [&](std::size_t offset, std::size_t n) {
    STRATA_CUDA_CHECK(cudaMemcpyAsync(static_cast<std::byte*>(to) + offset,
                                      static_cast<const std::byte*>(from) + offset, n,
                                      cudaMemcpyDefault, handle_));
  });
}

void CudaStream::do_set(void* to, std::uint8_t value, std::size_t bytes) {
  for_each_piece(to, to, bytes, [&](std::size_t offset, std::size_t n) {
    STRATA_CUDA_CHECK(cudaMemsetAsync(static_cast<std::byte*>(to) + offset, value, n, handle_));
  });
}

LaneState CudaStream::state() const {
  return progress_.state(context_.counters.last_passed(lane()),
                         context_.counters.last_begun(lane()));
}

void CudaStream::do_announce(const SubmissionLabel& label) {
  progress_.announce(label);
  range_.emplace(context_.profiler, lane(), label.name, label.tag);
}

void CudaStream::do_begin(std::uint64_t ticket) {
  if (progress_.begin(ticket)) {
    cuda::write_counter(context_.driver, handle_, context_.counters.device_begun(lane()),
                        cuda::TicketCounters::low(ticket));
  }
  context_.timer.begin({lane(), ticket}, handle_);
}

void CudaStream::do_end(std::uint64_t ticket) {
  context_.timer.end({lane(), ticket}, handle_);
  submitted_ = ticket;
  if (progress_.due(ticket)) tell_host(ticket);
  range_.reset();
}

cudaStream_t native_stream(Stream& stream) {
  const auto* cuda_stream = dynamic_cast<const CudaStream*>(&stream);
  if (cuda_stream == nullptr) {
    throw BackendError("lane " + std::string(name_of(stream.lane())) +
                       " has no CUDA stream: CUDA work goes to a device lane of a CUDA device");
  }
  return cuda_stream->handle();
}

}  // namespace strata
