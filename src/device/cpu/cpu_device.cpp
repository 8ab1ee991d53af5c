// The abstract machine on host threads. A stream gathers the waits and the task of the next
// submission and pushes both to the executor; copies and sets are tasks like all others.

#include "device/cpu/cpu_device.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "device/cpu/cpu_memory.h"
#include "device/cpu/executor.h"
#include "device/task.h"
#include "strata/base/host_memory.h"

namespace strata {

namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

class CpuStream final : public Stream {
 public:
  CpuStream(Device& device, Lane lane, Executor& executor)
      : Stream(device, lane), executor_(executor) {}

  void enqueue_host(std::function<void()> task) override {
    append_task(work_.task, std::move(task));
  }

 protected:
  [[nodiscard]] bool queues_in_host_memory() const override { return true; }
  void do_record(std::uint64_t) override {}

  void do_wait(Event event) override {
    std::uint64_t& ticket = work_.after[static_cast<std::size_t>(event.lane)];
    ticket = std::max(ticket, event.ticket);
  }

  void do_copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) enqueue_host([=] { std::memcpy(to, from, bytes); });
  }

  void do_set(void* to, std::uint8_t value, std::size_t bytes) override {
    if (bytes > 0) enqueue_host([=] { std::memset(to, value, bytes); });
  }

  void do_announce(const SubmissionLabel& label) override { work_.label = label; }

  void do_begin(std::uint64_t ticket) override {
    const TraceSink* trace = device().options().trace;
    work_.ticket = ticket;
    work_.task = nullptr;  // left by a submission that threw
    work_.timed = trace != nullptr && trace->active();
  }

  void do_end(std::uint64_t) override { executor_.push(lane(), std::exchange(work_, {})); }

 private:
  Executor& executor_;
  Work work_;  ///< the next submission, with the waits so far
};

class CpuDevice final : public Device {
 public:
  CpuDevice(const DeviceOptions& options, std::chrono::milliseconds silence)
      : Device(options), executor_(make_executor(options, silence)) {
    for (int i = 0; i < kLaneCount; ++i) {
      const auto lane = static_cast<Lane>(i);
      set_stream(lane, std::make_unique<CpuStream>(*this, lane, *executor_));
    }
  }
  ~CpuDevice() override { destroy_streams(); }

  [[nodiscard]] DeviceInfo info() const override {
    static const std::string name = processor_name();  // hundreds of lines to read
    const HostMemory host = read_host_memory();
    const std::size_t available = host.available_bytes.value_or(0);
    return {.backend = "cpu",
            .name = name,
            .memory_bytes = host_memory_bytes(host.group),
            .free_bytes = host.group ? std::min(available, host.group->free_bytes) : available};
  }

  [[nodiscard]] std::unique_ptr<DeviceMemory> allocate(Space space, std::size_t bytes) override {
    ++allocations_;
    return allocate_host_memory(bytes, space == Space::kDevice ? device_bytes_ : host_bytes_);
  }

  [[nodiscard]] std::size_t device_bytes_in_use() const override { return device_bytes_; }
  void throw_if_failed() override { executor_->throw_if_failed(); }
  [[nodiscard]] double host_busy_s() const override { return executor_->host_busy_s(); }
  [[nodiscard]] LaneState lane_state(Lane lane) const override { return executor_->state(lane); }

 protected:
  void do_wait(Event event) override { executor_->wait(event); }

 private:
  std::size_t device_bytes_ = 0;
  std::size_t host_bytes_ = 0;
  std::unique_ptr<Executor> executor_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(const DeviceOptions& options,
                                        std::chrono::milliseconds silence) {
  return std::make_unique<CpuDevice>(options, silence);
}

}  // namespace strata
