// Records, finds and takes back events. Only the oldest recorded event is asked whether it has
// passed, which costs one query per record at most.

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

}  // namespace

EventPool::EventPool(int initial) {
  for (int i = 0; i < initial; ++i) idle_.push_back(create_event());
}

EventPool::~EventPool() {
  for (const Recorded& r : recorded_) STRATA_CUDA_CHECK_IN_DESTRUCTOR(cudaEventDestroy(r.event));
  for (cudaEvent_t event : idle_) STRATA_CUDA_CHECK_IN_DESTRUCTOR(cudaEventDestroy(event));
}

cudaEvent_t EventPool::take() {
  if (idle_.empty() && !recorded_.empty()) {
    const cudaError_t state = cudaEventQuery(recorded_.front().event);
    if (state == cudaSuccess) {
      passed_ = recorded_.front().ticket;
      idle_.push_back(recorded_.front().event);
      recorded_.pop_front();
    } else if (state != cudaErrorNotReady) {
      STRATA_CUDA_CHECK(state);
    }
  }
  if (idle_.empty()) return create_event();
  cudaEvent_t event = idle_.front();
  idle_.pop_front();
  return event;
}

void EventPool::record(std::uint64_t ticket, cudaStream_t stream) {
  if (ticket <= newest_) return;
  cudaEvent_t event = take();
  recorded_.push_back({ticket, event});
  newest_ = ticket;
  STRATA_CUDA_CHECK(cudaEventRecord(event, stream));
}

cudaEvent_t EventPool::find(std::uint64_t ticket) const {
  if (ticket <= passed_) return nullptr;
  const auto at = std::ranges::lower_bound(recorded_, ticket, {}, &Recorded::ticket);
  if (at == recorded_.end()) {
    throw BackendError("ticket " + std::to_string(ticket) +
                       " was never recorded: wait only for events that Stream::record gave");
  }
  return at->event;
}

}  // namespace strata::cuda
