// This file declares random operands for timing matrix products, and a hash of results; MatmulTimer
// uses both when a run tunes its products. Both launch on a stream, never block, and give the same
// bits in every run.

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace strata::cuda {

/// Fills memory (16-byte aligned, a multiple of 16 bytes) with standard normal bf16 numbers that
/// depend on their index alone. Read as f32, pairs of them are near normal too.
void launch_random_bf16(cudaStream_t stream, std::span<std::byte> memory);

/// Fills memory (16-byte aligned, a multiple of 16 bytes) with normal numbers in e4m3 that depend
/// on their index alone, of a size that uses the range of the codes as rows with scales do.
void launch_random_e4m3(cudaStream_t stream, std::span<std::byte> memory);

/// Sets *hash, in device memory, to a number that differs, but for chance, if any bit of `memory`
/// (16-byte aligned, a multiple of 16 bytes) differs. It is the same in every run.
void launch_hash(cudaStream_t stream, std::span<const std::byte> memory, std::uint64_t* hash);

}  // namespace strata::cuda
