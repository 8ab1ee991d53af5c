// Tests every operator against PyTorch, on each backend.
//
// The golden files hold f64 results of inputs that bf16 holds exactly. f64 must agree to 1e-9. In
// f32 and bf16 an output may be 1.5 times as wrong as PyTorch's own in that dtype, and wrong by one
// rounding of the accumulator, since sums may run in another order; all by relative 2-norm.

#include <bit>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "golden/golden_case.h"
#include "golden/golden_file.h"
#include "strata/op_checks/op_runner.h"
#include "support/catch.h"
#include "support/without_gpu.h"

namespace strata::test {
namespace {

void embedding(GoldenCase& c) {
  c.runner().run(
      EmbeddingForward{.ids = c.in_i32("ids"), .table = c.in_x("table"), .y = c.out_x("y")});
  c.runner().run(EmbeddingBackward{.ids = c.in_i32("ids"),
                                   .order = c.in_i32("order"),
                                   .dy = c.in_x("dy"),
                                   .d_table = c.added_a("d_table")});
  c.check_outputs();
}

void rmsnorm(GoldenCase& c) {
  const bool residual = c.has("residual");
  const double eps = c.scalar("eps");
  c.runner().run(RmsNormForward{.x = c.in_x("x"),
                                .residual = residual ? c.in_x("residual") : TensorView{},
                                .weight = c.in_x("weight"),
                                .sum = residual ? c.out_x("sum") : TensorView{},
                                .y = c.out_x("y"),
                                .rstd = c.out_a("rstd"),
                                .eps = eps});
  const Shape workspace{RmsNormBackward::kWorkspaceRows, c.shape("weight")[0]};
  c.runner().run(RmsNormBackward{.dy = c.in_x("dy"),
                                 .x = c.in_x(residual ? "sum" : "x"),
                                 .weight = c.in_x("weight"),
                                 .rstd = c.in_a("rstd"),
                                 .d_residual = residual ? c.in_x("d_residual") : TensorView{},
                                 .dx = c.out_x("dx"),
                                 .d_weight = c.added_a("d_weight"),
                                 .workspace = c.runner().output(c.a(), workspace)});
  c.check_outputs();
}

void rope(GoldenCase& c) {
  Rope op{.x = c.in_place_x("x", "y"),
          .positions = c.in_i32("positions"),
          .cos = c.in_a("cos"),
          .sin = c.in_a("sin")};
  c.runner().run(op);
  op.x = c.in_place_x("dy", "dx");
  op.direction = RopeDirection::kBackward;
  c.runner().run(op);
  c.check_outputs();
}

void attention(GoldenCase& c) {
  const AttentionSegments segments{
      .table = c.in_i32("segments"),
      .uniform_length = static_cast<std::int64_t>(c.scalar("uniform_length"))};
  const double scale = c.scalar("scale");
  const auto window = static_cast<std::int64_t>(c.scalar("window"));
  const double score_cap = c.scalar("score_cap");
  c.runner().run(AttentionForward{.q = c.in_x("q"),
                                  .k = c.in_x("k"),
                                  .v = c.in_x("v"),
                                  .segments = segments,
                                  .o = c.out_x("o"),
                                  .lse = c.out_a("lse"),
                                  .scale = scale,
                                  .window = window,
                                  .score_cap = score_cap});
  c.runner().run(AttentionBackward{.d_o = c.in_x("d_o"),
                                   .q = c.in_x("q"),
                                   .k = c.in_x("k"),
                                   .v = c.in_x("v"),
                                   .o = c.in_x("o"),
                                   .lse = c.in_a("lse"),
                                   .segments = segments,
                                   .dq = c.out_x("dq"),
                                   .dk = c.out_x("dk"),
                                   .dv = c.out_x("dv"),
                                   .delta = c.runner().output(c.a(), c.shape("lse")),
                                   .scale = scale,
                                   .window = window,
                                   .score_cap = score_cap});
  c.check_outputs();
}

void swiglu(GoldenCase& c) {
  c.runner().run(SwigluForward{.gate_up = c.in_x("gate_up"), .y = c.out_x("y")});
  c.runner().run(SwigluBackward{.d_y = c.in_x("d_y"),
                                .gate_up = c.in_x("gate_up"),
                                .d_gate_up = c.out_x("d_gate_up"),
                                .y = c.out_x("y")});
  c.check_outputs();
}

void residual_add(GoldenCase& c) {
  c.runner().run(ResidualAdd{.a = c.in_x("a"), .b = c.in_x("b"), .y = c.out_x("y")});
  c.check_outputs();
}

void cross_entropy(GoldenCase& c) {
  c.runner().run(CrossEntropy{.logits = c.in_x("logits"),
                              .targets = c.in_i32("targets"),
                              .grad_scale = c.in_a("grad_scale"),
                              .loss = c.out_a("loss"),
                              .lse = c.out_a("lse"),
                              .d_logits = c.out_x("d_logits")});
  c.check_outputs();
}

void matmul(GoldenCase& c, MatmulLayout layout) {
  const bool accumulate = c.has("out_before");
  c.runner().run(
      Matmul{.a = c.in_x("a"),
             .b = c.in_x("b"),
             .out = accumulate ? c.added_a("out") : c.out_x("out"),
             .layout = layout,
             .update = accumulate ? MatmulUpdate::kAccumulate : MatmulUpdate::kOverwrite});
  c.check_outputs();
}

void squared_norm(GoldenCase& c) {
  c.runner().run(SquaredNorm{.x = c.in_x("x"), .partial = c.out("partial", DType::kF64)});
  c.check_outputs();
}

/// Gradients of one step in dtype X.
TensorView step_gradient(const GoldenCase& c, std::size_t step) {
  const std::vector<double> all = c.values("grads");
  const Shape shape{c.shape("grads")[1]};
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(step) * shape[0];
  return c.runner().upload({begin, begin + shape[0]}, c.x(), shape);
}

/// Returns the master weights that an update has left.
template <class Update>
std::vector<double> masters(GoldenCase& c, const Update& op) {
  std::vector<double> weight = c.runner().download(op.weight);
  if (!op.low) return weight;
  // bits(master) = bits(high) + low, in integers.
  const std::vector<double> low = c.runner().download(op.low);
  for (std::size_t i = 0; i < weight.size(); ++i) {
    const auto bits = std::bit_cast<std::int32_t>(static_cast<float>(weight[i])) +
                      static_cast<std::int32_t>(low[i]);
    weight[i] = std::bit_cast<float>(bits);
  }
  return weight;
}

void adamw(GoldenCase& c) {
  const Shape shape = c.shape("weight_before");
  const auto zeros = std::vector<double>(static_cast<std::size_t>(shape.elements()));
  const std::vector<double> lr = c.values("lr");
  const std::vector<double> factor = c.values("grad_factor");
  const bool split = c.x() == DType::kBF16;
  AdamW op{.weight = c.in_x("weight_before"),
           .low = split ? c.runner().upload(zeros, DType::kI16, shape) : TensorView{},
           .m = c.runner().upload(zeros, c.a(), shape),
           .v = c.runner().upload(zeros, c.a(), shape),
           .grad = {},
           .weight_decay = c.scalar("weight_decay"),
           .nonfinite = c.runner().upload({0}, DType::kI32, Shape{1})};
  for (std::size_t step = 0; step < lr.size(); ++step) {
    const double t = static_cast<double>(step + 1);
    const AdamWScalars scalars{.lr = lr[step],
                               .beta1 = c.scalar("beta1"),
                               .beta2 = c.scalar("beta2"),
                               .eps = c.scalar("eps"),
                               .correction1 = 1 - std::pow(c.scalar("beta1"), t),
                               .correction2 = 1 - std::pow(c.scalar("beta2"), t),
                               .grad_factor = factor[step]};
    op.grad = step_gradient(c, step);
    op.scalars =
        static_cast<const AdamWScalars*>(c.runner().upload_bytes(&scalars, sizeof scalars));
    c.runner().run(op);
  }
  c.check("weight", masters(c, op));
  c.check("m", c.runner().download(op.m));
  c.check("v", c.runner().download(op.v));
  CHECK(c.runner().download(op.nonfinite) == std::vector<double>{0});
}

void sgd(GoldenCase& c, MomentumFormula formula) {
  const Shape shape = c.shape("weight_before");
  const auto zeros = std::vector<double>(static_cast<std::size_t>(shape.elements()));
  const std::vector<double> lr = c.values("lr");
  const std::vector<double> factor = c.values("grad_factor");
  const bool split = c.x() == DType::kBF16;
  Momentum op{.formula = formula,
              .weight = c.in_x("weight_before"),
              .low = split ? c.runner().upload(zeros, DType::kI16, shape) : TensorView{},
              .m = c.runner().upload(zeros, c.a(), shape),
              .grad = {},
              .weight_decay = c.scalar("weight_decay"),
              .nonfinite = c.runner().upload({0}, DType::kI32, Shape{1})};
  for (std::size_t step = 0; step < lr.size(); ++step) {
    const AdamWScalars scalars{
        .lr = lr[step], .beta1 = c.scalar("momentum"), .grad_factor = factor[step]};
    op.grad = step_gradient(c, step);
    op.scalars =
        static_cast<const AdamWScalars*>(c.runner().upload_bytes(&scalars, sizeof scalars));
    c.runner().run(op);
  }
  c.check("weight", masters(c, op));
  c.check("m", c.runner().download(op.m));
  CHECK(c.runner().download(op.nonfinite) == std::vector<double>{0});
}

/// Returns the log-probabilities of both answers of each pair, summed from the reference's losses.
std::vector<double> summed_reference(const GoldenCase& c) {
  const std::vector<double> losses = c.values("reference");
  const std::vector<double> ends = c.values("pairs");
  const auto log_of = [&](double begin, double end) {
    const auto first = losses.begin() + static_cast<std::ptrdiff_t>(begin);
    return -std::accumulate(first, losses.begin() + static_cast<std::ptrdiff_t>(end), 0.0);
  };
  std::vector<double> logs;
  for (std::size_t p = 0; p < ends.size(); p += PreferenceLoss::kPairColumns) {
    logs.push_back(log_of(ends[p], ends[p + 1]));
    logs.push_back(log_of(ends[p + 1], ends[p + 2]));
  }
  return logs;
}

/// Where the reference's losses come from: they are there for each token, or summed beforehand.
enum class ReferenceForm : std::uint8_t { kTokens, kStored };

void preference(GoldenCase& c, Preference objective, ReferenceForm form = ReferenceForm::kTokens) {
  constexpr double kFineTolerance = 1e-12;  // of f64
  const bool stored = form == ReferenceForm::kStored;
  const PreferenceLoss op{
      .token_loss = c.in_a("token_loss"),
      .reference = stored ? TensorView() : c.in_a("reference"),
      .reference_logs =
          stored ? c.runner().upload(summed_reference(c), DType::kF64, {c.shape("pairs")[0], 2})
                 : TensorView(),
      .targets = c.in_i32("targets"),
      .pairs = c.in_i32("pairs"),
      .grad_scale = c.in_a("grad_scale"),
      .figures = c.out_a("figures"),
      .token_scale = c.out_a("token_scale"),
      .rule = {.objective = objective,
               .beta = c.scalar("beta"),
               .gamma = c.scalar("gamma"),
               .label_smoothing = c.scalar("label_smoothing")}};
  c.runner().run(op);
  if (c.x() == DType::kF64) {
    const auto distance_of = [&](const std::string& name, const TensorView& view) {
      return distance(c.runner().download(view), c.values(name));
    };
    CHECK(distance_of("figures", op.figures) <= kFineTolerance);
    CHECK(distance_of("token_scale", op.token_scale) <= kFineTolerance);
  }
  c.check_outputs();
}

struct GoldenOperator {
  const char* file;
  const char* name;
  std::function<void(GoldenCase&)> check;
  bool cpu_only = false;  ///< a head dim that the cuda backend does not have
};
const std::vector<GoldenOperator> kOperators{
    {"embedding", "odd", embedding},
    {"rmsnorm", "plain", rmsnorm},
    {"rmsnorm", "residual", rmsnorm},
    {"rope", "plain", rope},
    {"rope", "llama3", rope},
    {"attention", "gqa_64", attention},
    {"attention", "packed_64", attention},
    {"attention", "mha_odd", attention, true},
    {"attention", "packed", attention, true},
    {"swiglu", "odd", swiglu},
    {"residual_add", "odd", residual_add},
    {"cross_entropy", "odd", cross_entropy},
    {"matmul", "nt", [](GoldenCase& c) { matmul(c, MatmulLayout::kNT); }},
    {"matmul", "nn", [](GoldenCase& c) { matmul(c, MatmulLayout::kNN); }},
    {"matmul", "tn", [](GoldenCase& c) { matmul(c, MatmulLayout::kTN); }},
    {"squared_norm", "short_last_block", squared_norm},
    {"adamw", "four_steps", adamw},
    {"sgd", "momentum", [](GoldenCase& c) { sgd(c, MomentumFormula::kSgd); }},
    {"sgd", "nesterov", [](GoldenCase& c) { sgd(c, MomentumFormula::kNesterov); }},
    {"preference", "dpo", [](GoldenCase& c) { preference(c, Preference::kDpo); }},
    {"preference", "dpo_smoothed", [](GoldenCase& c) { preference(c, Preference::kDpo); }},
    {"preference", "ipo", [](GoldenCase& c) { preference(c, Preference::kIpo); }},
    {"preference", "dpo_smoothed",
     [](GoldenCase& c) { preference(c, Preference::kDpo, ReferenceForm::kStored); }},
    {"preference", "ipo",
     [](GoldenCase& c) { preference(c, Preference::kIpo, ReferenceForm::kStored); }},
    {"preference", "simpo", [](GoldenCase& c) { preference(c, Preference::kSimpo); }},
    {"preference", "orpo", [](GoldenCase& c) { preference(c, Preference::kOrpo); }},
};

Backend eager_backend(BackendKind kind) {
  BackendOptions options;
  options.device.execution = Execution::kEager;
  options.threads = 2;
  return make_backend(kind, options);
}

void check_operators(BackendKind kind, const std::vector<DType>& dtypes) {
  Backend backend = eager_backend(kind);
  OpRunner runner(backend);
  for (const GoldenOperator& golden : kOperators) {
    if (golden.cpu_only && kind != BackendKind::kCpu) continue;
    for (const DType dtype : dtypes) {
      INFO(golden.file);
      GoldenCase golden_case(runner, dtype, golden.file, golden.name);
      golden.check(golden_case);
    }
  }
}

/// Random bit patterns, ties, subnormals, overflow and infinity, compared bit by bit.
void check_casts(BackendKind kind) {
  Backend backend = eager_backend(kind);
  OpRunner runner(backend);
  const GoldenFile file(golden_data() / "ops_cast.safetensors");
  const auto check = [&](const std::string& from, DType x, const std::string& to, DType y) {
    INFO(from << " to " << to);
    const Shape shape = file.shape(from);
    const TensorView out = runner.output(y, shape);
    runner.run(Cast{.x = runner.upload(file.values(from), x, shape), .y = out});
    const std::vector<double> got = runner.download(out);
    const std::vector<double> expected = file.values(to);
    for (std::size_t i = 0; i < got.size(); ++i) {
      INFO("element " << i << ": " << got[i] << ", expected " << expected[i]);
      CHECK(std::bit_cast<std::uint64_t>(got[i]) == std::bit_cast<std::uint64_t>(expected[i]));
    }
  };
  check("single/x", DType::kF32, "single/bf16", DType::kBF16);
  if (kind == BackendKind::kCpu) check("double/x", DType::kF64, "double/f32", DType::kF32);
}

TEST_CASE("every operator of the cpu backend agrees with PyTorch in f64, f32 and bf16") {
  check_operators(BackendKind::kCpu, {DType::kF64, DType::kF32, DType::kBF16});
}

TEST_CASE("casts of the cpu backend round as PyTorch's do") { check_casts(BackendKind::kCpu); }

TEST_CASE("every operator of the cuda backend agrees with PyTorch in f32 and bf16", "[cuda]") {
  if (without_gpu()) return;
  check_operators(BackendKind::kCuda, {DType::kF32, DType::kBF16});
  check_casts(BackendKind::kCuda);
}

}  // namespace
}  // namespace strata::test
