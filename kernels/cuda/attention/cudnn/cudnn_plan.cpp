// This file makes the calls of cuDNN's backend API that cudnn_plan.h wraps: descriptors, the
// operations of a graph, and the plan that cuDNN proposes for it. cudnn_attention.cpp is the only
// user. Every call is checked; a failure throws BackendError that names the call.

#include "kernels/cuda/attention/cudnn/cudnn_plan.h"

#include <limits>

#include "strata/base/error.h"

namespace strata::cuda {

void check(cudnnStatus_t code, const CallSite& site) {
  if (code == CUDNN_STATUS_SUCCESS) return;
  throw_call_failed(site, std::string(cudnnGetErrorString(code)) + " (" +
                              std::to_string(static_cast<int>(code)) + ")");
}

namespace {

// Returns the attribute type of a value.
constexpr auto type_of(std::int64_t /*value*/) { return CUDNN_TYPE_INT64; }
constexpr auto type_of(std::int32_t /*value*/) { return CUDNN_TYPE_INT32; }
constexpr auto type_of(bool /*value*/) { return CUDNN_TYPE_BOOLEAN; }
constexpr auto type_of(void* /*value*/) { return CUDNN_TYPE_VOID_PTR; }
constexpr auto type_of(cudnnDataType_t /*value*/) { return CUDNN_TYPE_DATA_TYPE; }
constexpr auto type_of(cudnnPointwiseMode_t /*value*/) { return CUDNN_TYPE_POINTWISE_MODE; }
constexpr auto type_of(cudnnBackendHeurMode_t /*value*/) { return CUDNN_TYPE_HEUR_MODE; }
constexpr auto type_of(cudnnReduceTensorOp_t /*value*/) {
  return CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
}

/// Sets attributes that are other descriptors.
void link(CudnnDescriptor& descriptor, cudnnBackendAttributeName_t name,
          cudnnBackendDescriptor_t other) {
  descriptor.set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other);
}

CudnnDescriptor make_function(cudnnPointwiseMode_t mode, cudnnDataType_t type) {
  CudnnDescriptor function(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  function.set(CUDNN_ATTR_POINTWISE_MODE, mode);
  function.set(CUDNN_ATTR_POINTWISE_MATH_PREC, type);
  return function;
}

/// Returns what cuDNN would run the graph with, best first; nothing if it cannot run it.
std::vector<CudnnDescriptor> engine_configs(const CudnnDescriptor& graph,
                                            const CudnnDescriptor& device) {
  CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  link(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get());
  link(heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device.get());
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A);
  std::vector<CudnnDescriptor> configs;
  if (!heuristics.try_finalize()) return configs;
  std::int64_t count = 0;
  STRATA_CUDA_CHECK(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                             CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr));
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    raw.push_back(configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  }
  STRATA_CUDA_CHECK(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                             CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count,
                                             raw.data()));
  configs.erase(configs.begin() + count, configs.end());
  return configs;
}

std::string last_message() {
  std::array<char, 512> text{};
  cudnnGetLastErrorString(text.data(), text.size());
  return text.data();
}

}  // namespace

void CudnnDescriptor::Destroy::operator()(void* raw) const {
  cudnnBackendDestroyDescriptor(raw);  // frees host memory only; nothing can be done if it fails
}

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t raw = nullptr;
  STRATA_CUDA_CHECK(cudnnBackendCreateDescriptor(type, &raw));
  raw_.reset(raw);
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                          std::int64_t count, const void* values) {
  STRATA_CUDA_CHECK(cudnnBackendSetAttribute(raw_.get(), name, type, count, values));
}

template <class T>
void CudnnDescriptor::set(cudnnBackendAttributeName_t name, const T& value) {
  set(name, type_of(value), 1, &value);
}

void CudnnDescriptor::finalize() { STRATA_CUDA_CHECK(cudnnBackendFinalize(raw_.get())); }

bool CudnnDescriptor::try_finalize() {
  const cudnnStatus_t status = cudnnBackendFinalize(raw_.get());
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) return false;
  check(status, {"cudnnBackendFinalize", __FILE__, __LINE__});
  return true;
}

CudnnDescriptor cudnn_device() {
  int device = 0;
  STRATA_CUDA_CHECK(cudaGetDevice(&device));
  CudnnDescriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties.set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, std::int32_t{device});
  properties.finalize();
  return properties;
}

CudnnGraph::Sizes CudnnGraph::contiguous(const Sizes& shape) {
  return {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
}

CudnnGraph::Tensor CudnnGraph::add_tensor(const Place& place, const Sizes& shape,
                                          const Sizes& strides, cudnnDataType_t type) {
  constexpr std::int64_t kAlignmentBytes = 16;
  CudnnDescriptor& tensor = tensors_.emplace_back(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, place.uid);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::ssize(shape), shape.data());
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::ssize(strides), strides.data());
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignmentBytes);
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, !place.in_memory);
  tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, place.by_value);
  tensor.finalize();
  return {.shape = shape, .strides = strides, .type = type, .descriptor = tensor.get()};
}

CudnnGraph::Tensor CudnnGraph::bound(std::int64_t uid, const Sizes& shape, const Sizes& strides,
                                     cudnnDataType_t type) {
  return add_tensor({.uid = uid, .in_memory = true, .by_value = false}, shape, strides, type);
}

CudnnGraph::Tensor CudnnGraph::scalar(float value) {
  const std::int64_t uid = next_uid_++;
  scalars_.emplace_back(uid, value);
  return add_tensor({.uid = uid, .in_memory = true, .by_value = true}, {1, 1, 1, 1}, {1, 1, 1, 1},
                    CUDNN_DATA_FLOAT);
}

CudnnGraph::Tensor CudnnGraph::temporary(const Sizes& shape, cudnnDataType_t type) {
  return add_tensor({.uid = next_uid_++, .in_memory = false, .by_value = false}, shape,
                    contiguous(shape), type);
}

CudnnGraph::Tensor CudnnGraph::matmul(const Tensor& a, const Tensor& b, std::optional<Tensor> out) {
  const Tensor c = out ? *out : temporary({a.shape[0], a.shape[1], a.shape[2], b.shape[3]});
  CudnnDescriptor& function = functions_.emplace_back(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  function.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  function.finalize();
  CudnnDescriptor& operation = operations_.emplace_back(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  link(operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, function.get());
  link(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.descriptor);
  link(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.descriptor);
  link(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c.descriptor);
  operation.finalize();
  return c;
}

CudnnGraph::Tensor CudnnGraph::add_pointwise(CudnnDescriptor function, const Tensor& x,
                                             const Tensor* b, const Tensor* select,
                                             const Tensor& y) {
  function.finalize();
  functions_.push_back(std::move(function));
  CudnnDescriptor& operation =
      operations_.emplace_back(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  link(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, functions_.back().get());
  link(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.descriptor);
  if (b != nullptr) link(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b->descriptor);
  if (select != nullptr) link(operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, select->descriptor);
  link(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.descriptor);
  operation.finalize();
  return y;
}

CudnnGraph::Tensor CudnnGraph::pointwise(cudnnPointwiseMode_t mode, const Tensor& x,
                                         std::optional<Tensor> b, std::optional<Tensor> out) {
  const Tensor y = out ? *out : temporary(x.shape);
  return add_pointwise(make_function(mode, CUDNN_DATA_FLOAT), x, b ? &*b : nullptr, nullptr, y);
}

CudnnGraph::Tensor CudnnGraph::causal(const Tensor& x) {
  const auto index = [&](std::int64_t axis) {
    CudnnDescriptor function = make_function(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32);
    function.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
    return add_pointwise(std::move(function), x, nullptr, nullptr,
                         temporary(x.shape, CUDNN_DATA_INT32));
  };
  const Tensor row = index(2);
  const Tensor column = index(3);
  const Tensor seen = add_pointwise(make_function(CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN), row,
                                    &column, nullptr, temporary(x.shape, CUDNN_DATA_BOOLEAN));
  const Tensor unseen = scalar(-std::numeric_limits<float>::infinity());
  return add_pointwise(make_function(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT), x, &unseen,
                       &seen, temporary(x.shape));
}

CudnnGraph::Tensor CudnnGraph::reduce(cudnnReduceTensorOp_t reduction, const Tensor& x,
                                      std::optional<Tensor> out) {
  const Tensor y = out ? *out : temporary({x.shape[0], x.shape[1], x.shape[2], 1});
  CudnnDescriptor& function = functions_.emplace_back(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  function.set(CUDNN_ATTR_REDUCTION_OPERATOR, reduction);
  function.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  function.finalize();
  CudnnDescriptor& operation =
      operations_.emplace_back(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  link(operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, function.get());
  link(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.descriptor);
  link(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.descriptor);
  operation.finalize();
  return y;
}

CudnnGraph::Tensor CudnnGraph::transpose(const Tensor& x, cudnnDataType_t type) {
  const Sizes shape{x.shape[0], x.shape[1], x.shape[3], x.shape[2]};
  const Sizes strides{x.strides[0], x.strides[1], x.strides[3], x.strides[2]};
  const Tensor y =
      add_tensor({.uid = next_uid_++, .in_memory = false, .by_value = false}, shape, strides, type);
  CudnnDescriptor& operation = operations_.emplace_back(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  link(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.descriptor);
  link(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.descriptor);
  operation.finalize();
  return y;
}

CudnnPlan CudnnGraph::plan(const CudnnDescriptor& device, const std::string& who) {
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const CudnnDescriptor& operation : operations_) operations.push_back(operation.get());
  CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::ssize(operations),
            operations.data());
  if (graph.try_finalize()) {
    for (const CudnnDescriptor& config : engine_configs(graph, device)) {
      CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      link(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config.get());
      link(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device.get());
      if (plan.try_finalize()) return CudnnPlan(std::move(plan), scalars_);
    }
  }
  throw BackendError(who + "; cuDNN says: " + last_message());
}

CudnnPlan::CudnnPlan(CudnnDescriptor plan, std::vector<Scalar> scalars)
    : plan_(std::move(plan)), scalars_(std::move(scalars)) {
  std::int64_t bytes = 0;
  std::int64_t count = 0;
  STRATA_CUDA_CHECK(cudnnBackendGetAttribute(plan_.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                             CUDNN_TYPE_INT64, 1, &count, &bytes));
  workspace_bytes_ = static_cast<std::size_t>(bytes);
}

void CudnnPlan::execute(cudnnHandle_t handle, std::span<const Binding> tensors,
                        void* workspace) const {
  std::vector<std::int64_t> uids;
  std::vector<const void*> pointers;
  for (const auto& [uid, data] : tensors) {
    uids.push_back(uid);
    pointers.push_back(data);
  }
  for (const auto& [uid, value] : scalars_) {
    uids.push_back(uid);
    pointers.push_back(&value);
  }
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, std::ssize(uids), uids.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, std::ssize(pointers),
           pointers.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace);
  pack.finalize();
  STRATA_CUDA_CHECK(cudnnBackendExecute(handle, plan_.get(), pack.get()));
}

}  // namespace strata::cuda
