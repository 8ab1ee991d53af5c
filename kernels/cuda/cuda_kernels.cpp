// This file says what CudaKernels does with an operator: it finds the stream, refuses the lanes
// that the operator may not run on, and calls the family's enqueue() (operators.h). It also loads
// the modules of all kernels when it is made, since CUDA would else load them, and take memory for
// them, at their first launch.

#include "kernels/cuda/cuda_kernels.h"

#include <string>
#include <string_view>
#include <type_traits>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/operators.h"
#include "src/device/cuda/check.h"
#include "src/device/cuda/cuda_stream.h"
#include "src/device/cuda/memory.h"
#include "strata/base/error.h"

namespace strata {

namespace {

/// The operators that use what serves one stream at a time: workspaces and the counter of tiles.
template <class O>
constexpr bool kHasWorkspace =
    std::is_same_v<O, Matmul> || std::is_same_v<O, FusedLinear> ||
    std::is_same_v<O, AttentionForward> || std::is_same_v<O, AttentionBackward>;

/// Returns whether attention_choice.h gives the operator to cuDNN if that is there.
template <class O>
bool cudnn_takes(const O& op) {
  return op.segments.uniform_length > 0 && op.window == 0 && op.score_cap == 0;
}

void require_compute_lane(const Stream& stream, std::string_view name) {
  if (stream.lane() == Lane::kCompute) return;
  throw BackendError("operator " + std::string(name) +
                     ": runs on the compute lane only (it has one workspace), not on " +
                     std::string(name_of(stream.lane())));
}

}  // namespace

CudaKernels::CudaKernels(const cuda::Driver& driver, const BackendOptions& options)
    : tile_counter_(cuda::allocate_device(sizeof(cuda::TileCounter))),
      attention_{options.attention, reinterpret_cast<cuda::TileCounter*>(tile_counter_->data())},
      matmul_(options.matmul_workspace_bytes) {
  STRATA_CUDA_CHECK(cudaMemset(tile_counter_->data(), 0, sizeof(cuda::TileCounter)));
  STRATA_CUDA_CHECK(cudaDeviceSynchronize());
  if (options.attention == AttentionKernels::kCudnn)
    cudnn_ = std::make_unique<cuda::CudnnAttention>();
#define STRATA_LOAD(file) cuda::load_module_of(driver, cuda::file##_module());
  STRATA_FOR_EACH_KERNEL_FILE(STRATA_LOAD)
#undef STRATA_LOAD
  for (const void* kernel : cuda::hopper_modules()) cuda::load_module_of(driver, kernel);
}

void CudaKernels::prepare(const AttentionForward& op) {
  if (cudnn_ && cudnn_takes(op)) cudnn_->prepare(op);
}
void CudaKernels::prepare(const AttentionBackward& op) {
  if (cudnn_ && cudnn_takes(op)) cudnn_->prepare(op);
}

void CudaKernels::prepare(const Matmul& op) { matmul_.prepare(op); }

template <Op O>
void CudaKernels::enqueue(Stream& stream, const O& op) {
  if constexpr (kHasWorkspace<O>) require_compute_lane(stream, O::kName);
  cuda::enqueue({.stream = native_stream(stream),
                 .attention = attention_,
                 .products = matmul_,
                 .cudnn = cudnn_.get()},
                op);
}

#define STRATA_LAUNCH(Operator) \
  void CudaKernels::launch(Stream& stream, const Operator& op) { enqueue(stream, op); }
STRATA_FOR_EACH_OPERATOR(STRATA_LAUNCH)
#undef STRATA_LAUNCH

}  // namespace strata
