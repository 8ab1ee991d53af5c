// This file runs matrix products through cuBLASLt: it decides which algorithm runs, and launches
// it. CudaKernels calls it for every Matmul; matmul.h is the contract.
// Batch-invariant products are those of invariant_products.h.
//
// out (+)= alpha op(a) op(b) (+ bias), shapes as in strata/ops/matmul.h; row-major, rows may be
// strided.
// How: matmul_problem.h describes a product to cuBLASLt, matmul_timer.h measures its algorithms;
// here are the choice and the launch.
// Numerics: bf16 operands accumulate in f32; f32 operands are computed in true f32, not tf32. What
// `out` held is added in f32 as well (beta = 1), before the one rounding. Codes in e4m3 are
// added up as the tensor cores do it, in fewer bits than f32 has, but with cuBLASLt's fast
// accumulation off: partial sums go to f32 on the way.
// Split-K only with partial sums in f32 in the workspace, added in a fixed order, so results repeat
// bit for bit; they differ from the CPU's order of additions.
// Measured on one H200, 2026-11-21 (matmul_bench), sustained, the products of a 7B on 8192 tokens:
// 640 to 700 TFLOP/s, 99 % and more of the best of all proposals, 1.05 of the first ones together.
// Naive version: plain_matmul.cu, kernels/cpu.

#include "kernels/cuda/products/matmul.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "kernels/cuda/operators.h"
#include "kernels/cuda/products/candidates.h"
#include "kernels/cuda/products/matmul_timer.h"
#include "src/device/cuda/memory.h"
#include "strata/base/error.h"
#include "strata/base/log.h"

namespace strata::cuda {
namespace {

using Algorithms = std::vector<cublasLtMatmulAlgo_t>;

constexpr std::string_view kPlainKernel = "plain";
/// Without measuring, the first proposal is taken that is not refused.
constexpr int kFewProposals = 8;
constexpr int kTunedProposals = 32;
constexpr int kComparedProposals = 64;
constexpr std::uint32_t kComparedAlignment = 256;

Algorithms unmeasured(const MatmulProblem& problem, const MatmulPlace& place) {
  return problem.proposals(place, Reductions::kFixedOrder, kFewProposals);
}

std::size_t index_of(const Algorithms& algorithms, const cublasLtMatmulAlgo_t& wanted) {
  const auto at = std::ranges::find_if(algorithms, [&](const cublasLtMatmulAlgo_t& a) {
    return std::memcmp(&a, &wanted, sizeof a) == 0;
  });
  return static_cast<std::size_t>(at - algorithms.begin());
}

void add_new(Algorithms& to, const cublasLtMatmulAlgo_t& algorithm) {
  if (index_of(to, algorithm) == to.size()) to.push_back(algorithm);
}

std::vector<TimedProduct> products_by(const MatmulProblem& problem, const Algorithms& algorithms) {
  std::vector<TimedProduct> products;
  for (const cublasLtMatmulAlgo_t& a : algorithms) products.push_back(product_by(problem, a));
  return products;
}

/// Returns the plan with the fastest of the algorithms that repeats its results, or with the plain
/// kernel if none does.
MatmulPlan measured_plan(MatmulTimer& timer, const MatmulProblem& problem, const MatmulShape& shape,
                         const Algorithms& algorithms) {
  const std::vector<TimedProduct> products = products_by(problem, algorithms);
  const std::vector<double> seconds = timer.race(shape, products, 0);
  std::vector<std::size_t> order(seconds.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return seconds[i]; });
  for (const std::size_t i : order) {
    if (!std::isfinite(seconds[i])) break;
    if (!timer.repeats(shape, products[i])) continue;
    return {.shape = shape, .algorithm = hex_of(algorithms[i]), .measured_us = 1e6 * seconds[i]};
  }
  log::warn("no algorithm of cuBLASLt runs and repeats its bits for {}; a slow kernel does",
            to_string(shape));
  return {.shape = shape, .algorithm = std::string(kPlainKernel)};
}

}  // namespace

MatmulPlans::MatmulPlans(std::size_t workspace_bytes) : workspace_bytes_(workspace_bytes) {
  cublasLtHandle_t handle = nullptr;
  STRATA_CUDA_CHECK(cublasLtCreate(&handle));
  handle_.reset(handle);
  if (workspace_bytes > 0) workspace_ = allocate_device(workspace_bytes);
}

MatmulPlace MatmulPlans::place(cudaStream_t stream) const {
  MatmulPlace place{.handle = handle_.get(), .workspace = {}, .stream = stream};
  if (workspace_) place.workspace = {workspace_->data(), workspace_bytes_};
  return place;
}

MatmulPlans::Plan& MatmulPlans::plan_for(const MatmulKey& key) {
  const auto at = plans_.find(key);
  if (at != plans_.end()) return at->second;
  Plan plan{.problem = MatmulProblem(key), .algorithms = {}};
  plan.algorithms = unmeasured(plan.problem, place(nullptr));
  return plans_.emplace(key, std::move(plan)).first->second;
}

void MatmulPlans::launch(cudaStream_t stream, const Matmul& op) {
  if (op.m() == 0 || op.n() == 0) return;
  if (op.k() == 0) return launch_plain_matmul(stream, op);
  if (op.batch_invariant) return invariant_.launch(place(stream), op);
  const MatmulKey key = key_of(op);
  Plan& plan = plan_for(key);
  const bool launched = launch_first(plan.algorithms, [&](const cublasLtMatmulAlgo_t& algorithm) {
    return plan.problem.try_launch(place(stream), algorithm,
                                   {.a = op.a.data,
                                    .b = op.b.data,
                                    .out = op.out.data,
                                    .alpha = static_cast<float>(op.alpha),
                                    .bias = op.bias.data,
                                    .a_scale = static_cast<const float*>(op.a_scale.data),
                                    .b_scale = static_cast<const float*>(op.b_scale.data)});
  });
  if (launched) return;
  if (op.a.dtype == DType::kE4M3) {
    throw BackendError("operator matmul: cuBLASLt has no algorithm for " + to_string(key.shape));
  }
  launch_plain_matmul(stream, op);
}

void MatmulPlans::prepare(const Matmul& op) {
  constexpr std::size_t kMostBytes = std::size_t{4} << 30;
  if (op.batch_invariant) invariant_.prepare(place(nullptr), op, kMostBytes);
}

void enqueue(const Context& context, const Matmul& op) {
  context.products.launch(context.stream, op);
}

std::string MatmulPlans::platform() const {
  int device = 0;
  cudaDeviceProp properties{};
  STRATA_CUDA_CHECK(cudaGetDevice(&device));
  STRATA_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  return std::string(properties.name) + ", " + std::to_string(properties.multiProcessorCount) +
         " multiprocessors, cuBLASLt " + std::to_string(cublasLtGetVersion());
}

std::vector<MatmulPlan> MatmulPlans::tune(std::span<const MatmulShape> shapes,
                                          std::size_t memory_bytes) {
  MatmulTimer timer(handle_.get(), place(nullptr).workspace, shapes, memory_bytes);
  std::vector<MatmulPlan> plans;
  for (const MatmulShape& shape : shapes) {
    const MatmulProblem problem({.shape = shape});
    const Algorithms first = unmeasured(problem, place(nullptr));
    if (first.empty()) {
      plans.push_back({.shape = shape, .algorithm = std::string(kPlainKernel)});
    } else if (!timer.fits(shape)) {
      plans.push_back({.shape = shape, .algorithm = hex_of(first.front())});
    } else {
      plans.push_back(measured_plan(
          timer, problem, shape,
          problem.proposals(place(nullptr), Reductions::kFixedOrder, kTunedProposals)));
    }
  }
  return plans;
}

void MatmulPlans::use(const MatmulPlan& plan) {
  const MatmulKey key{.shape = plan.shape};
  Plan usable{.problem = MatmulProblem(key), .algorithms = {}};
  if (plan.algorithm != kPlainKernel) {
    const cublasLtMatmulAlgo_t algorithm = algorithm_of(plan.algorithm);
    const std::string objection = usable.problem.objection(place(nullptr), algorithm);
    if (!objection.empty()) throw BackendError(to_string(plan.shape) + ": " + objection);
    // One that was not measured may yet be refused: the library's others come after it.
    usable.algorithms = unmeasured(usable.problem, place(nullptr));
    std::erase_if(usable.algorithms, [&](const cublasLtMatmulAlgo_t& other) {
      return std::memcmp(&other, &algorithm, sizeof other) == 0;
    });
    usable.algorithms.insert(usable.algorithms.begin(), algorithm);
  }
  plans_.insert_or_assign(key, std::move(usable));
}

std::vector<MatmulComparison> MatmulPlans::compare(std::span<const MatmulShape> shapes,
                                                   std::size_t memory_bytes) {
  MatmulTimer timer(handle_.get(), place(nullptr).workspace, shapes, memory_bytes);
  std::vector<MatmulComparison> comparisons;
  for (const MatmulShape& shape : shapes) {
    MatmulComparison& comparison = comparisons.emplace_back();
    const Plan& plan = plan_for({.shape = shape});
    const Algorithms first = unmeasured(plan.problem, place(nullptr));
    if (plan.algorithms.empty() || first.empty() || !timer.fits(shape)) continue;
    Algorithms algorithms{plan.algorithms.front()};
    add_new(algorithms, first.front());
    const std::size_t kept = algorithms.size();
    // What is compared with may also ask for more alignment than plans count on.
    const MatmulProblem aligned({.shape = shape,
                                 .alignment_a = kComparedAlignment,
                                 .alignment_b = kComparedAlignment,
                                 .alignment_out = kComparedAlignment});
    for (const cublasLtMatmulAlgo_t& algorithm :
         aligned.proposals(place(nullptr), Reductions::kAny, kComparedProposals)) {
      add_new(algorithms, algorithm);
    }
    const std::vector<double> seconds =
        timer.race(shape, products_by(plan.problem, algorithms), kept);
    comparison = {.planned_s = seconds[0],
                  .first_s = seconds[index_of(algorithms, first.front())],
                  .best_s = *std::ranges::min_element(seconds)};
  }
  return comparisons;
}

}  // namespace strata::cuda
