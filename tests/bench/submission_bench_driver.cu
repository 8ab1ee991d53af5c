// What the driver takes for a launch, a copy, an event and a wait with nothing around them: no
// submission can be cheaper than the calls that it ends in.

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>

#include "bench/submission_bench.h"

namespace strata::bench {
namespace {

constexpr std::size_t kBytes = 4096;
/// More than are recorded between two synchronisations.
constexpr std::size_t kEvents = 256;

void check(cudaError_t code) {
  if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
}

__global__ void nothing(int) {}

/// Two streams, events and a little memory of either kind.
class Driver {
 public:
  Driver() {
    for (cudaStream_t& stream : streams_) {
      check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    for (cudaEvent_t& event : events_) {
      check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    }
    check(cudaMalloc(&device_, kBytes));
    check(cudaHostAlloc(&host_, kBytes, cudaHostAllocPortable));
  }
  // The program ends after this one: whether its handles could be given back changes nothing.
  ~Driver() {
    cudaFreeHost(host_);
    cudaFree(device_);
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  void launch() {
    cudaLaunchConfig_t config{};
    config.gridDim = 1;
    config.blockDim = 32;
    config.stream = streams_[0];
    check(cudaLaunchKernelEx(&config, nothing, 1));
  }
  void copy_in() { check(cudaMemcpyAsync(device_, host_, kBytes, cudaMemcpyDefault, streams_[0])); }
  void set() { check(cudaMemsetAsync(device_, 0, kBytes, streams_[0])); }
  void record_and_wait() {
    cudaEvent_t event = events_[next_++ % kEvents];
    check(cudaEventRecord(event, streams_[0]));
    check(cudaStreamWaitEvent(streams_[1], event, 0));
  }

 private:
  std::array<cudaStream_t, 2> streams_{};
  std::array<cudaEvent_t, kEvents> events_{};
  void* device_ = nullptr;
  void* host_ = nullptr;
  std::size_t next_ = 0;
};

}  // namespace

std::vector<SubmissionCase> driver_cases() {
  const auto driver = std::make_shared<Driver>();  // lives as long as one of the cases
  const auto synchronize = [] { check(cudaDeviceSynchronize()); };
  return {{"driver: launch", [driver] { driver->launch(); }, synchronize},
          {"driver: copy in 4 KiB", [driver] { driver->copy_in(); }, synchronize},
          {"driver: set 4 KiB", [driver] { driver->set(); }, synchronize},
          {"driver: record, wait", [driver] { driver->record_and_wait(); }, synchronize}};
}

}  // namespace strata::bench
