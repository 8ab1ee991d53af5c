// Selects the device, makes its lanes and refuses to start if a stream that waits would stop the
// others. A lost device is noticed when the submitting thread waits, and thrown there.

#include "src/device/cuda/cuda_device.h"

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "src/device/cuda/architectures.h"
#include "src/device/cuda/check.h"
#include "src/device/cuda/gpu_info.h"
#include "src/device/cuda/memory.h"
#include "src/device/cuda/self_test.h"
#include "strata/base/error.h"
#include "strata/base/version.h"

namespace strata {
namespace {

constexpr std::array kDeviceLanes{Lane::kCompute, Lane::kWeightsIn, Lane::kActivationsIn,
                                  Lane::kOut, Lane::kComm};
static_assert(kDeviceLanes.size() + kHostLaneCount == kLaneCount);

/// Throws BackendError that says how to build the program for the GPU if it has no code for it.
void require_code(int device_index) {
  const int capability = cuda::compute_capability(device_index);
  const std::string_view architectures = build_info().gpu_architectures;
  if (cuda::code_for(architectures, capability)) return;
  cudaDeviceProp properties{};
  STRATA_CUDA_CHECK(cudaGetDeviceProperties(&properties, device_index));
  throw BackendError("CUDA device " + std::to_string(device_index) + ": " +
                     cuda::refusal(properties.name, capability, architectures));
}

/// Makes the device the calling thread's, and creates its context.
int select(int device_index) {
  cuda::prepare_connections();
  cuda::require_connections();
  int count = 0;
  STRATA_CUDA_CHECK(cudaGetDeviceCount(&count));
  if (device_index < 0 || device_index >= count) {
    throw BackendError("CUDA device " + std::to_string(device_index) + " was asked for, but " +
                       std::to_string(count) + " are visible: check CUDA_VISIBLE_DEVICES");
  }
  require_code(device_index);
  STRATA_CUDA_CHECK(cudaSetDevice(device_index));
  STRATA_CUDA_CHECK(cudaFree(nullptr));
  return device_index;
}

}  // namespace

CudaDevice::CudaDevice(const DeviceOptions& options, std::span<const int> cores)
    : Device(options),
      index_(select(options.device_index)),
      context_{
          .driver = cuda::load_driver(), .counters = {}, .timer = cuda::SpanTimer(options.trace)},
      meter_(index_) {
  std::vector<cudaStream_t> handles;
  for (Lane lane : kDeviceLanes) {
    auto created = std::make_unique<CudaStream>(*this, lane, context_);
    handles.push_back(created->handle());
    set_stream(lane, std::move(created));
  }
  cuda::require_independent(context_.driver, handles);
  const int core = cores.empty() ? -1 : cores.front();
  try {
    set_stream(Lane::kHost, std::make_unique<HostLane>(*this, Lane::kHost, context_, core));
    set_stream(Lane::kSave, std::make_unique<HostLane>(*this, Lane::kSave, context_, -1));
  } catch (...) {
    destroy_streams();  // a thread that has started uses the context, which goes before the streams
    throw;
  }
}

CudaDevice::~CudaDevice() {
  for (Lane lane : kDeviceLanes) {
    const cudaError_t code = cudaStreamSynchronize(device_lane(lane).handle());
    // Counters of a lost device stand still: nobody may go on waiting for them.
    if (code != cudaSuccess) context_.host_failure.abandon();
    STRATA_CUDA_CHECK_IN_DESTRUCTOR(code);
  }
  destroy_streams();
}

DeviceInfo CudaDevice::info() const { return cuda::gpu_info(index_); }

std::unique_ptr<DeviceMemory> CudaDevice::allocate(Space space, std::size_t bytes) {
  ++allocations_;
  switch (space) {
    case Space::kDevice: return cuda::allocate_device(bytes);
    case Space::kPinned: return cuda::allocate_pinned(bytes);
    case Space::kPageable: break;
  }
  return cuda::allocate_pageable(bytes);
}

std::size_t CudaDevice::device_bytes_in_use() const { return meter_.bytes_in_use(); }

LaneState CudaDevice::lane_state(Lane lane) const {
  return is_host_lane(lane) ? static_cast<const HostLane&>(stream(lane)).state()
                            : static_cast<const CudaStream&>(stream(lane)).state();
}

void CudaDevice::throw_if_failed() {
  context_.host_failure.throw_if_failed();
  require_alive();
}

void CudaDevice::require_alive() {
  for (Lane lane : kDeviceLanes) {
    const cudaError_t state = cudaStreamQuery(device_lane(lane).handle());
    if (state == cudaSuccess || state == cudaErrorNotReady) continue;
    context_.host_failure.abandon();
    STRATA_CUDA_CHECK(state);
  }
}

void CudaDevice::wait_for_host_lane(Event event) {
  constexpr std::chrono::milliseconds kBetweenChecks{100};
  const HostLane& lane = host_lane(event.lane);
  try {
    while (!lane.wait_on_host(event.ticket, kBetweenChecks)) require_alive();
  } catch (...) {
    // The lane skips what is left, but what it runs has to end before its memory may go.
    while (!lane.wait_on_host(event.ticket, kBetweenChecks)) {
    }
    throw;
  }
}

void CudaDevice::do_wait(Event event) {
  if (is_host_lane(event.lane)) {
    wait_for_host_lane(event);
  } else {
    try {
      device_lane(event.lane).wait_on_host(event.ticket);
    } catch (...) {
      context_.host_failure.abandon();  // counters of a lost device stand still
      throw;
    }
  }
  context_.timer.flush();
}

}  // namespace strata
