// Every operator against PyTorch, on each backend.
//
// The golden files hold f64 results of inputs that bf16 holds exactly. f64 must agree to 1e-9. In
// f32 and bf16 an output may be twice as wrong as PyTorch's own in that dtype, and wrong by one
// rounding of the accumulator, since sums may run in another order; all by relative 2-norm.

#include <cmath>
#include <functional>

#include "golden/golden_file.h"
#include "support/catch.h"
#include "support/op_runner.h"

namespace strata::test {
namespace {

constexpr double kF64Tolerance = 1e-9;

/// One case of a golden file on one backend in compute dtype X: uploads what the operator reads and
/// compares what it writes, by the names in the file.
class Case {
 public:
  Case(OpRunner& runner, DType x, const std::string& file, std::string name)
      : runner_(runner),
        x_(x),
        file_(golden_data() / ("ops_" + file + ".safetensors")),
        name_(std::move(name)) {
    runner_.reset();
  }

  [[nodiscard]] bool has(const std::string& tensor) const { return file_.contains(key(tensor)); }
  [[nodiscard]] double scalar(const std::string& tensor) const { return file_.scalar(key(tensor)); }
  [[nodiscard]] std::vector<double> values(const std::string& tensor) const {
    return file_.values(key(tensor));
  }
  [[nodiscard]] Shape shape(const std::string& tensor) const { return file_.shape(key(tensor)); }
  [[nodiscard]] DType x() const { return x_; }
  [[nodiscard]] DType a() const { return accumulator_of(x_); }
  [[nodiscard]] OpRunner& runner() const { return runner_; }

  [[nodiscard]] TensorView input(const std::string& tensor, DType dtype) const {
    return runner_.upload(values(tensor), dtype, shape(tensor));
  }
  [[nodiscard]] TensorView in_x(const std::string& tensor) const { return input(tensor, x_); }
  [[nodiscard]] TensorView in_a(const std::string& tensor) const { return input(tensor, a()); }
  [[nodiscard]] TensorView in_i32(const std::string& tensor) const {
    return input(tensor, DType::kI32);
  }
  [[nodiscard]] TensorView out(const std::string& tensor, DType dtype) {
    return remember(tensor, runner_.output(dtype, shape(tensor)));
  }
  [[nodiscard]] TensorView out_x(const std::string& tensor) { return out(tensor, x_); }
  [[nodiscard]] TensorView out_a(const std::string& tensor) { return out(tensor, a()); }
  /// An output that is added to: begins as the file's "<tensor>_before".
  [[nodiscard]] TensorView added_a(const std::string& tensor) {
    return remember(tensor, in_a(tensor + "_before"));
  }
  /// An output that begins as another tensor of the file.
  [[nodiscard]] TensorView in_place_x(const std::string& from, const std::string& tensor) {
    return remember(tensor, in_x(from));
  }

  /// Requires that every output is as PyTorch says, and that nothing else was written.
  void check_outputs() {
    for (const auto& [tensor, view] : outputs_) {
      check(tensor, runner_.download(view));
    }
    REQUIRE(runner_.guards_intact());
    outputs_.clear();
  }
  void check(const std::string& tensor, const std::vector<double>& got) const {
    INFO(name_ << "/" << tensor << " in " << name_of(x_));
    CHECK(distance(got, values(tensor)) <= tolerance(tensor));
  }

 private:
  [[nodiscard]] std::string key(const std::string& tensor) const { return name_ + "/" + tensor; }
  TensorView remember(const std::string& tensor, TensorView view) {
    outputs_.emplace_back(tensor, view);
    return view;
  }
  [[nodiscard]] double tolerance(const std::string& tensor) const {
    if (x_ == DType::kF64) return kF64Tolerance;
    const std::string error = x_ == DType::kF32 ? ".f32_error" : ".bf16_error";
    return 2 * scalar(tensor + error) + 0x1p-24;
  }

  OpRunner& runner_;
  DType x_;
  GoldenFile file_;
  std::string name_;
  std::vector<std::pair<std::string, TensorView>> outputs_;
};

void embedding(Case c) {
  c.runner().run(EmbeddingForward{
      .ids = c.in_i32("ids"), .table = c.in_x("table"), .y = c.out_x("y")});
  c.runner().run(EmbeddingBackward{.ids = c.in_i32("ids"),
                                   .order = c.in_i32("order"),
                                   .dy = c.in_x("dy"),
                                   .d_table = c.added_a("d_table")});
  c.check_outputs();
}

void rmsnorm(Case c) {
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

void rope(Case c) {
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

void attention(Case c) {
  const AttentionSegments segments{
      .table = c.in_i32("segments"),
      .uniform_length = static_cast<std::int64_t>(c.scalar("uniform_length"))};
  const double scale = c.scalar("scale");
  c.runner().run(AttentionForward{.q = c.in_x("q"),
                                  .k = c.in_x("k"),
                                  .v = c.in_x("v"),
                                  .segments = segments,
                                  .o = c.out_x("o"),
                                  .lse = c.out_a("lse"),
                                  .scale = scale});
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
                                   .scale = scale});
  c.check_outputs();
}

void swiglu(Case c) {
  c.runner().run(SwigluForward{.gate_up = c.in_x("gate_up"), .y = c.out_x("y")});
  c.runner().run(SwigluBackward{.d_y = c.in_x("d_y"),
                                .gate_up = c.in_x("gate_up"),
                                .d_gate_up = c.out_x("d_gate_up"),
                                .y = c.out_x("y")});
  c.check_outputs();
}

void residual_add(Case c) {
  c.runner().run(ResidualAdd{.a = c.in_x("a"), .b = c.in_x("b"), .y = c.out_x("y")});
  c.check_outputs();
}

void cross_entropy(Case c) {
  c.runner().run(CrossEntropy{.logits = c.in_x("logits"),
                              .targets = c.in_i32("targets"),
                              .grad_scale = c.in_a("grad_scale"),
                              .loss = c.out_a("loss"),
                              .lse = c.out_a("lse"),
                              .d_logits = c.out_x("d_logits")});
  c.check_outputs();
}

void matmul(Case c, MatmulLayout layout) {
  const bool accumulate = c.has("out_before");
  c.runner().run(
      Matmul{.a = c.in_x("a"),
             .b = c.in_x("b"),
             .out = accumulate ? c.added_a("out") : c.out_x("out"),
             .layout = layout,
             .update = accumulate ? MatmulUpdate::kAccumulate : MatmulUpdate::kOverwrite});
  c.check_outputs();
}

void squared_norm(Case c) {
  c.runner().run(SquaredNorm{.x = c.in_x("x"), .partial = c.out("partial", DType::kF64)});
  c.check_outputs();
}

/// Gradients of one step in dtype X.
TensorView step_gradient(const Case& c, std::size_t step) {
  const std::vector<double> all = c.values("grads");
  const Shape shape{c.shape("grads")[1]};
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(step) * shape[0];
  return c.runner().upload({begin, begin + shape[0]}, c.x(), shape);
}

void adamw(Case c) {
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
  std::vector<double> weight = c.runner().download(op.weight);
  if (split) {
    // The low half counts units of 2^-16 of the high half's last place: bits(w) is an integer.
    const std::vector<double> low = c.runner().download(op.low);
    for (std::size_t i = 0; i < weight.size(); ++i) {
      const auto bits = std::bit_cast<std::int32_t>(static_cast<float>(weight[i])) +
                        static_cast<std::int32_t>(low[i]);
      weight[i] = std::bit_cast<float>(bits);
    }
  }
  c.check("weight", weight);
  c.check("m", c.runner().download(op.m));
  c.check("v", c.runner().download(op.v));
  CHECK(c.runner().download(op.nonfinite) == std::vector<double>{0});
}

struct GoldenOperator {
  const char* file;
  const char* name;
  std::function<void(Case)> check;
};
const std::vector<GoldenOperator> kOperators{
    {"embedding", "odd", embedding},
    {"rmsnorm", "plain", rmsnorm},
    {"rmsnorm", "residual", rmsnorm},
    {"rope", "plain", rope},
    {"rope", "llama3", rope},
    {"attention", "gqa_64", attention},
    {"attention", "packed_64", attention},
    {"attention", "mha_odd", attention},
    {"attention", "packed", attention},
    {"swiglu", "odd", swiglu},
    {"residual_add", "odd", residual_add},
    {"cross_entropy", "odd", cross_entropy},
    {"matmul", "nt", [](Case c) { matmul(std::move(c), MatmulLayout::kNT); }},
    {"matmul", "nn", [](Case c) { matmul(std::move(c), MatmulLayout::kNN); }},
    {"matmul", "tn", [](Case c) { matmul(std::move(c), MatmulLayout::kTN); }},
    {"squared_norm", "short_last_block", squared_norm},
    {"adamw", "four_steps", adamw},
};

void check_operator(BackendKind kind, const GoldenOperator& golden, DType x) {
  INFO(golden.file << "/" << golden.name << " in " << name_of(x));
  Backend backend = make_backend(kind, {.device = {.execution = Execution::kEager}, .threads = 2});
  OpRunner runner(backend);
  golden.check(Case(runner, x, golden.file, golden.name));
}

}  // namespace
}  // namespace strata::test
