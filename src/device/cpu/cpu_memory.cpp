// Maps anonymous memory. The kernel promises more than it has, so a request larger than the machine
// or than its control group leaves is refused here, as a GPU would.

#include "device/cpu/cpu_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/host_memory.h"
#include "strata/base/start_thread.h"

namespace strata {

namespace {

std::size_t pages_in_bytes(int which) {
  const auto of = [](int name) {
    return static_cast<std::size_t>(std::max<long>(sysconf(name), 0));
  };
  return of(which) * of(_SC_PAGESIZE);
}

class Mapping final : public DeviceMemory {
 public:
  Mapping(void* data, std::size_t bytes, std::size_t& in_use)
      : data_(static_cast<std::byte*>(data)), bytes_(bytes), in_use_(in_use) {
    in_use_ += bytes_;
  }
  ~Mapping() override {
    munmap(data_, bytes_);
    in_use_ -= bytes_;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  [[nodiscard]] std::byte* data() const override { return data_; }

 private:
  std::byte* data_;
  std::size_t bytes_;
  std::size_t& in_use_;
};

/// The most that could be taken now.
std::size_t most_of(const std::optional<GroupMemory>& group) {
  return std::min(host_memory_bytes(group), group ? group->free_bytes : host_memory_bytes(group));
}

[[noreturn]] void refuse(std::size_t bytes, const std::optional<GroupMemory>& group) {
  const std::size_t free = std::min(most_of(group), pages_in_bytes(_SC_AVPHYS_PAGES));
  throw OutOfMemory("host memory: " + format_bytes(bytes) + " were asked for, " +
                    format_bytes(free) + " of " + format_bytes(host_memory_bytes(group)) +
                    " are free" + address_limit());
}

}  // namespace

std::size_t host_memory_bytes(const std::optional<GroupMemory>& group) {
  const std::size_t machine = pages_in_bytes(_SC_PHYS_PAGES);
  return group ? std::min(machine, group->limit_bytes) : machine;
}

std::unique_ptr<DeviceMemory> allocate_host_memory(std::size_t bytes, std::size_t& in_use) {
  const std::size_t mapped = std::max<std::size_t>(bytes, 1);
  // The kernel would promise even what can never fit, and end the process when it is touched. To
  // look whether a few pages fit would take longer than to map them.
  constexpr std::size_t kHugePage = 2 * kMiB;
  if (mapped >= kHugePage) {
    const std::optional<GroupMemory> group = read_group_memory();
    if (mapped > most_of(group)) refuse(bytes, group);
  }
  void* const data =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) refuse(bytes, read_group_memory());
  if (mapped >= kHugePage)
    madvise(data, mapped, MADV_HUGEPAGE);  // a hint: failure costs speed only
  return std::make_unique<Mapping>(data, mapped, in_use);
}

}  // namespace strata
