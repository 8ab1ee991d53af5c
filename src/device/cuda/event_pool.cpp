// Records, finds and takes back events. When all are in use the middle one is asked whether it has
// passed: if so, the older half is idle again, and if not, the pool grows by one.

#include "src/device/cuda/event_pool.h"

#include <algorithm>
#include <string>

#include "src/device/cuda/check.h"
#include "strata/base/error.h"

namespace strata::cuda {
namespace {

cudaEvent_t create_event() {
  cudaEvent_t event = nullptr;
  STRATA_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

/// True if everything before the event has finished.
bool has_passed(cudaEvent_t event) {
  const cudaError_t state = cudaEventQuery(event);
  if (state == cudaErrorNotReady) return false;
  STRATA_CUDA_CHECK(state);
  return true;
}

}  // namespace

EventPool::EventPool(int initial) {
  for (int i = 0; i < initial; ++i) ring_.push_back({.ticket = 0, .event = create_event()});
}

EventPool::~EventPool() {
  for (const Recorded& r : ring_) STRATA_CUDA_CHECK_IN_DESTRUCTOR(cudaEventDestroy(r.event));
}

// An event that has passed says so for all before it, so one question about the middle gives half
// of the pool back. A pool stops growing when it is twice as deep as its lane runs ahead.
void EventPool::make_room() {
  const std::size_t half = (recorded_ + 1) / 2;
  if (half > 0 && has_passed(at(half - 1).event)) {
    passed_ = at(half - 1).ticket;
    oldest_ = (oldest_ + half) % ring_.size();
    recorded_ -= half;
    return;
  }
  std::rotate(ring_.begin(), ring_.begin() + static_cast<std::ptrdiff_t>(oldest_), ring_.end());
  oldest_ = 0;
  ring_.push_back({.ticket = 0, .event = create_event()});
}

void EventPool::record(std::uint64_t ticket, cudaStream_t stream) {
  if (ticket <= newest_) return;
  if (recorded_ == ring_.size()) make_room();
  Recorded& next = ring_[(oldest_ + recorded_) % ring_.size()];
  STRATA_CUDA_CHECK(cudaEventRecord(next.event, stream));
  next.ticket = ticket;
  ++recorded_;
  newest_ = ticket;
}

cudaEvent_t EventPool::find(std::uint64_t ticket) const {
  if (ticket <= passed_) return nullptr;
  std::size_t begin = 0;  // the one wanted is the first of [begin, end] that is not older
  std::size_t end = recorded_;
  while (begin < end) {
    const std::size_t middle = begin + (end - begin) / 2;
    if (at(middle).ticket < ticket) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  if (begin == recorded_) {
    throw BackendError("ticket " + std::to_string(ticket) +
                       " was never recorded: wait only for events that Stream::record gave");
  }
  return at(begin).event;
}

}  // namespace strata::cuda
