// Wraps the cpu device: each submission becomes one of the inner device, so tickets and waits are
// the same on both.

#include "doctor/planted_device.h"

#include <cstring>
#include <utility>
#include <vector>

namespace strata::test {

namespace {

class FaultyStream final : public Stream {
 public:
  FaultyStream(Device& device, Stream& inner, const CopyFault& fault)
      : Stream(device, inner.lane()), inner_(inner), fault_(fault) {}

  void enqueue_host(std::function<void()> task) override { tasks_.push_back(std::move(task)); }

 protected:
  void do_record(std::uint64_t) override {}
  void do_wait(Event event) override { inner_.wait(event, WaitFor::kFilled); }
  void do_copy(void* to, const void* from, std::size_t bytes) override {
    PlannedCopy copy{static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes};
    fault_(lane(), copy);
    enqueue_host([copy] { std::memcpy(copy.to, copy.from, copy.bytes); });
  }
  void do_set(void* to, std::uint8_t value, std::size_t bytes) override {
    enqueue_host([=] { std::memset(to, value, bytes); });
  }
  void do_begin(std::uint64_t) override { tasks_.clear(); }
  void do_end(std::uint64_t) override {
    inner_.submit({.name = "passed on"}, {}, [&] {
      inner_.enqueue_host([all = std::exchange(tasks_, {})] {
        for (const auto& task : all) task();
      });
    });
  }

 private:
  Stream& inner_;
  const CopyFault& fault_;
  std::vector<std::function<void()>> tasks_;
};

class FaultyDevice final : public Device {
 public:
  FaultyDevice(const DeviceOptions& options, std::unique_ptr<Device> inner, CopyFault fault)
      : Device(options), inner_(std::move(inner)), fault_(std::move(fault)) {
    for (int i = 0; i < kLaneCount; ++i) {
      const auto lane = static_cast<Lane>(i);
      set_stream(lane, std::make_unique<FaultyStream>(*this, inner_->stream(lane), fault_));
    }
  }
  ~FaultyDevice() override { destroy_streams(); }

  [[nodiscard]] DeviceInfo info() const override { return inner_->info(); }
  [[nodiscard]] std::unique_ptr<DeviceMemory> allocate(Space space, std::size_t bytes) override {
    ++allocations_;
    return inner_->allocate(space, bytes);
  }
  [[nodiscard]] std::size_t device_bytes_in_use() const override {
    return inner_->device_bytes_in_use();
  }
  void throw_if_failed() override { inner_->throw_if_failed(); }
  [[nodiscard]] double host_busy_s() const override { return inner_->host_busy_s(); }

 protected:
  void do_wait(Event event) override { inner_->wait(event); }

 private:
  std::unique_ptr<Device> inner_;
  CopyFault fault_;
};

}  // namespace

Backend make_backend_with(const CopyFault& fault, const BackendOptions& options) {
  BackendOptions inner = options;
  inner.device.trace = nullptr;  // the outer one records
  Backend backend = make_backend(BackendKind::kCpu, inner);
  backend.device = std::make_unique<FaultyDevice>(options.device, std::move(backend.device), fault);
  return backend;
}

}  // namespace strata::test
