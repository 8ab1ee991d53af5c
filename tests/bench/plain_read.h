// Reads device memory and does nothing with it: what no kernel that reads as much can be faster
// than, its start and its end included.

#pragma once

#include "strata/base/tensor.h"
#include "strata/device/stream.h"

namespace strata::bench {

/// Bytes that a block reads by the different ways to cut memory into blocks: which one is the
/// fastest depends on how much there is.
inline constexpr int kReadBlockBytes[] = {8 << 10, 16 << 10, 32 << 10, 64 << 10};

/// Submits a kernel that reads `memory` in blocks of `block_bytes`, of which it is a multiple.
/// Throws std::runtime_error if it cannot be started, as in a build without CUDA.
void submit_read(Stream& compute, const TensorView& memory, int block_bytes);

}  // namespace strata::bench
