// Tests whole training runs against PyTorch: logits, losses, every gradient and the weights after
// five clipped AdamW steps. f64 must agree to 1e-9; f32 and bf16 are held, by the relative norm of
// each tensor, against what PyTorch itself gets wrong in that dtype.

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "golden/golden_model.h"
#include "golden/golden_run.h"
#include "strata/base/convert.h"
#include "strata/device/arena.h"
#include "strata/ops/backend.h"
#include "strata/train/session.h"
#include "support/catch.h"
#include "support/tiny_run.h"
#include "support/without_gpu.h"

namespace strata::test {
namespace {

struct Evaluation {
  double loss = 0;
  std::vector<double> logits;  ///< [rows, T, V]
};

/// What the untrained model says about the batch of step 0, in one sub-batch and one chunk.
Evaluation evaluate_golden(const GoldenModel& golden, RunConfig config) {
  config.schedule.rows = golden.rows;
  config.schedule.sub_batches = 1;
  config.schedule.head_chunk_tokens = golden.rows * golden.tokens;
  SessionHooks hooks;
  hooks.fill = [&](std::int64_t step, int pass, const BatchOptions& options,
                   const PassBuffers& out) {
    return fill_golden_pass(golden, step, pass, options, out);
  };
  const auto self = make_self_ranks();
  Session session(config, *self, hooks);
  Evaluation result{.loss = session.evaluate(), .logits = {}};
  ConstTensorView view = session.model().last_logits();
  const std::size_t bytes = view.bytes().bytes;
  Arena host(session.device(), Space::kPinned, bytes, "logits");
  std::byte* copy = host.allocate("logits", bytes);
  session.device().stream(Lane::kCompute).copy(copy, view.data, bytes, {});
  session.device().synchronize();
  view.data = copy;
  for (std::int64_t row = 0; row < view.rows(); ++row) {
    const std::vector<double> values = load_as_double(view.slice_rows(row, 1));
    result.logits.insert(result.logits.end(), values.begin(), values.end());
  }
  return result;
}

const GoldenErrors& errors_of(const GoldenModel& golden, DType dtype) {
  return dtype == DType::kF32 ? golden.f32_errors : golden.bf16_errors;
}

double norm_of(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

/// Room for another order of sums and other places of rounding than PyTorch's.
constexpr double kRoom = 2.5;

/// Allowed for a tensor's gradient, relative to its norm: a tensor in which PyTorch was lucky is
/// held to PyTorch's error over all tensors.
double gradient_bound(const GoldenErrors& errors, const std::string& name) {
  return kRoom * std::max(errors.gradient.at(name), errors.gradients);
}

/// Returns what the error of a tensor's gradient is relative to. A bias is a column of its linear's
/// weight whose input is 1: where its sum cancels, as that of keys does, whose shift softmax hardly
/// sees, the error is still that of such a column.
double gradient_scale(const GoldenModel& golden, const std::string& name) {
  const double own = norm_of(golden.gradients.at(name));
  constexpr std::string_view kBias = ".bias";
  if (!name.ends_with(kBias)) return own;
  const std::vector<double>& bias = golden.gradients.at(name);
  const std::vector<double>& weight =
      golden.gradients.at(name.substr(0, name.size() - kBias.size()) + ".weight");
  const std::size_t columns = weight.size() / bias.size();
  return std::max(own, norm_of(weight) / std::sqrt(static_cast<double>(columns)));
}

/// How far the first update moves, at most and as a norm, if each gradient of the tensor is off by
/// gradient_bound(): that is a norm; `error` is its share of one element. The first update is
/// u = g / (|g| + eps), a sign but for eps, whatever the size of g: where |g| is about its own
/// rounding error, u may be anything from -1 to 1, in PyTorch's run too. Later updates divide by
/// what earlier steps left in v, so there an error of g counts by its ratio to that. A gradient
/// that is exactly 0 is that of a token that does not occur, which is exact.
double first_update_bound(const GoldenModel& golden, const GoldenErrors& errors,
                          const std::string& name) {
  const std::vector<double>& gradient = golden.gradients.at(name);
  const double factor = std::min(1.0, golden.optimizer.clip / golden.norms[0]);
  const double error = factor * gradient_bound(errors, name) * norm_of(gradient) /
                       std::sqrt(static_cast<double>(gradient.size()));
  const auto update = [&](double g) { return g / (std::abs(g) + golden.optimizer.eps); };
  std::vector<double> moves;
  for (const double unclipped : gradient) {
    if (unclipped == 0) continue;
    const double g = factor * unclipped;
    const double toward_zero = g - std::copysign(error, g);  // the larger move of the two
    moves.push_back(golden.optimizer.lr * std::abs(update(toward_zero) - update(g)));
  }
  return norm_of(moves);
}

/// Allowed for a tensor's weights after the last step, relative to their norm. An error of weights
/// is an error of their change: of the elements whose first update is well determined, for which
/// PyTorch's own error of the change is the measure (its master weights are rounded to f32 as ours
/// are), and of the others. The two parts are of different elements, so their squares add.
double weight_bound(const GoldenModel& golden, const GoldenErrors& errors,
                    const std::string& name) {
  const std::vector<double>& final = golden.final.at(name);
  std::vector<double> change = final;
  for (std::size_t i = 0; i < change.size(); ++i) change[i] -= golden.initial.at(name)[i];
  return std::hypot(kRoom * errors.change.at(name) * norm_of(change),
                    first_update_bound(golden, errors, name)) /
         norm_of(final);
}

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
    const double error = relative_error(run.first_gradients.at(name), expected) * norm_of(expected);
    CHECK(error < gradient_bound(errors, name) * gradient_scale(golden, name));
  }
  for (const auto& [name, expected] : golden.final) {
    INFO(name);
    CHECK(relative_error(run.result.weights.at(name), expected) <
          weight_bound(golden, errors, name));
  }
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
    for (const Mode& mode : {Mode{1, 1, 1, 6}, Mode{2, 1, 3, 1}, Mode{3, 2, 1, 1}}) {
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

TEST_CASE("gradients are PyTorch's whatever is kept, with norms of what layers add, in f64") {
  const GoldenModel golden = load_golden_model("olmo2");
  for (const KeepLevel level : kKeepLevels) {
    INFO("level " << static_cast<int>(level));
    RunConfig config = golden_config(golden, DType::kF64);
    config.schedule.activations = level;
    const GoldenRun run = train_golden(golden, config, 1);
    for (const auto& [tensor, expected] : golden.gradients) {
      INFO(tensor);
      CHECK(relative_error(run.first_gradients.at(tensor), expected) < 1e-9);
    }
  }
}

TEST_CASE("logits are PyTorch's, in f64") {
  for (const std::string name : kGoldenModels) {
    INFO(name);
    const GoldenModel golden = load_golden_model(name);
    const Evaluation found = evaluate_golden(golden, golden_config(golden, DType::kF64));
    CHECK(std::abs(found.loss - golden.losses[0]) < 1e-9 * golden.losses[0]);
    CHECK(relative_error(found.logits, golden.logits) < 1e-9);
  }
}

/// Room likewise for logits, which no step of training has moved apart.
constexpr double kLogitsRoom = 1.2;

TEST_CASE("logits in f32 and bf16 are as close to f64 as PyTorch's own") {
  for (const std::string name : kGoldenModels) {
    INFO(name);
    const GoldenModel golden = load_golden_model(name);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      INFO(std::string(strata::name_of(dtype)));
      const Evaluation found = evaluate_golden(golden, golden_config(golden, dtype));
      const double allowed = kLogitsRoom * errors_of(golden, dtype).logits;
      CHECK(relative_error(found.logits, golden.logits) < allowed);
    }
  }
}

TEST_CASE("training in f32 and bf16 stays as close to f64 as PyTorch's own") {
  for (const std::string name : kGoldenModels) {
    INFO(name);
    const GoldenModel golden = load_golden_model(name);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      INFO(std::string(strata::name_of(dtype)));
      const GoldenRun run = train_golden(golden, golden_config(golden, dtype), 1);
      check_against(golden, errors_of(golden, dtype), run);
    }
  }
}

/// Head dim 64, and models with what a LLaMA does not have.
constexpr const char* kModelsOnGpu[] = {
    "gqa_tied_llama3", "qwen2",         "biased",  "qwen3",          "granite", "olmo2",
    "gemma",           "phi3_longrope", "smollm3", "mistral_window", "glm4",    "exaone4",
    "olmo3",           "gemma2",        "gemma3"};

TEST_CASE("logits on the GPU are as close to f64 as PyTorch's own", "[cuda]") {
  if (without_gpu()) return;
  for (const std::string name : kModelsOnGpu) {
    const GoldenModel golden = load_golden_model(name);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      INFO(name << " in " << std::string(strata::name_of(dtype)));
      RunConfig config = golden_config(golden, dtype);
      config.run.backend = BackendChoice::kCuda;
      const Evaluation found = evaluate_golden(golden, config);
      CHECK(relative_error(found.logits, golden.logits) < kRoom * errors_of(golden, dtype).logits);
    }
  }
}

TEST_CASE("training on the GPU stays as close to f64 as PyTorch's own", "[cuda]") {
  if (without_gpu()) return;
  for (const std::string name : kModelsOnGpu) {
    const GoldenModel golden = load_golden_model(name);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      INFO(name << " in " << std::string(strata::name_of(dtype)));
      RunConfig config = golden_config(golden, dtype);
      config.run.backend = BackendChoice::kCuda;
      const GoldenRun run = train_golden(golden, config, 1);
      check_against(golden, errors_of(golden, dtype), run);
    }
  }
}

}  // namespace strata::test
