// Implements the fake device. Its streams are those of the cpu device, of which each submission
// writes as it begins and ends what a GPU would write to its counters.
#include "support/fake_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "device/cpu/cpu_memory.h"
#include "device/queue_progress.h"
#include "device/task.h"
#include "strata/base/error.h"
#include "strata/base/host_memory.h"

namespace strata {

class FakeDevice::FakeStream final : public Stream {
 public:
  FakeStream(FakeDevice& device, Lane lane) : Stream(device, lane), fake_(device) {}

  void enqueue_host(std::function<void()> task) override {
    append([this, task = std::move(task)] {
      if (!lost()) task();
    });
  }
  [[nodiscard]] LaneState state() const { return progress_.state(passed_, begun_); }

 protected:
  [[nodiscard]] bool queues_in_host_memory() const override { return true; }
  void do_record(std::uint64_t) override {}
  void do_wait(Event event) override {
    std::uint64_t& ticket = work_.after[static_cast<std::size_t>(event.lane)];
    ticket = std::max(ticket, event.ticket);
  }
  void do_copy(void* to, const void* from, std::size_t bytes) override {
    enqueue_host([=] { std::memcpy(to, from, bytes); });
  }
  void do_set(void* to, std::uint8_t value, std::size_t bytes) override {
    enqueue_host([=] { std::memset(to, value, bytes); });
  }
  void do_announce(const SubmissionLabel& label) override {
    work_.label = label;
    progress_.announce(label);
  }
  void do_begin(std::uint64_t ticket) override {
    work_.ticket = ticket;
    work_.task = nullptr;
    if (progress_.begin(ticket)) write(begun_, ticket);
  }
  void do_end(std::uint64_t ticket) override {
    write(passed_, ticket);
    progress_.told(ticket);
    fake_.executor_->push(lane(), std::exchange(work_, {}));
  }

 private:
  [[nodiscard]] bool lost() const { return fake_.lost_ && !is_host_lane(lane()); }
  void append(std::function<void()> task) { append_task(work_.task, std::move(task)); }
  void write(std::atomic<std::uint32_t>& counter, std::uint64_t ticket) {
    append([this, &counter, ticket] {
      if (!lost()) counter = static_cast<std::uint32_t>(ticket);
    });
  }

  FakeDevice& fake_;
  Work work_;  ///< the next submission, with the waits so far
  QueueProgress progress_;
  std::atomic<std::uint32_t> passed_ = 0;
  std::atomic<std::uint32_t> begun_ = 0;
};

class FakeDevice::FakeMemory final : public DeviceMemory {
 public:
  FakeMemory(const FakeDevice& device, std::unique_ptr<DeviceMemory> memory)
      : device_(device), memory_(std::move(memory)) {}
  ~FakeMemory() override {
    if (device_.hooks_.frees) device_.hooks_.frees();
  }
  FakeMemory(const FakeMemory&) = delete;
  FakeMemory& operator=(const FakeMemory&) = delete;
  [[nodiscard]] std::byte* data() const override { return memory_->data(); }

 private:
  const FakeDevice& device_;
  std::unique_ptr<DeviceMemory> memory_;
};

FakeDevice::FakeDevice(const DeviceOptions& options, Hooks hooks)
    : Device(options),
      hooks_(std::move(hooks)),
      executor_(make_executor(options, std::chrono::milliseconds(20))) {
  for (int i = 0; i < kLaneCount; ++i) {
    const auto lane = static_cast<Lane>(i);
    set_stream(lane, std::make_unique<FakeStream>(*this, lane));
  }
}

FakeDevice::~FakeDevice() {
  executor_.reset();  // what runs uses the streams
  destroy_streams();
}

DeviceInfo FakeDevice::info() const {
  const std::size_t bytes = host_memory_bytes(read_host_memory().group);
  return {.backend = "cpu", .name = "a fake device", .memory_bytes = bytes, .free_bytes = bytes};
}

std::unique_ptr<DeviceMemory> FakeDevice::allocate(Space space, std::size_t bytes) {
  ++allocations_;
  if (hooks_.allocates) hooks_.allocates();
  return std::make_unique<FakeMemory>(
      *this, allocate_host_memory(bytes, space == Space::kDevice ? device_bytes_ : host_bytes_));
}

void FakeDevice::throw_if_failed() {
  executor_->throw_if_failed();
  if (lost_) throw BackendError("the device is lost");
}

LaneState FakeDevice::lane_state(Lane lane) const {
  return is_host_lane(lane) ? executor_->state(lane)
                            : static_cast<const FakeStream&>(stream(lane)).state();
}

void FakeDevice::do_wait(Event event) {
  if (hooks_.waits) hooks_.waits(event);
  if (lost_ && !is_host_lane(event.lane)) throw BackendError("the device is lost");
  executor_->wait(event);
}

Backend make_fake_backend(std::unique_ptr<FakeDevice> device, const BackendOptions& options) {
  Backend backend;
  backend.pool = std::make_shared<ThreadPool>(std::max(options.threads, 1));
  backend.device = std::move(device);
  backend.kernels = make_cpu_kernels(backend.pool);
  return backend;
}

}  // namespace strata
