// Memory of a CUDA device's three kinds. Arenas take it once at start-up, through the device;
// destroying the object frees it. Failures throw OutOfMemory with the bytes asked for, those free,
// and the remedy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "strata/base/bytes.h"
#include "strata/device/device.h"

namespace strata::cuda {

/// Pinned memory is registered with CUDA in slices, because one call over hundreds of GiB holds a
/// driver lock for minutes. Slices end at multiples of this in the address space. CUDA does not
/// promise a copy across two registrations, so copies are cut at the same addresses; at this size
/// the cut costs nothing that can be measured.
inline constexpr std::size_t kPinnedSlice = kGiB;

/// Returns the bytes from `memory + offset` to the end of its slice.
[[nodiscard]] inline std::size_t bytes_to_slice_end(const void* memory, std::size_t offset) {
  const std::size_t address = reinterpret_cast<std::uintptr_t>(memory) + offset;
  return kPinnedSlice - address % kPinnedSlice;
}

/// Takes device memory by cudaMalloc. This and the next two throw OutOfMemory with the bytes asked
/// for and those free.
[[nodiscard]] std::unique_ptr<DeviceMemory> allocate_device(std::size_t bytes);
/// Takes pinned memory: huge pages where the system gives them, touched by all usable cores, then
/// registered.
[[nodiscard]] std::unique_ptr<DeviceMemory> allocate_pinned(std::size_t bytes);
/// Takes pageable memory: huge pages where the system gives them, touched when used.
[[nodiscard]] std::unique_ptr<DeviceMemory> allocate_pageable(std::size_t bytes);

}  // namespace strata::cuda
