// Tests Muon against whole matrices in f64, worked out as the papers write it: steps that are
// clipped, skipped and neither, in every dtype; and that a model learns by it.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/base/convert.h"
#include "strata/base/random.h"
#include "strata/engine/state_choices.h"
#include "strata/model/families.h"
#include "strata/optimizer/optimizer.h"
#include "support/catch.h"
#include "support/tiny_model.h"
#include "support/tiny_run.h"

namespace strata::test {
namespace {

constexpr double kLr = 0.02;
constexpr double kMuonDecay = 0.1;
constexpr double kMomentum = 0.95;
constexpr double kClip = 1;

/// The gradients of these steps: larger than kClip, not finite, smaller, and larger.
constexpr double kSizes[] = {1, std::numeric_limits<double>::quiet_NaN(), 1e-4, 0.3};

/// A matrix of rows of numbers.
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> values;

  [[nodiscard]] double at(std::int64_t i, std::int64_t j) const {
    return values[static_cast<std::size_t>(i * columns + j)];
  }
};

Matrix transposed(const Matrix& a) {
  Matrix t{.rows = a.columns, .columns = a.rows, .values = {}};
  for (std::int64_t i = 0; i < t.rows; ++i) {
    for (std::int64_t j = 0; j < t.columns; ++j) t.values.push_back(a.at(j, i));
  }
  return t;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c{.rows = a.rows, .columns = b.columns, .values = {}};
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.columns; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < a.columns; ++k) sum += a.at(i, k) * b.at(k, j);
      c.values.push_back(sum);
    }
  }
  return c;
}

/// Returns x a + y b.
Matrix combined(const Matrix& x, double a, const Matrix& y, double b) {
  Matrix sum = x;
  for (std::size_t i = 0; i < sum.values.size(); ++i) {
    sum.values[i] = a * x.values[i] + b * y.values[i];
  }
  return sum;
}

double norm_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

/// Returns what five Newton-Schulz steps make of a direction (Jordan et al., 2024).
Matrix orthogonalised(const Matrix& direction) {
  const bool high = direction.rows > direction.columns;
  Matrix x = high ? transposed(direction) : direction;
  const double norm = std::max(norm_of(x.values), 1e-7);
  for (double& value : x.values) value /= norm;
  for (int step = 0; step < 5; ++step) {
    const Matrix gram = product(x, transposed(x));
    const Matrix polynomial = combined(gram, -4.7750, product(gram, gram), 2.0315);
    x = combined(x, 3.4445, product(polynomial, x), 1);
  }
  return high ? transposed(x) : x;
}

/// One tensor of the model, and its state in f64.
struct Tensor {
  std::string name;
  BlockId block{};
  std::int64_t begin = 0;  ///< in the block
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> w, m, v;

  [[nodiscard]] bool is_matrix() const { return name.ends_with("_proj.weight"); }
  [[nodiscard]] double lr() const { return name.ends_with(".k_proj.weight") ? kLr / 2 : kLr; }
  [[nodiscard]] double decay() const {
    return name.find("norm") != std::string::npos || name.ends_with(".bias") ? 0 : kMuonDecay;
  }
  [[nodiscard]] std::vector<double> part_of(const std::vector<double>& block_values) const {
    const auto first = block_values.begin() + begin;
    return {first, first + rows * columns};
  }

  /// Makes update number t (from 1) by a clipped gradient.
  void update(const std::vector<double>& g, int t) {
    if (is_matrix()) return update_whole(g);
    for (std::size_t i = 0; i < w.size(); ++i) {
      m[i] = 0.9 * m[i] + 0.1 * g[i];
      v[i] = 0.95 * v[i] + 0.05 * g[i] * g[i];
      const double u =
          m[i] / (1 - std::pow(0.9, t)) / (std::sqrt(v[i] / (1 - std::pow(0.95, t))) + 1e-8);
      w[i] -= lr() * (decay() * w[i] + u);
    }
  }

 private:
  void update_whole(const std::vector<double>& g) {
    Matrix direction{.rows = rows, .columns = columns, .values = g};
    for (std::size_t i = 0; i < g.size(); ++i) {
      m[i] = kMomentum * m[i] + g[i];
      direction.values[i] += kMomentum * m[i];
    }
    const Matrix o = orthogonalised(direction);
    const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
    for (std::size_t i = 0; i < w.size(); ++i) {
      w[i] -= lr() * (decay() * w[i] + scale * o.values[i]);
    }
  }
};

OptimizerOptions muon_options() {
  OptimizerOptions options;
  options.kind = OptimizerKind::kMuon;
  options.muon_momentum = kMomentum;
  options.weight_decay = kMuonDecay;
  options.grad_clip = kClip;
  options.lr_factors = {"*.k_proj.weight=0.5"};
  return options;
}

/// An optimizer alone, whose gradients the test makes.
class MuonRig {
 public:
  explicit MuonRig(DType dtype)
      : state_(layout_,
               plan_state(layout_, {.compute = dtype,
                                    .gradient = DType::kF32,
                                    .muon = true,
                                    .passes = 2}),  // the optimizer measures gradients
               arenas_),
        weights_(state_, *collectives_, *backend_.kernels, arenas_, 1),
        optimizer_({state_, weights_, *self_, *backend_.kernels, *backend_.kernels, arenas_,
                    *backend_.pool},
                   muon_options(),
                   [this](const StepOutcome& outcome) { applied.push_back(outcome.applied); }) {
    state_.initialize(3, 0.2, *backend_.pool);
    for (const BlockId b : state_.ids()) {
      const Block& block = layout_.blocks[b];
      for (const SourceRun& run : source_runs(block, 0, block.elements, block.elements)) {
        Tensor tensor{.name = run.source->name,
                      .block = b,
                      .begin = run.block_begin,
                      .rows = run.count / run.segment->cols,
                      .columns = run.segment->cols,
                      .w = {},
                      .m = {},
                      .v = {}};
        tensor.w = tensor.part_of(state_.master(b));
        tensor.m = tensor.v = std::vector<double>(tensor.w.size(), 0.0);
        tensors.push_back(std::move(tensor));
      }
    }
  }

  void step(std::int64_t number) {
    optimizer_.begin_step({.step = number, .lr = kLr, .valid_tokens = 1}, {});
    for (const BlockId b : state_.ids()) {
      const TensorView& grad = state_.block(b).grad;
      std::vector<double> values(static_cast<std::size_t>(grad.elements()), 0.0);
      for (const Tensor& tensor : tensors) {
        if (tensor.block != b) continue;
        for (std::int64_t i = tensor.begin; i < tensor.begin + tensor.rows * tensor.columns; ++i) {
          values[static_cast<std::size_t>(i)] =
              kSizes[number] * random_normal(static_cast<std::uint64_t>(number),
                                             static_cast<std::uint64_t>(b.value()),
                                             static_cast<std::uint64_t>(i));
        }
      }
      store_as(values, grad.dtype, {static_cast<std::byte*>(grad.data), grad.bytes().bytes});
      Arrival arrival;
      arrival.block = b;
      arrival.gradient = grad;
      optimizer_.arrived(std::move(arrival), {});
    }
    optimizer_.finish_step({});
    optimizer_.submit_updates({});
    backend_.device->synchronize();
    if (applied.back()) update_reference();
  }

  /// Returns by how much a tensor is wrong, as a share of how far it has come from `start`.
  [[nodiscard]] double error_of(const Tensor& tensor, const std::vector<double>& start) const {
    std::vector<double> off = tensor.part_of(state_.master(tensor.block));
    std::vector<double> way = tensor.w;
    for (std::size_t i = 0; i < way.size(); ++i) {
      off[i] -= tensor.w[i];
      way[i] -= start[i];
    }
    return norm_of(off) / norm_of(way);
  }
  [[nodiscard]] std::vector<double> moment_of(const Tensor& tensor,
                                              TensorView BlockState::*moment) const {
    return tensor.part_of(load_as_double(state_.block(tensor.block).*moment));
  }

  std::vector<Tensor> tensors;
  std::vector<bool> applied;  ///< of each step

 private:
  static LlamaConfig model() {
    LlamaConfig m = tiny_model();
    m.attention_bias = true;
    return m;
  }
  void update_reference() {
    double squares = 0;
    for (const BlockId b : state_.ids()) squares += std::pow(norm_of(state_.gradient(b)), 2);
    const double factor = std::min(1.0, kClip / std::sqrt(squares));
    ++updates_;
    for (Tensor& tensor : tensors) {
      std::vector<double> g = tensor.part_of(state_.gradient(tensor.block));
      for (double& value : g) value *= factor;
      tensor.update(g, updates_);
    }
  }

  const ModelLayout layout_ = make_layout(spec_of(model()));
  const Backend backend_ = make_backend(BackendKind::kCpu, {});
  Arena device_{*backend_.device, Space::kDevice, kMiB, "device"};
  Arena pinned_{*backend_.device, Space::kPinned, kMiB, "pinned"};
  Arena pageable_{*backend_.device, Space::kPageable, kMiB, "pageable"};
  const std::unique_ptr<Ranks> self_ = make_self_ranks();
  const std::unique_ptr<Collectives> collectives_ = make_collectives(*self_, *backend_.device);
  Arenas arenas_{device_, pinned_, pageable_};
  TrainingState state_;
  WeightStore weights_;
  Optimizer optimizer_;
  int updates_ = 0;
};

}  // namespace

TEST_CASE("muon updates matrices of layers as wholes and all else as AdamW does") {
  const auto& [dtype, tolerance] = GENERATE(
      table<DType, double>({{DType::kF64, 1e-9}, {DType::kF32, 1e-4}, {DType::kBF16, 0.05}}));
  MuonRig rig(dtype);
  std::vector<std::vector<double>> start;
  for (const Tensor& tensor : rig.tensors) start.push_back(tensor.w);
  for (std::int64_t step = 0; step < std::ssize(kSizes); ++step) {
    rig.step(step);
    for (std::size_t i = 0; i < rig.tensors.size(); ++i) {
      INFO(std::string(name_of(dtype)) << ", step " << step << ", " << rig.tensors[i].name);
      CHECK(rig.error_of(rig.tensors[i], start[i]) < tolerance);
    }
  }
  CHECK(rig.applied == std::vector<bool>{true, false, true, true});
  for (const Tensor& tensor : rig.tensors) {
    INFO(tensor.name);
    CHECK(relative_error(rig.moment_of(tensor, &BlockState::m), tensor.m) < 1e-6);
    CHECK(relative_error(rig.moment_of(tensor, &BlockState::v), tensor.v) < 1e-6);
  }
}

TEST_CASE("a model learns by muon") {
  RunConfig config = tiny_config();
  config.run.dtype = GENERATE(DType::kF64, DType::kBF16);
  config.run.steps = 30;
  config.optimizer.kind = OptimizerKind::kMuon;
  const SyntheticTokens tokens(1 << 10, config.model.llama.vocab_size, 5);
  ThreadPool pool(1);
  TinyHooks hooks;  // every step has the same tokens
  hooks.fill = [&](std::int64_t, int, const BatchOptions& options, const PassBuffers& out) {
    return BatchLoader(tokens, options, pool).fill_pass(0, 0, out);
  };
  const RunResult run = run_tiny(config, 1, hooks);
  INFO("from " << run.losses.front() << " to " << run.losses.back());
  CHECK(run.losses.back() < 0.5 * run.losses.front());
}

}  // namespace strata::test
