// Tests whole training steps whose products multiply codes in e4m3: their bits are those of steps
// in bf16 in which both operands of each product were rounded before it. The rounding is that of
// strata/op_checks/fp8_reference.h, so what is tested is which tensor is rounded how, and where its
// codes go.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "modes.h"
#include "strata/op_checks/fp8_reference.h"
#include "support/catch.h"
#include "support/passed_on_kernels.h"
#include "support/tiny_model.h"
#include "support/tiny_run.h"

namespace strata::test {
namespace {

std::vector<double> values_of(const ConstTensorView& view) {
  std::vector<double> values;
  for (std::int64_t r = 0; r < view.rows(); ++r) {
    const Bf16* const row = view.as<Bf16>() + r * view.row_stride;
    for (std::int64_t c = 0; c < view.shape[1]; ++c) {
      values.push_back(static_cast<double>(static_cast<float>(row[c])));
    }
  }
  return values;
}

std::vector<double> rounded_rows(const ConstTensorView& view) {
  return quantized(values_of(view), view.rows()).values();
}

std::vector<double> rounded_columns(const ConstTensorView& view) {
  const std::int64_t rows = view.rows();
  const std::int64_t columns = view.shape[1];
  const std::vector<double> across = transposed(values_of(view), rows, columns);
  return transposed(quantized(across, columns).values(), columns, rows);
}

/// Rounds the rows of a matrix, and then all of them again with the largest of their scales.
std::vector<double> rounded_twice(const ConstTensorView& view) {
  const Fp8Rows rows = quantized(values_of(view), view.rows());
  const double scale = *std::ranges::max_element(rows.scales);
  std::vector<double> values = rows.values();
  for (double& x : values) x = nearest_e4m3(x / scale) * scale;
  return values;
}

/// Says whether a product of this layout of a linear, [out, in], has rounded operands.
using Rounds = std::function<bool(MatmulLayout layout, std::int64_t in, std::int64_t out)>;

/// Rounds operands of products in bf16. Biases, and what else reads the operands, find them as they
/// are. A bias is added afterwards, as products of codes have it.
class RoundingKernels final : public PassedOnKernels {
 public:
  RoundingKernels(std::unique_ptr<Kernels> kernels, std::unique_ptr<Device> dry, Rounds rounds)
      : PassedOnKernels(std::move(kernels), std::move(dry)), rounds_(std::move(rounds)) {}

 private:
  using Values = std::vector<Bf16>;

  static void fill(Values& to, const std::vector<double>& from) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i] = Bf16(static_cast<float>(from[i]));
      if (static_cast<float>(to[i]) != from[i]) throw std::logic_error("not a number of bf16");
    }
  }

  void launch(Stream& stream, const Matmul& op) override {
    const bool forward = op.layout == MatmulLayout::kNT;
    const bool weights = op.layout == MatmulLayout::kTN;
    const std::int64_t in = forward ? op.k() : op.n();
    const std::int64_t out = forward ? op.n() : (weights ? op.m() : op.k());
    if (!rounds_(op.layout, in, out)) return pass_on(stream, op);
    const auto a = std::make_shared<Values>(static_cast<std::size_t>(op.a.elements()));
    const auto b = std::make_shared<Values>(static_cast<std::size_t>(op.b.elements()));
    Matmul rounded = op;
    rounded.a = ConstTensorView(a->data(), DType::kBF16, op.a.shape);
    rounded.b = ConstTensorView(b->data(), DType::kBF16, op.b.shape);
    rounded.bias = {};
    // What is called before the product keeps the values that it reads.
    pass_on(
        stream, rounded, [a, b] {},
        [=] {
          fill(*a, weights ? rounded_columns(op.a) : rounded_rows(op.a));
          fill(*b, weights ? rounded_columns(op.b)
                           : (forward ? rounded_rows(op.b) : rounded_twice(op.b)));
        });
    if (op.bias) pass_on(stream, BiasAdd{.x = op.out, .bias = op.bias, .y = op.out});
  }
  // The other launches of the base class stay.
  using PassedOnKernels::launch;

  Rounds rounds_;
};

/// Trains in bf16 with rounded operands.
RunResult run_rounded(RunConfig config, const Rounds& rounds) {
  config.run.products = Products::kPlain;
  config.run.products_bf16.clear();
  TinyHooks hooks;
  hooks.make_backend = [&](BackendKind kind, const BackendOptions& options) {
    Backend backend = make_backend(kind, options);
    Backend dry = make_backend(BackendKind::kDry, {});
    backend.kernels = std::make_unique<RoundingKernels>(std::move(backend.kernels),
                                                        std::move(dry.device), rounds);
    return backend;
  };
  return run_tiny(config, 1, hooks);
}

RunConfig bf16_config() {
  RunConfig config = tiny_config();
  config.run.dtype = DType::kBF16;
  config.run.steps = 2;
  config.schedule.sub_batches = 3;
  config.schedule.rows = 2;
  return config;
}

/// Rounds what run.products says, in all linears but those with this input and output.
Rounds rounds_of(const RunConfig& config, std::int64_t but_in = 0, std::int64_t but_out = 0) {
  const bool all = config.run.products == Products::kFp8All;
  const std::int64_t vocabulary = config.model.llama.vocab_size;
  return [=](MatmulLayout layout, std::int64_t in, std::int64_t out) {
    const bool head = in == vocabulary || out == vocabulary;
    const bool left_out = in == but_in && out == but_out;
    return !head && !left_out && (all || layout != MatmulLayout::kTN);
  };
}

}  // namespace

TEST_CASE("steps in e4m3 have the bits of steps in bf16 whose operands were rounded", "[numbers]") {
  for (const Products products : {Products::kFp8, Products::kFp8All}) {
    for (const KeepLevel level :
         {KeepLevel::kRecompute, KeepLevel::kAttentionOut, KeepLevel::kFull}) {
      RunConfig config = bf16_config();
      config.run.products = products;
      config.schedule.activations = level;
      INFO(static_cast<int>(products) << ", keeps " << std::string(name_of(level)));
      const RunResult codes = run_tiny(config);
      CHECK(codes == run_rounded(config, rounds_of(config)));
      config.run.products = Products::kPlain;
      CHECK(codes.weights != run_tiny(config).weights);
    }
  }
}

TEST_CASE("so they have with all norms, biases and multipliers, and without some norms",
          "[numbers]") {
  const auto check = [](RunConfig config) {
    for (const Products products : {Products::kFp8, Products::kFp8All}) {
      config.run.products = products;
      CHECK(run_tiny(config) == run_rounded(config, rounds_of(config)));
    }
  };
  RunConfig richest = bf16_config();
  enrich(richest.model.llama);
  check(richest);
  RunConfig granite = bf16_config();
  granite.model.llama.model_type = ModelType::kGranite;
  granite.model.llama.residual_multiplier = 0.3;
  check(granite);
  RunConfig olmo = bf16_config();  // no norm before attention and MLP
  olmo.model.llama.model_type = ModelType::kOlmo2;
  check(olmo);
}

TEST_CASE("what run.products_bf16 names stays as it is in bf16", "[numbers]") {
  RunConfig config = bf16_config();
  const LlamaConfig& m = config.model.llama;
  const RunResult plain = run_tiny(config);
  for (const Products products : {Products::kFp8, Products::kFp8All}) {
    config.run.products = products;
    config.run.products_bf16 = {"down"};
    CHECK(run_tiny(config) ==
          run_rounded(config, rounds_of(config, m.intermediate_size, m.hidden_size)));
    config.run.products_bf16 = {"qkv", "attention_out", "gate_up", "down"};
    CHECK(run_tiny(config) == plain);
    config.run.products_bf16 = {"layers.0", "layers.1", "layers.2"};
    CHECK(run_tiny(config) == plain);
    config.run.products_bf16 = {"layers.0", "layers.2"};
    const RunResult middle = run_tiny(config);
    CHECK(middle.weights != plain.weights);
    config.run.products_bf16 = {"layers.1"};
    CHECK(middle.weights != run_tiny(config).weights);
  }
}

TEST_CASE("adapters multiply numbers beside products of codes") {
  RunConfig config = bf16_config();
  config.adapter = AdapterConfig{.rank = 3};
  const auto check = [](RunConfig run) {
    run.run.products = Products::kFp8;
    const Rounds of_linears = rounds_of(run);
    constexpr std::int64_t kWidestRank = 3 * 3;  // of q, k and v; all widths are above it
    const RunResult codes = run_tiny(run);
    CHECK(codes == run_rounded(run, [&](MatmulLayout layout, std::int64_t in, std::int64_t out) {
            return std::min(in, out) > kWidestRank && of_linears(layout, in, out);
          }));
    run.run.products = Products::kFp8All;  // no gradient of W is made
    CHECK(codes == run_tiny(run));
    run.run.products = Products::kPlain;
    CHECK(codes.losses != run_tiny(run).losses);
  };
  for (const KeepLevel level : {KeepLevel::kRecompute, KeepLevel::kFull}) {
    config.schedule.activations = level;
    check(config);
  }
  enrich(config.model.llama);
  check(config);
}

TEST_CASE("over weights in e4m3 products of codes have the bits of those over plain weights") {
  RunConfig config = bf16_config();
  config.adapter = AdapterConfig{.rank = 3};
  const auto run_over = [&](Form form, Products products) {
    config.adapter->base_format = form;
    config.run.products = products;
    return run_tiny(config);
  };
  const RunResult plain = run_over(Form::kPlain, Products::kFp8);
  const RunResult packed = run_over(Form::kFp8, Products::kFp8);
  CHECK(packed.losses == plain.losses);
  CHECK(packed.norms == plain.norms);
  CHECK(packed.losses != run_over(Form::kFp8, Products::kPlain).losses);
}

TEST_CASE("a visit rounds weights once, and cells have no pass where an operator rounds") {
  RunConfig config = bf16_config();
  config.run.steps = 1;
  config.run.products = Products::kFp8All;
  config.schedule.activations = KeepLevel::kRecompute;
  Recorder r;
  trace_run(r, config);
  const std::int64_t layers = config.model.llama.num_hidden_layers;
  const std::int64_t cells = layers * config.schedule.sub_batches;
  // Weights in forward and backward; o twice, the gradients of a layer's output and of q, k and v.
  CHECK(std::ssize(r.find(QuantizeFp8Rows::kName)) == 2 * 4 * layers + 4 * cells);
  CHECK(std::ssize(r.find(TransposeFp8::kName)) == 4 * layers);
  CHECK(std::ssize(r.find(QuantizeFp8Columns::kName)) == 2 * 4 * cells);
  config.run.products = Products::kPlain;
  Recorder plain;
  trace_run(plain, config);
  CHECK(plain.find(QuantizeFp8Rows::kName).empty());
}

}  // namespace strata::test
