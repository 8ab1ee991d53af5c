// Takes device, pinned and pageable memory. Pinned memory is mapped, touched by all usable cores
// and then registered in slices, since zeroing pages is most of the work.

#include "src/device/cuda/memory.h"

#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "src/device/cuda/check.h"
#include "strata/base/error.h"
#include "strata/base/host_memory.h"
#include "strata/base/start_thread.h"
#include "strata/base/thread_pool.h"

namespace strata::cuda {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = 2 * kMiB;

[[noreturn]] void throw_host_full(std::string_view kind, std::size_t bytes, const char* why) {
  throw OutOfMemory("cannot take " + format_bytes(bytes) + " of " + std::string(kind) +
                    " host memory (" + why + "); " +
                    format_bytes(read_host_memory().available_bytes.value_or(0)) +
                    " are free. Lower memory.host_limit or the parts of the plan that live there");
}

/// Anonymous memory, unmapped on destruction.
class Mapping {
 public:
  Mapping(std::string_view kind, std::size_t bytes, std::size_t alignment)
      : length_(round_up(std::max<std::size_t>(bytes, 1), kPage) + alignment) {
    void* base = mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) throw_host_full(kind, bytes, std::strerror(errno));
    base_ = static_cast<std::byte*>(base);
    const auto address = reinterpret_cast<std::uintptr_t>(base);
    data_ = base_ + (round_up(address, alignment) - address);
  }
  ~Mapping() { munmap(base_, length_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::size_t length_;
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
};

/// Asks for huge pages. Where there are none (switched off, or an old kernel) everything works,
/// only slower.
void prefer_huge_pages(std::byte* data, std::size_t bytes) {
  madvise(data, round_up(bytes, kPage), MADV_HUGEPAGE);
}

class PageableMemory final : public DeviceMemory {
 public:
  explicit PageableMemory(std::size_t bytes) : mapping_("pageable", bytes, kHugePage) {
    prefer_huge_pages(mapping_.data(), bytes);
  }
  [[nodiscard]] std::byte* data() const override { return mapping_.data(); }

 private:
  Mapping mapping_;
};

class CudaMemory final : public DeviceMemory {
 public:
  explicit CudaMemory(std::size_t bytes) {
    const cudaError_t code = cudaMalloc(&data_, std::max<std::size_t>(bytes, 1));
    if (code == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // the context is unharmed: later launches must not report this
      std::size_t free = 0;
      std::size_t total = 0;
      STRATA_CUDA_CHECK(cudaMemGetInfo(&free, &total));
      throw OutOfMemory("cannot take " + format_bytes(bytes) + " of device memory; " +
                        format_bytes(free) + " of " + format_bytes(total) +
                        " are free. Lower memory.device_limit or end other programs on the device");
    }
    STRATA_CUDA_CHECK(code);
  }
  ~CudaMemory() override { STRATA_CUDA_CHECK_IN_DESTRUCTOR(cudaFree(data_)); }
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;
  [[nodiscard]] std::byte* data() const override { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

/// Makes the pages exist. Many threads: zeroing pages is what pinning spends most of its time on.
void touch(std::byte* data, std::size_t bytes) {
  const std::size_t chunk =
      round_up(bytes / static_cast<std::size_t>(usable_cores()) + 1, kHugePage);
  std::vector<std::jthread> threads;
  for (std::size_t begin = 0; begin < bytes; begin += chunk) {
    threads.push_back(start_thread("strata-touch", [=, end = std::min(begin + chunk, bytes)] {
      for (std::size_t at = begin; at < end; at += kPage) {
        *static_cast<volatile std::byte*>(data + at) = std::byte{0};
      }
    }));
  }
}

class PinnedMemory final : public DeviceMemory {
 public:
  explicit PinnedMemory(std::size_t bytes)
      : bytes_(round_up(std::max<std::size_t>(bytes, 1), kPage)),
        mapping_("pinned", bytes_, kHugePage) {
    prefer_huge_pages(mapping_.data(), bytes_);
    touch(mapping_.data(), bytes_);
    try {
      register_slices();
    } catch (...) {
      unregister_slices();
      throw;
    }
  }
  ~PinnedMemory() override { unregister_slices(); }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  [[nodiscard]] std::byte* data() const override { return mapping_.data(); }

 private:
  void register_slices() {
    while (registered_ < bytes_) {
      std::byte* begin = mapping_.data() + registered_;
      const std::size_t bytes = slice_bytes(registered_);
      const cudaError_t code = cudaHostRegister(begin, bytes, cudaHostRegisterPortable);
      if (code != cudaSuccess) throw_cannot_register(code);
      registered_ += bytes;
    }
  }

  void unregister_slices() noexcept {
    for (std::size_t at = 0; at < registered_; at += slice_bytes(at)) {
      STRATA_CUDA_CHECK_IN_DESTRUCTOR(cudaHostUnregister(mapping_.data() + at));
    }
  }

  [[nodiscard]] std::size_t slice_bytes(std::size_t offset) const {
    return std::min(bytes_ - offset, bytes_to_slice_end(mapping_.data(), offset));
  }

  [[noreturn]] void throw_cannot_register(cudaError_t code) const {
    cudaGetLastError();
    std::string why = std::string("cudaHostRegister: ") + cudaGetErrorString(code) + " after " +
                      format_bytes(registered_);
    rlimit limit{};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
      why += "; this process may lock " + format_bytes(limit.rlim_cur) +
             ": raise it with 'ulimit -l unlimited' or in the job's limits";
    }
    throw_host_full("pinned", bytes_, why.c_str());
  }

  std::size_t bytes_;
  Mapping mapping_;
  std::size_t registered_ = 0;
};

}  // namespace

std::unique_ptr<DeviceMemory> allocate_device(std::size_t bytes) {
  return std::make_unique<CudaMemory>(bytes);
}

std::unique_ptr<DeviceMemory> allocate_pinned(std::size_t bytes) {
  return std::make_unique<PinnedMemory>(bytes);
}

std::unique_ptr<DeviceMemory> allocate_pageable(std::size_t bytes) {
  return std::make_unique<PageableMemory>(bytes);
}

}  // namespace strata::cuda
