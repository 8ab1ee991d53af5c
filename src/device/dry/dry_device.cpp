// The abstract machine without work: streams drop what they are given after the base class has
// traced it. Device memory is reserved without access, so code that touches it fails at once.

#include "device/dry/dry_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <string>

#include "strata/base/bytes.h"
#include "strata/base/start_thread.h"
#include "strata/device/out_of_addresses.h"

namespace strata {

namespace {

/// Address space that takes memory page by page, where it is written to.
class Reservation final : public DeviceMemory {
 public:
  Reservation(Space space, std::size_t bytes) : bytes_(std::max<std::size_t>(bytes, 1)) {
    const int access = space == Space::kDevice ? PROT_NONE : PROT_READ | PROT_WRITE;
    void* const data =
        mmap(nullptr, bytes_, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) {
      const std::string why = std::strerror(errno);
      const std::string limit = address_limit();
      throw OutOfAddresses("a plan needs " + format_bytes(bytes) + " of addresses at once" +
                           (limit.empty()
                                ? "; " + why + ". Let the system overcommit (vm.overcommit_memory)"
                                : limit + ". Raise that limit"));
    }
    madvise(data, bytes_, MADV_NOHUGEPAGE);  // a hint: a written byte takes a small page
    data_ = static_cast<std::byte*>(data);
  }
  ~Reservation() override { munmap(data_, bytes_); }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  [[nodiscard]] std::byte* data() const override { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_;
};

class DryStream final : public Stream {
 public:
  using Stream::Stream;
  void enqueue_host(std::function<void()>) override {}

 protected:
  void do_record(std::uint64_t) override {}
  void do_wait(Event) override {}
  void do_copy(void*, const void*, std::size_t) override {}
  void do_set(void*, std::uint8_t, std::size_t) override {}
  void do_begin(std::uint64_t) override {}
  void do_end(std::uint64_t) override {}
};

class DryDevice final : public Device {
 public:
  explicit DryDevice(const DeviceOptions& options) : Device(options) {
    for (int i = 0; i < kLaneCount; ++i) {
      const auto lane = static_cast<Lane>(i);
      set_stream(lane, std::make_unique<DryStream>(*this, lane));
    }
  }
  ~DryDevice() override { destroy_streams(); }

  [[nodiscard]] DeviceInfo info() const override { return {.backend = "dry", .name = "dry"}; }
  [[nodiscard]] std::unique_ptr<DeviceMemory> allocate(Space space, std::size_t bytes) override {
    ++allocations_;
    return std::make_unique<Reservation>(space, bytes);
  }
  [[nodiscard]] std::size_t device_bytes_in_use() const override { return 0; }
  void throw_if_failed() override {}

 protected:
  void do_wait(Event) override {}
};

}  // namespace

std::unique_ptr<Device> make_dry_device(const DeviceOptions& options) {
  return std::make_unique<DryDevice>(options);
}

}  // namespace strata
