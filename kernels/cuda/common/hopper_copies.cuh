// This file has the bulk tensor copies (TMA) of the sm_90a kernels, between shared memory and the
// tensors that maps describe (tensor_map.h). Terms and rules: PTX ISA 9.0, "Tensor maps".

#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/common/hopper_barriers.cuh"

namespace strata::cuda {

/// Starts to copy a box of `map` (see tensor_map.h), whose first element is (0, row, panel), to
/// shared memory; its bytes count towards the barrier. Rows outside the tensor arrive as zeros.
__device__ __forceinline__ void copy_box(std::uint32_t to, const CUtensorMap& map, int row,
                                         int panel, Barrier barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
      "l"(&map), "r"(0), "r"(row), "r"(panel), "r"(barrier.address)
      : "memory");
}

/// Starts to add a box of shared memory to `map` (see make_sum_map), at (column, row), in no
/// particular order with others; rows outside the tensor are left out. The threads for which `now`
/// holds do it, without a branch, so that products may be in flight.
__device__ __forceinline__ void add_box(const CUtensorMap& map, std::uint32_t from, int column,
                                        int row, bool now) {
  asm volatile(
      "{\n"
      ".reg .pred now;\n"
      "setp.ne.u32 now, %4, 0;\n"
      "@now cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group"
      " [%0, {%2, %3}], [%1];\n"
      "}\n" ::"l"(&map),
      "r"(from), "r"(column), "r"(row), "r"(static_cast<int>(now))
      : "memory");
}
/// Closes a group of the boxes that this thread has started to add.
__device__ __forceinline__ void commit_boxes() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/// Waits until this thread's boxes have been read, so that their memory may be written.
__device__ __forceinline__ void wait_boxes_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
/// Waits until they have been added.
__device__ __forceinline__ void wait_boxes() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

}  // namespace strata::cuda
