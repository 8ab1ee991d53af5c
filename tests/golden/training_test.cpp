// Whole training runs against PyTorch: logits, losses, every gradient and the weights after five
// clipped AdamW steps.

#include <algorithm>
#include <cmath>
#include <mutex>
#include <string>

#include "golden/golden_model.h"
#include "strata/ops/backend.h"
#include "support/catch.h"
#include "support/thread_communicator.h"
#include "support/tiny_run.h"

namespace strata::test {
namespace {

RunConfig golden_config(const GoldenModel& golden, DType dtype) {
  RunConfig config;
  config.run.backend = BackendChoice::kCpu;
  config.run.dtype = dtype;
  config.run.threads = 2;
  config.run.steps = static_cast<std::int64_t>(golden.steps.size());
  config.model.path = golden.folder.string();
  config.model.llama = load_llama_config(golden.folder / "config.json");
  config.data.synthetic = true;  // replaced by the golden batches
  config.data.sequence_length = golden.tokens;
  config.data.document_mask = golden.mask == DocumentMask::kOn;
  config.schedule.rows = 1;
  config.schedule.sub_batches = golden.rows;
  config.optimizer.lr = golden.optimizer.lr;
  config.optimizer.betas = {golden.optimizer.beta1, golden.optimizer.beta2};
  config.optimizer.eps = golden.optimizer.eps;
  config.optimizer.weight_decay = golden.optimizer.weight_decay;
  config.optimizer.grad_clip = golden.optimizer.clip;
  config.optimizer.gradient_dtype = DType::kF32;
  return config;
}

struct GoldenRun {
  RunResult result;
  std::map<std::string, std::vector<double>> first_gradients;
};

GoldenRun train_golden(const GoldenModel& golden, const RunConfig& config, int ranks) {
  std::mutex mutex;
  GoldenRun run;
  run_ranks(ranks, [&](Communicator& communicator) {
    SessionHooks hooks;
    hooks.fill = [&](std::int64_t step, int pass, const BatchOptions& options,
                     const PassBuffers& out) {
      return fill_golden_pass(golden, step, pass, options, out);
    };
    Session session(config, communicator, hooks);
    session.submit(0, config.optimizer.lr);
    session.synchronize();
    auto gradients = gather_gradients(session, communicator);
    for (std::int64_t step = 1; step < config.run.steps; ++step) {
      session.submit(step, config.optimizer.lr);
    }
    session.synchronize();
    auto weights = gather_weights(session, communicator);
    const std::lock_guard lock(mutex);
    if (communicator.rank() != 0) return;
    for (const FinishedStep& finished : session.take_finished()) {
      run.result.losses.push_back(finished.outcome.loss);
      run.result.norms.push_back(finished.outcome.grad_norm);
    }
    run.result.weights = std::move(weights);
    run.first_gradients = std::move(gradients);
  });
  return run;
}

/// ||a - b|| / ||b|| over all tensors together.
double distance(const NamedTensors& a, const NamedTensors& b) {
  double difference = 0;
  double norm = 0;
  for (const auto& [name, expected] : b) {
    const auto& found = a.at(name);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      difference += (found[i] - expected[i]) * (found[i] - expected[i]);
      norm += expected[i] * expected[i];
    }
  }
  return std::sqrt(difference / norm);
}

NamedTensors changes(const NamedTensors& weights, const NamedTensors& initial) {
  NamedTensors result = weights;
  for (auto& [name, values] : result) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= initial.at(name)[i];
  }
  return result;
}

/// Tensors are compared one by one where PyTorch's own error of the tensor is known, with room for
/// another order of sums and other places of rounding.
constexpr double kRoom = 2.5;

void check_against(const GoldenModel& golden, const GoldenErrors& errors, const GoldenRun& run) {
  for (std::size_t step = 0; step < golden.losses.size(); ++step) {
    INFO("step " << step);
    const double loss = golden.losses[step];
    CHECK(std::abs(run.result.losses[step] - loss) / loss <
          kRoom * *std::max_element(errors.losses.begin(), errors.losses.end()) + 1e-7);
    const double norm = golden.norms[step];
    CHECK(std::abs(run.result.norms[step] - norm) / norm <
          kRoom * *std::max_element(errors.norms.begin(), errors.norms.end()) + 1e-7);
  }
  for (const auto& [name, expected] : golden.gradients) {
    INFO(name);
    CHECK(relative_error(run.first_gradients.at(name), expected) <
          kRoom * std::max(errors.gradient.at(name), errors.gradients));
  }
  // AdamW divides by the root of v: where a gradient is nearly zero, its rounding error becomes an
  // update of full size, and one such element can outweigh a whole tensor. So the median tensor
  // must be as close as PyTorch's, and the total only of that order.
  const NamedTensors found = changes(run.result.weights, golden.initial);
  const NamedTensors expected = changes(golden.final, golden.initial);
  std::vector<double> ratios;
  for (const auto& [name, error] : errors.change) {
    ratios.push_back(relative_error(found.at(name), expected.at(name)) / error);
  }
  std::nth_element(ratios.begin(), ratios.begin() + std::ssize(ratios) / 2, ratios.end());
  CHECK(ratios[ratios.size() / 2] < kRoom);
  CHECK(distance(found, expected) < 2 * kRoom * errors.changes);
}

}  // namespace

TEST_CASE("losses, gradients and weights after five steps are PyTorch's, in f64") {
  for (const std::string name : kGoldenModels) {
    const GoldenModel golden = load_golden_model(name);
    const RunConfig config = golden_config(golden, DType::kF64);
    struct Mode {
      int ranks;
      std::int64_t passes, sub_batches, rows;
    };
    for (const Mode& mode : {Mode{1, 1, 1, 6}, Mode{1, 1, 6, 1}, Mode{1, 2, 3, 1}, Mode{2, 1, 3, 1},
                             Mode{3, 1, 1, 2}}) {
      if (mode.ranks * mode.passes * mode.sub_batches * mode.rows != golden.rows) continue;
      INFO(name << ", " << mode.ranks << " ranks, " << mode.passes << " passes of "
                << mode.sub_batches << " sub-batches");
      RunConfig c = config;
      c.schedule.passes = mode.passes;
      c.schedule.sub_batches = mode.sub_batches;
      c.schedule.rows = mode.rows;
      const GoldenRun run = train_golden(golden, c, mode.ranks);
      CHECK(relative_error(run.result.losses, golden.losses) < 1e-9);
      CHECK(relative_error(run.result.norms, golden.norms) < 1e-9);
      for (const auto& [tensor, expected] : golden.gradients) {
        INFO(tensor);
        CHECK(relative_error(run.first_gradients.at(tensor), expected) < 1e-9);
      }
      for (const auto& [tensor, expected] : golden.final) {
        INFO(tensor);
        CHECK(relative_error(run.result.weights.at(tensor), expected) < 1e-9);
      }
    }
  }
}

TEST_CASE("logits are PyTorch's, in f64") {
  for (const std::string name : kGoldenModels) {
    INFO(name);
    const GoldenModel golden = load_golden_model(name);
    RunConfig config = golden_config(golden, DType::kF64);
    config.schedule.rows = golden.rows;
    config.schedule.sub_batches = 1;
    config.schedule.head_chunk_tokens = golden.rows * golden.tokens;
    SessionHooks hooks;
    hooks.fill = [&](std::int64_t step, int pass, const BatchOptions& options,
                     const PassBuffers& out) {
      return fill_golden_pass(golden, step, pass, options, out);
    };
    const auto self = make_self_communicator();
    Session session(config, *self, hooks);
    CHECK(std::abs(session.evaluate() - golden.losses[0]) < 1e-9 * golden.losses[0]);
    const ConstTensorView view = session.model().last_logits();
    std::vector<double> logits;
    for (std::int64_t row = 0; row < view.rows(); ++row) {
      const double* first = view.as<double>() + row * view.row_stride;
      logits.insert(logits.end(), first, first + view.shape[1]);
    }
    CHECK(relative_error(logits, golden.logits) < 1e-9);
  }
}

TEST_CASE("training in f32 and bf16 stays as close to f64 as PyTorch's own") {
  for (const std::string name : kGoldenModels) {
    INFO(name);
    const GoldenModel golden = load_golden_model(name);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      INFO(std::string(strata::name_of(dtype)));
      const GoldenRun run = train_golden(golden, golden_config(golden, dtype), 1);
      check_against(golden, dtype == DType::kF32 ? golden.f32_errors : golden.bf16_errors, run);
    }
  }
}

TEST_CASE("training on the GPU stays as close to f64 as PyTorch's own", "[cuda]") {
  if (!cuda_available()) {
    WARN("skipped: this program has no CUDA backend, or there is no device");
    return;
  }
  const GoldenModel golden = load_golden_model("gqa_tied_llama3");  // head dim 64
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    INFO(std::string(strata::name_of(dtype)));
    RunConfig config = golden_config(golden, dtype);
    config.run.backend = BackendChoice::kCuda;
    const GoldenRun run = train_golden(golden, config, 1);
    check_against(golden, dtype == DType::kF32 ? golden.f32_errors : golden.bf16_errors, run);
  }
}

}  // namespace strata::test
