// This file runs causal attention through cuDNN's graph API, for CudaKernels. It is built where
// CMake finds cuDNN; cudnn_attention.h says what it promises.
//
// Formula and shapes: strata/ops/attention.h. cuDNN sees a [tokens, heads, D] tensor as [rows,
// heads, length, D] with the strides that it has, so packed columns need no copy; keys and values
// enter products as [rows, kv heads, D, length].
// How: the formula is written down as a graph of products, pointwise operations and reductions, and
// cuDNN recognises it and runs it as one fused kernel. The forms, down to the order of operations,
// are the ones that it recognises. A product's second operand with fewer heads is shared by groups
// of heads; gradients of shared heads are made per query head and added by a reduction.
// Numerics: f32 scores and sums; probabilities and score gradients are rounded to bf16 for the
// second products; per-head gradients of grouped queries are rounded to bf16 before they are added.
// Measured on one H200, 2026-11-21, cuDNN 9.19, 4 rows of 4096 tokens, 32 heads of 128: forward 593
// TFLOP/s, backward 435 with the same bits in every run and 495 without.

#include "kernels/cuda/attention/cudnn/cudnn_attention.h"

#include <array>
#include <compare>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/cuda/attention/cudnn/cudnn_plan.h"
#include "kernels/cuda/common/dispatch.h"
#include "src/device/cuda/check.h"
#include "strata/base/error.h"

namespace strata::cuda {

namespace {

using Graph = CudnnGraph;
using Tensor = CudnnGraph::Tensor;

/// The numbers by which a plan's device tensors are bound.
enum Uid : std::int64_t { kQ = 1, kK, kV, kO, kLse, kDO, kDQ, kDK, kDV, kDelta, kDQSum };

/// Everything that a plan depends on. A stride is the distance of tokens, in elements.
struct Problem {
  std::int64_t rows, length, heads, kv_heads, head_dim;
  double scale;
  std::int64_t q, k, v, o;       ///< strides
  std::int64_t d_o, dq, dk, dv;  ///< strides; 0 in the forward
  bool adds_dq;                  ///< whether dq is added in no fixed order; false in the forward
  auto operator<=>(const Problem&) const = default;

  [[nodiscard]] std::int64_t tokens() const { return rows * length; }
  [[nodiscard]] Graph::Sizes query_shape() const { return {rows, heads, length, head_dim}; }
};

constexpr const char* kRemedy = "; set it to \"auto\"";

template <class O>
Problem problem_of(const O& op) {
  const std::string who = "operator " + std::string(O::kName) + ": kernels.attention \"cudnn\" ";
  const std::int64_t length = op.segments.uniform_length;
  if (op.q.dtype != DType::kBF16) {
    throw BackendError(who + "runs bf16 only, not " + std::string(name_of(op.q.dtype)) + kRemedy);
  }
  if (length <= 0 || op.q.shape[0] % length != 0 || op.k.shape[0] != op.q.shape[0]) {
    throw BackendError(who + "runs whole rows of one length only, no packed documents or parts " +
                       "of rows" + kRemedy);
  }
  const std::int64_t head_dim = op.q.shape[2];
  constexpr std::int64_t kLargestHeadDim = 256;  // plans of larger ones are made, but undocumented
  if (head_dim % 8 != 0 || head_dim > kLargestHeadDim) {
    throw BackendError(who + "runs head dims that are multiples of 8 up to 256, not " +
                       std::to_string(head_dim) + kRemedy);
  }
  return {.rows = op.q.shape[0] / length,
          .length = length,
          .heads = op.q.shape[1],
          .kv_heads = op.k.shape[1],
          .head_dim = head_dim,
          .scale = op.scale,
          .q = op.q.row_stride,
          .k = op.k.row_stride,
          .v = op.v.row_stride,
          .o = op.o.row_stride,
          .d_o = 0,
          .dq = 0,
          .dk = 0,
          .dv = 0,
          .adds_dq = false};
}

Problem backward_problem_of(const AttentionBackward& op) {
  Problem p = problem_of(op);
  p.d_o = op.d_o.row_stride;
  p.dq = op.dq.row_stride;
  p.dk = op.dk.row_stride;
  p.dv = op.dv.row_stride;
  p.adds_dq = static_cast<bool>(op.dq_sum);
  return p;
}

/// Adds a tensor [tokens, heads, D] as [rows, heads, length, D].
Tensor add_rows(Graph& graph, const Problem& p, Uid uid, std::int64_t heads, std::int64_t stride) {
  return graph.bound(uid, {p.rows, heads, p.length, p.head_dim},
                     {p.length * stride, p.head_dim, stride, 1}, CUDNN_DATA_BFLOAT16);
}

/// Adds the same memory with its last two dimensions exchanged.
Tensor add_columns(Graph& graph, const Problem& p, Uid uid, std::int64_t stride) {
  return graph.bound(uid, {p.rows, p.kv_heads, p.head_dim, p.length},
                     {p.length * stride, p.head_dim, 1, stride}, CUDNN_DATA_BFLOAT16);
}

/// Adds a tensor [H, N] f32, as [rows, heads, length, 1].
Tensor add_per_query(Graph& graph, const Problem& p, Uid uid) {
  return graph.bound(uid, {p.rows, p.heads, p.length, 1}, {p.length, p.tokens(), 1, 1},
                     CUDNN_DATA_FLOAT);
}

/// Returns what the error says if there is no plan.
std::string refusal(const Problem& p, std::string_view name) {
  return "operator " + std::string(name) + ": kernels.attention \"cudnn\" has no engine for " +
         std::to_string(p.rows) + " rows of " + std::to_string(p.length) + " tokens, " +
         std::to_string(p.heads) + " heads and " + std::to_string(p.kv_heads) + " kv heads of " +
         std::to_string(p.head_dim) + kRemedy;
}

CudnnPlan plan_forward(const Problem& p, const CudnnDescriptor& device) {
  Graph graph;
  const Tensor q = add_rows(graph, p, kQ, p.heads, p.q);
  const Tensor kt = add_columns(graph, p, kK, p.k);
  const Tensor v = add_rows(graph, p, kV, p.kv_heads, p.v);
  const Tensor scale = graph.scalar(static_cast<float>(p.scale));
  const Tensor scores =
      graph.causal(graph.pointwise(CUDNN_POINTWISE_MUL, graph.matmul(q, kt), scale));
  const Tensor top = graph.reduce(CUDNN_REDUCE_TENSOR_MAX, scores);
  const Tensor weights =
      graph.pointwise(CUDNN_POINTWISE_EXP, graph.pointwise(CUDNN_POINTWISE_SUB, scores, top));
  const Tensor sum = graph.reduce(CUDNN_REDUCE_TENSOR_ADD, weights);
  graph.pointwise(CUDNN_POINTWISE_ADD, top, graph.pointwise(CUDNN_POINTWISE_LOG, sum),
                  add_per_query(graph, p, kLse));
  const Tensor probabilities = graph.pointwise(CUDNN_POINTWISE_DIV, weights, sum,
                                               graph.temporary(weights.shape, CUDNN_DATA_BFLOAT16));
  graph.matmul(probabilities, v, add_rows(graph, p, kO, p.heads, p.o));
  return graph.plan(device, refusal(p, AttentionForward::kName));
}

/// Adds out [rows, kv heads, length, D] = a b, summed over the query heads of a kv head.
void add_shared_product(Graph& graph, const Problem& p, const Tensor& a, const Tensor& b,
                        const Tensor& out) {
  if (p.heads == p.kv_heads) {
    graph.matmul(a, b, out);
    return;
  }
  const Tensor per_head = graph.matmul(a, b, graph.temporary(p.query_shape(), CUDNN_DATA_BFLOAT16));
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, per_head, out);
}

CudnnPlan plan_backward(const Problem& p, const CudnnDescriptor& device) {
  Graph graph;
  const Tensor q = add_rows(graph, p, kQ, p.heads, p.q);
  const Tensor kt = add_columns(graph, p, kK, p.k);
  const Tensor vt = add_columns(graph, p, kV, p.v);
  const Tensor o = add_rows(graph, p, kO, p.heads, p.o);
  const Tensor d_o = add_rows(graph, p, kDO, p.heads, p.d_o);
  const Tensor dq = add_rows(graph, p, kDQ, p.heads, p.dq);
  const Tensor scale = graph.scalar(static_cast<float>(p.scale));

  // The factor of 1 stands where dropout would rescale; the engines look for it.
  const Tensor delta = graph.pointwise(
      CUDNN_POINTWISE_MUL,
      graph.reduce(CUDNN_REDUCE_TENSOR_ADD, graph.pointwise(CUDNN_POINTWISE_MUL, d_o, o)),
      graph.scalar(1.0f), add_per_query(graph, p, kDelta));

  const Tensor scores = graph.pointwise(CUDNN_POINTWISE_MUL, graph.matmul(q, kt), scale);
  const Tensor shifted =
      graph.causal(graph.pointwise(CUDNN_POINTWISE_SUB, scores, add_per_query(graph, p, kLse)));
  const Tensor probabilities = graph.pointwise(CUDNN_POINTWISE_EXP, shifted);
  add_shared_product(graph, p, graph.transpose(probabilities, CUDNN_DATA_BFLOAT16), d_o,
                     add_rows(graph, p, kDV, p.kv_heads, p.dv));

  const Tensor d_scores = graph.pointwise(
      CUDNN_POINTWISE_MUL,
      graph.pointwise(CUDNN_POINTWISE_MUL,
                      graph.pointwise(CUDNN_POINTWISE_SUB, graph.matmul(d_o, vt), delta),
                      probabilities),
      scale);
  add_shared_product(graph, p, graph.transpose(d_scores, CUDNN_DATA_BFLOAT16), q,
                     add_rows(graph, p, kDK, p.kv_heads, p.dk));

  const Tensor k = graph.transpose(kt, CUDNN_DATA_BFLOAT16);
  if (p.adds_dq) {
    // Blocks of keys add to this tensor as they come. It is scratch, so its layout is free.
    const Graph::Sizes shape = p.query_shape();
    const Tensor sum = graph.bound(kDQSum, shape, Graph::contiguous(shape), CUDNN_DATA_FLOAT);
    graph.pointwise(CUDNN_POINTWISE_IDENTITY, graph.matmul(d_scores, k, sum), {}, dq);
  } else {
    // Here cuDNN keeps d_scores in its workspace and takes a product of its own.
    graph.matmul(d_scores, k, dq);
  }
  return graph.plan(device, refusal(p, AttentionBackward::kName));
}

void require_aligned(std::string_view name, std::initializer_list<ConstTensorView> views) {
  if (rows_aligned(views)) return;
  throw BackendError(
      "operator " + std::string(name) +
      ": kernels.attention \"cudnn\" needs rows that begin at multiples of 16 bytes" + kRemedy);
}

}  // namespace

class CudnnAttention::Impl {
 public:
  Impl() : device_(cudnn_device()) {
    // The library that runs may be an older one than the headers that were compiled.
    constexpr std::size_t kOldest = 91600;
    if (cudnnGetVersion() < kOldest) {
      throw ConfigError(
          "kernels.attention \"cudnn\" needs cuDNN 9.16 or later, and this program runs "
          "with version " +
          std::to_string(cudnnGetVersion()) + "; install a later one, or choose \"auto\"");
    }
    STRATA_CUDA_CHECK(cudnnCreate(&handle_));
  }
  ~Impl() {
    cudnnDestroy(handle_);
    STRATA_CUDA_CHECK_IN_DESTRUCTOR(cudaFree(workspace_));
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const CudnnPlan& forward_plan(const Problem& p) {
    const auto at = forward_plans_.find(p);
    if (at != forward_plans_.end()) return at->second;
    return keep(forward_plans_, p, plan_forward(p, device_));
  }
  const CudnnPlan& backward_plan(const Problem& p) {
    const auto at = backward_plans_.find(p);
    if (at != backward_plans_.end()) return at->second;
    return keep(backward_plans_, p, plan_backward(p, device_));
  }

  void execute(cudaStream_t stream, const CudnnPlan& plan,
               std::span<const CudnnPlan::Binding> tensors) {
    STRATA_CUDA_CHECK(cudnnSetStream(handle_, stream));
    plan.execute(handle_, tensors, workspace_);
  }

  [[nodiscard]] std::size_t workspace_bytes() const { return workspace_bytes_; }

 private:
  using Plans = std::map<Problem, CudnnPlan>;

  const CudnnPlan& keep(Plans& plans, const Problem& p, CudnnPlan plan) {
    grow_workspace(plan.workspace_bytes());
    return plans.emplace(p, std::move(plan)).first->second;
  }

  void grow_workspace(std::size_t bytes) {
    if (bytes <= workspace_bytes_) return;
    STRATA_CUDA_CHECK(cudaFree(workspace_));  // waits until nothing uses it
    workspace_ = nullptr;
    workspace_bytes_ = 0;
    const cudaError_t status = cudaMalloc(&workspace_, bytes);
    if (status == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      throw OutOfMemory("kernels.attention \"cudnn\" needs a workspace of " +
                        std::to_string(bytes >> 20) +
                        " MiB, which the device does not have; lower schedule.rows, set "
                        "kernels.attention_backward to \"fast\", or choose \"auto\"");
    }
    STRATA_CUDA_CHECK(status);
    workspace_bytes_ = bytes;
  }

  CudnnDescriptor device_;
  cudnnHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::size_t workspace_bytes_ = 0;
  Plans forward_plans_;
  Plans backward_plans_;
};

bool CudnnAttention::available() { return true; }

CudnnAttention::CudnnAttention() : impl_(std::make_unique<Impl>()) {}

CudnnAttention::~CudnnAttention() = default;

void CudnnAttention::prepare(const AttentionForward& op) { impl_->forward_plan(problem_of(op)); }

void CudnnAttention::prepare(const AttentionBackward& op) {
  impl_->backward_plan(backward_problem_of(op));
}

std::size_t CudnnAttention::workspace_bytes() const { return impl_->workspace_bytes(); }

void CudnnAttention::forward(cudaStream_t stream, const AttentionForward& op) {
  if (op.q.shape[0] == 0) return;
  const Problem p = problem_of(op);
  require_aligned(AttentionForward::kName, {op.q, op.k, op.v, op.o});
  const CudnnPlan& plan = impl_->forward_plan(p);
  const std::array<CudnnPlan::Binding, 5> tensors{
      {{kQ, op.q.data}, {kK, op.k.data}, {kV, op.v.data}, {kO, op.o.data}, {kLse, op.lse.data}}};
  impl_->execute(stream, plan, tensors);
}

void CudnnAttention::backward(cudaStream_t stream, const AttentionBackward& op) {
  if (op.q.shape[0] == 0) return;
  const Problem p = backward_problem_of(op);
  require_aligned(AttentionBackward::kName, {op.d_o, op.q, op.k, op.v, op.o, op.dq, op.dk, op.dv});
  const CudnnPlan& plan = impl_->backward_plan(p);
  const std::array<CudnnPlan::Binding, 11> tensors{{{kQ, op.q.data},
                                                    {kK, op.k.data},
                                                    {kV, op.v.data},
                                                    {kO, op.o.data},
                                                    {kLse, op.lse.data},
                                                    {kDO, op.d_o.data},
                                                    {kDQ, op.dq.data},
                                                    {kDK, op.dk.data},
                                                    {kDV, op.dv.data},
                                                    {kDelta, op.delta.data},
                                                    {kDQSum, op.dq_sum.data}}};
  // Not every engine clears what it adds to.
  if (p.adds_dq) {
    STRATA_CUDA_CHECK(cudaMemsetAsync(op.dq_sum.data, 0, op.dq_sum.bytes().bytes, stream));
  }
  const std::size_t count = tensors.size() - (p.adds_dq ? 0 : 1);
  impl_->execute(stream, plan, std::span(tensors).first(count));
}

}  // namespace strata::cuda
