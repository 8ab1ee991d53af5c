// Replaces operator new and delete of the program it is compiled into. The forms for single
// objects are here; those for arrays call them, unless a sanitizer brings its own, which then does
// not count arrays.

#include "support/allocations.h"

#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

thread_local std::int64_t allocations = 0;
std::atomic<std::int64_t> live_bytes{0};
std::atomic<std::int64_t> peak_bytes{0};

void* counted(void* memory) noexcept {
  ++allocations;
  const auto bytes = static_cast<std::int64_t>(malloc_usable_size(memory));
  const std::int64_t live = live_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t peak = peak_bytes.load(std::memory_order_relaxed);
  while (live > peak && !peak_bytes.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
  }
  return memory;
}

void release(void* memory) noexcept {
  live_bytes.fetch_sub(static_cast<std::int64_t>(malloc_usable_size(memory)),
                       std::memory_order_relaxed);
  std::free(memory);
}

void* allocate(std::size_t bytes) noexcept { return counted(std::malloc(bytes == 0 ? 1 : bytes)); }

void* allocate(std::size_t bytes, std::align_val_t alignment) noexcept {
  const auto align = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(align, (bytes + align) / align * align));  // at least one
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return or_throw(allocate(bytes)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return or_throw(allocate(bytes, alignment));
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(bytes, alignment);
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

namespace strata::test {

std::int64_t allocations_of_this_thread() { return allocations; }

std::int64_t heap_bytes() { return live_bytes; }

std::int64_t heap_peak() { return peak_bytes.exchange(live_bytes); }

}  // namespace strata::test
