// A device in the place of a GPU, on host threads: of the lanes that would be streams it says only
// what a driver's counters tell, it can be lost as a GPU can, and tests see and refuse what is
// asked of it. CPU kernels run on it, so sessions train on it as on a cpu device.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "device/cpu/executor.h"
#include "strata/device/device.h"
#include "strata/ops/backend.h"

namespace strata {

class FakeDevice final : public Device {
 public:
  /// What a test does when the submitting thread comes to these places. Each may throw but `frees`,
  /// and each may be left out.
  struct Hooks {
    std::function<void()> allocates = nullptr;         ///< before memory is taken
    std::function<void()> frees = nullptr;             ///< before it is given back
    std::function<void(Event event)> waits = nullptr;  ///< before the event is waited for
  };

  explicit FakeDevice(const DeviceOptions& options) : FakeDevice(options, Hooks()) {}
  FakeDevice(const DeviceOptions& options, Hooks hooks);
  ~FakeDevice() override;

  /// From now on work of the lanes that would be streams does not run, and whoever waits for one or
  /// asks gets a BackendError at once. Those of the host go on.
  void lose() { lost_ = true; }

  [[nodiscard]] DeviceInfo info() const override;
  [[nodiscard]] std::unique_ptr<DeviceMemory> allocate(Space space, std::size_t bytes) override;
  [[nodiscard]] std::size_t device_bytes_in_use() const override { return device_bytes_; }
  void throw_if_failed() override;
  [[nodiscard]] LaneState lane_state(Lane lane) const override;

 protected:
  void do_wait(Event event) override;

 private:
  class FakeStream;
  class FakeMemory;

  Hooks hooks_;
  std::atomic<bool> lost_ = false;
  std::size_t device_bytes_ = 0;
  std::size_t host_bytes_ = 0;
  std::unique_ptr<Executor> executor_;
};

/// Returns a backend with this device and the kernels of the CPU.
[[nodiscard]] Backend make_fake_backend(std::unique_ptr<FakeDevice> device,
                                        const BackendOptions& options);

}  // namespace strata
