// Times spans by CUDA events against an origin on the host's clock, which is taken anew for every
// window so that f32 milliseconds stay fine enough.

#include "src/device/cuda/span_timer.h"

#include "src/device/cuda/check.h"

namespace strata::cuda {
namespace {

std::size_t index(Lane lane) { return static_cast<std::size_t>(lane); }

}  // namespace

SpanTimer::SpanTimer(TraceSink* sink) : sink_(sink) {
  if (sink_ == nullptr) return;
  STRATA_CUDA_CHECK(cudaStreamCreateWithFlags(&clock_, cudaStreamNonBlocking));
  STRATA_CUDA_CHECK(cudaEventCreate(&origin_));
}

SpanTimer::~SpanTimer() {
  for (const Span& span : spans_) {
    STRATA_CUDA_CHECK_IN_DESTRUCTOR(cudaEventDestroy(span.begin));
    STRATA_CUDA_CHECK_IN_DESTRUCTOR(cudaEventDestroy(span.end));
  }
  for (cudaEvent_t event : idle_) STRATA_CUDA_CHECK_IN_DESTRUCTOR(cudaEventDestroy(event));
  for (cudaEvent_t event : open_) {
    if (event != nullptr) STRATA_CUDA_CHECK_IN_DESTRUCTOR(cudaEventDestroy(event));
  }
  if (origin_ != nullptr) STRATA_CUDA_CHECK_IN_DESTRUCTOR(cudaEventDestroy(origin_));
  if (clock_ != nullptr) STRATA_CUDA_CHECK_IN_DESTRUCTOR(cudaStreamDestroy(clock_));
}

double SpanTimer::now_us() const {
  const std::chrono::duration<double, std::micro> since = std::chrono::steady_clock::now() - start_;
  return since.count();
}

cudaEvent_t SpanTimer::take() {
  cudaEvent_t event = nullptr;
  if (idle_.empty()) {
    STRATA_CUDA_CHECK(cudaEventCreate(&event));
  } else {
    event = idle_.back();
    idle_.pop_back();
  }
  return event;
}

// Elapsed times come as f32 milliseconds, which are coarse far from the origin: every window of
// spans gets its own.
void SpanTimer::set_origin() {
  STRATA_CUDA_CHECK(cudaEventRecord(origin_, clock_));
  STRATA_CUDA_CHECK(cudaEventSynchronize(origin_));
  origin_us_ = now_us();
}

double SpanTimer::at_us(cudaEvent_t event) const {
  float elapsed_ms = 0;
  STRATA_CUDA_CHECK(cudaEventElapsedTime(&elapsed_ms, origin_, event));
  return origin_us_ + 1e3 * static_cast<double>(elapsed_ms);
}

void SpanTimer::begin(Event at, cudaStream_t stream) {
  if (!active()) return;
  if (spans_.empty()) set_origin();
  cudaEvent_t& event = open_[index(at.lane)];
  if (event == nullptr) event = take();
  STRATA_CUDA_CHECK(cudaEventRecord(event, stream));
}

void SpanTimer::end(Event at, cudaStream_t stream) {
  cudaEvent_t& begin = open_[index(at.lane)];
  if (begin == nullptr) return;
  Span span{.at = at, .begin = begin, .end = take()};
  begin = nullptr;
  spans_.push_back(span);
  STRATA_CUDA_CHECK(cudaEventRecord(span.end, stream));
}

void SpanTimer::flush() {
  std::deque<Span> unfinished;
  for (const Span& span : spans_) {
    const cudaError_t state = cudaEventQuery(span.end);
    if (state == cudaErrorNotReady) {
      unfinished.push_back(span);
      continue;
    }
    STRATA_CUDA_CHECK(state);
    sink_->ran(span.at.lane, span.at.ticket, at_us(span.begin), at_us(span.end));
    idle_.push_back(span.begin);
    idle_.push_back(span.end);
  }
  spans_ = std::move(unfinished);
}

}  // namespace strata::cuda
