// Tests backward operators of the cpu backend against central finite differences of the forward
// operators, in f64.

#include <cmath>
#include <functional>
#include <numeric>

#include "strata/op_checks/checks.h"
#include "strata/op_checks/reference.h"
#include "support/catch.h"

namespace strata::test {
namespace {

using Values = std::vector<double>;
constexpr DType kF64 = DType::kF64;

/// Runs operators on the cpu backend in f64.
struct Bench {
  Backend backend;
  OpRunner runner;

  Bench() : backend(make_backend(BackendKind::kCpu, options())), runner(backend) {}
  static BackendOptions options() {
    BackendOptions o;
    o.device.execution = Execution::kEager;
    o.threads = 1;
    return o;
  }
  TensorView in(const Values& values, const Shape& shape) {
    return runner.upload(values, kF64, shape);
  }
};

double dot(const Values& a, const Values& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// Requires that `gradient` is the derivative of `loss` at `x`. With step h = cbrt(eps) the
/// truncation and the rounding error of a central difference are both about h^2, relative to the
/// size of the loss and its derivatives, which are of order 1 to 100 here.
void require_derivative(const char* name, Values x, const Values& gradient,
                        const std::function<double(const Values&)>& loss) {
  const double h = std::cbrt(0x1p-52);
  const double allowed = 1e4 * h * h;  // 4e-7
  REQUIRE(gradient.size() == x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = x[i];
    x[i] = value + h;
    const double above = loss(x);
    x[i] = value - h;
    const double below = loss(x);
    x[i] = value;
    const double derivative = (above - below) / (2 * h);
    INFO(name << "[" << i << "]: backward says " << gradient[i] << ", differences say "
              << derivative);
    REQUIRE(std::abs(derivative - gradient[i]) <= allowed * std::max(1.0, std::abs(derivative)));
  }
}

TEST_CASE("rmsnorm backward is the derivative of forward", "[ops]") {
  const double offset = GENERATE(0.0, 1.0);
  Bench b;
  const Shape shape{3, 5};
  const Values x = random_values(1, 15, kF64);
  const Values weight = random_values(2, 5, kF64);
  const Values dy = random_values(3, 15, kF64);
  const Values through = random_values(4, 15, kF64);
  const auto forward = [&](const Values& x_in, const Values& weight_in) {
    b.runner.reset();
    RmsNormForward op;
    op.x = b.in(x_in, shape);
    op.weight = b.in(weight_in, {5});
    op.y = b.runner.output(kF64, shape);
    op.rstd = b.runner.output(kF64, {3});
    op.offset = offset;
    b.runner.run(op);
    return std::pair{b.runner.download(op.y), b.runner.download(op.rstd)};
  };
  const Values rstd = forward(x, weight).second;
  RmsNormBackward op;
  op.dy = b.in(dy, shape);
  op.x = b.in(x, shape);
  op.weight = b.in(weight, {5});
  op.rstd = b.in(rstd, {3});
  op.d_residual = b.in(through, shape);
  op.dx = b.runner.output(kF64, shape);
  op.d_weight = b.in(Values(5), {5});
  op.workspace = b.runner.output(kF64, {RmsNormBackward::kWorkspaceRows, 5});
  op.offset = offset;
  b.runner.run(op);
  const Values dx = b.runner.download(op.dx);
  const Values d_weight = b.runner.download(op.d_weight);
  require_derivative("dx", x, dx, [&](const Values& v) {
    return dot(forward(v, weight).first, dy) + dot(v, through);
  });
  require_derivative("d_weight", weight, d_weight,
                     [&](const Values& v) { return dot(forward(x, v).first, dy); });
}

TEST_CASE("the backward of a smooth cap is the derivative of forward", "[ops]") {
  Bench b;
  const Shape shape{3, 5};
  const double cap = 0.8;
  const Values x = random_values(1, 15, kF64);
  const Values dy = random_values(2, 15, kF64);
  const auto capped = [&](const Values& v) {
    b.runner.reset();
    const TensorView y = b.runner.output(kF64, shape);
    b.runner.run(SoftCapForward{.x = b.in(v, shape), .y = y, .cap = cap});
    return b.runner.download(y);
  };
  const Values y = capped(x);
  const TensorView dx = b.runner.output(kF64, shape);
  b.runner.run(SoftCapBackward{.dy = b.in(dy, shape), .y = b.in(y, shape), .dx = dx, .cap = cap});
  require_derivative("dx", x, b.runner.download(dx),
                     [&](const Values& v) { return dot(capped(v), dy); });
}

TEST_CASE("dropout of the gradient is the derivative of dropout", "[ops]") {
  Bench b;
  const Shape shape{3, 5};
  const DropoutMask mask{.rate = 0.4, .seed = 3, .stream = 4, .first = 7};
  const Values x = random_values(1, 15, kF64);
  const Values dy = random_values(2, 15, kF64);
  const Values through = random_values(3, 15, kF64);
  const auto dropped = [&](const Values& v) {
    b.runner.reset();
    const TensorView y = b.runner.output(kF64, shape);
    b.runner.run(Dropout{.x = b.in(v, shape), .y = y, .mask = mask});
    return b.runner.download(y);
  };
  const Values y = dropped(x);
  const TensorView dx = b.runner.output(kF64, shape);
  b.runner.run(Dropout{.x = b.in(dy, shape), .added = b.in(through, shape), .y = dx, .mask = mask});
  require_derivative("dx", x, b.runner.download(dx),
                     [&](const Values& v) { return dot(dropped(v), dy) + dot(v, through); });
}

TEST_CASE("the gradient of a bias is the derivative of the sum", "[ops]") {
  Bench b;
  const Shape shape{3, 5};
  const Values x = random_values(1, 15, kF64);
  const Values bias = random_values(2, 5, kF64);
  const Values dy = random_values(3, 15, kF64);
  const TensorView d_bias = b.in(Values(5), {5});
  b.runner.run(BiasBackward{.dy = b.in(dy, shape),
                            .d_bias = d_bias,
                            .workspace = b.runner.output(kF64, {BiasBackward::kWorkspaceRows, 5})});
  require_derivative("d_bias", bias, b.runner.download(d_bias), [&](const Values& v) {
    b.runner.reset();
    const TensorView y = b.runner.output(kF64, shape);
    b.runner.run(BiasAdd{.x = b.in(x, shape), .bias = b.in(v, {5}), .y = y});
    return dot(b.runner.download(y), dy);
  });
}

TEST_CASE("the backward of norms of heads is the derivative of forward, turned too", "[ops]") {
  const double offset = GENERATE(0.0, 1.0);
  const bool turns = GENERATE(false, true);
  Bench b;
  const Shape shape{2, 3, 4};
  const Values x = random_values(1, 24, kF64);
  const Values weight = random_values(2, 4, kF64);
  const Values dy = random_values(3, 24, kF64);
  const auto turn_of = [&](const TensorView& heads) {
    return Rope{.x = heads,
                .positions = b.runner.upload({2, 1}, DType::kI32, {2}),
                .cos = b.in({1, 1, 0.6, 0.8, -0.28, 0.96}, {3, 2}),
                .sin = b.in({0, 0, 0.8, -0.6, 0.96, 0.28}, {3, 2})};
  };
  const auto forward = [&](const Values& x_in, const Values& weight_in) {
    b.runner.reset();
    HeadNormForward op;
    op.x = b.in(x_in, shape);
    op.weight = b.in(weight_in, {4});
    op.y = b.runner.output(kF64, shape);
    op.rstd = b.runner.output(kF64, {2, 3});
    op.offset = offset;
    if (turns) op.rotation = turn_of(op.y).angles();
    b.runner.run(op);
    return std::pair{b.runner.download(op.y), b.runner.download(op.rstd)};
  };
  const Values rstd = forward(x, weight).second;
  HeadNormBackward op;
  const TensorView d_normed = b.in(dy, shape);
  if (turns) {  // as attention's backward does
    Rope back = turn_of(d_normed);
    back.direction = RopeDirection::kBackward;
    b.runner.run(back);
  }
  op.dy = d_normed;
  op.x = b.in(x, shape);
  op.weight = b.in(weight, {4});
  op.rstd = b.in(rstd, {2, 3});
  op.dx = b.runner.output(kF64, shape);
  op.d_weight = b.in(Values(4), {4});
  op.workspace = b.runner.output(kF64, {HeadNormBackward::kWorkspaceRows, 4});
  op.offset = offset;
  b.runner.run(op);
  const Values dx = b.runner.download(op.dx);
  const Values d_weight = b.runner.download(op.d_weight);
  require_derivative("dx", x, dx,
                     [&](const Values& v) { return dot(forward(v, weight).first, dy); });
  require_derivative("d_weight", weight, d_weight,
                     [&](const Values& v) { return dot(forward(x, v).first, dy); });
}

TEST_CASE("swiglu backward is the derivative of forward", "[ops]") {
  const Activation activation =
      GENERATE(Activation::kSilu, Activation::kGeluTanh, Activation::kGelu);
  Bench b;
  const Values gate_up = random_values(1, 24, kF64);
  const Values d_y = random_values(2, 12, kF64);
  const auto loss = [&](const Values& v) {
    b.runner.reset();
    const TensorView y = b.runner.output(kF64, {3, 4});
    b.runner.run(SwigluForward{.gate_up = b.in(v, {3, 8}), .y = y, .activation = activation});
    return dot(b.runner.download(y), d_y);
  };
  const TensorView d_gate_up = b.runner.output(kF64, {3, 8});
  b.runner.run(SwigluBackward{.d_y = b.in(d_y, {3, 4}),
                              .gate_up = b.in(gate_up, {3, 8}),
                              .d_gate_up = d_gate_up,
                              .y = b.runner.output(kF64, {3, 4}),
                              .activation = activation});
  require_derivative("d_gate_up", gate_up, b.runner.download(d_gate_up), loss);
}

TEST_CASE("the gradient of cross entropy is the derivative of its loss", "[ops]") {
  Bench b;
  const Shape shape{3, 7};
  const Values logits = random_values(1, 21, kF64);
  const Values targets{6, CrossEntropy::kIgnoreIndex, 0};
  const double grad_scale = 0.7;
  const auto run = [&](const Values& v) {
    b.runner.reset();
    CrossEntropy op;
    op.logits = b.in(v, shape);
    op.targets = b.runner.upload(targets, DType::kI32, {3});
    op.grad_scale = b.in({grad_scale}, {1});
    op.loss = b.runner.output(kF64, {3});
    op.lse = b.runner.output(kF64, {3});
    op.d_logits = b.runner.output(kF64, shape);
    b.runner.run(op);
    return std::pair{b.runner.download(op.loss), b.runner.download(op.d_logits)};
  };
  require_derivative("d_logits", logits, run(logits).second, [&](const Values& v) {
    const Values loss = run(v).first;
    return grad_scale * std::accumulate(loss.begin(), loss.end(), 0.0);
  });
}

TEST_CASE("rope backward is the derivative of forward", "[ops]") {
  Bench b;
  RopePairs pairs = RopePairs::kHalves;
  Shape shape{3, 2, 4};
  Values cosine(10);
  Values sine(10);
  for (std::size_t i = 0; i < 10; ++i) {
    cosine[i] = std::cos(static_cast<double>(i));
    sine[i] = std::sin(static_cast<double>(i));
  }
  const auto turn = [&](const Values& v, RopeDirection direction) {
    b.runner.reset();
    Rope op;
    op.x = b.in(v, shape);
    op.positions = b.runner.upload({4, 0, 2}, DType::kI32, {3});
    op.cos = b.in(cosine, {5, 2});
    op.sin = b.in(sine, {5, 2});
    op.direction = direction;
    op.pairs = pairs;
    b.runner.run(op);
    return b.runner.download(op.x);
  };
  for (const std::int64_t head_dim : {4, 6}) {  // of which 4 elements are rotated
    for (const RopePairs each : {RopePairs::kHalves, RopePairs::kNeighbours}) {
      pairs = each;
      shape = {3, 2, head_dim};
      const Values x = random_values(1, shape.elements(), kF64);
      const Values dy = random_values(2, shape.elements(), kF64);
      require_derivative("dx", x, turn(dy, RopeDirection::kBackward), [&](const Values& v) {
        return dot(turn(v, RopeDirection::kForward), dy);
      });
    }
  }
}

TEST_CASE("attention backward is the derivative of forward, with windows and caps", "[ops]") {
  const auto [of_window, of_cap] = GENERATE(
      table<std::int64_t, double>({{0, 0.0}, {1, 0.0}, {3, 0.0}, {20, 0.0}, {0, 0.8}, {3, 0.8}}));
  const std::int64_t window = of_window;  // clang 14 captures no bindings
  const double score_cap = of_cap;
  CAPTURE(window, score_cap);
  Bench b;
  const Shape q_shape{9, 4, 3};
  const Shape k_shape{8, 2, 3};
  const Values q = random_values(1, q_shape.elements(), kF64);
  const Values k = random_values(2, k_shape.elements(), kF64);
  const Values v = random_values(3, k_shape.elements(), kF64);
  const Values d_o = random_values(4, q_shape.elements(), kF64);
  // A document, and a range of a row behind two tokens of its past.
  const Values table{0, 0, 4, 4, 0, 4, 3, 5, 5, 2};
  const double scale = 0.6;
  const auto segments = [&] {
    AttentionSegments s;
    s.table = b.runner.upload(table, DType::kI32, {2, 5});
    return s;
  };
  const auto forward = [&](const Values& q_in, const Values& k_in, const Values& v_in) {
    b.runner.reset();
    const AttentionForward op{.q = b.in(q_in, q_shape),
                              .k = b.in(k_in, k_shape),
                              .v = b.in(v_in, k_shape),
                              .segments = segments(),
                              .o = b.runner.output(kF64, q_shape),
                              .lse = b.runner.output(kF64, {4, 9}),
                              .scale = scale,
                              .window = window,
                              .score_cap = score_cap};
    b.runner.run(op);
    return std::pair{b.runner.download(op.o), b.runner.download(op.lse)};
  };
  const auto [o, lse] = forward(q, k, v);
  const AttentionBackward op{.d_o = b.in(d_o, q_shape),
                             .q = b.in(q, q_shape),
                             .k = b.in(k, k_shape),
                             .v = b.in(v, k_shape),
                             .o = b.in(o, q_shape),
                             .lse = b.in(lse, {4, 9}),
                             .segments = segments(),
                             .dq = b.runner.output(kF64, q_shape),
                             .dk = b.runner.output(kF64, k_shape),
                             .dv = b.runner.output(kF64, k_shape),
                             .delta = b.runner.output(kF64, {4, 9}),
                             .scale = scale,
                             .window = window,
                             .score_cap = score_cap};
  b.runner.run(op);
  const Values dq = b.runner.download(op.dq);
  const Values dk = b.runner.download(op.dk);
  const Values dv = b.runner.download(op.dv);
  require_derivative("dq", q, dq,
                     [&](const Values& x) { return dot(forward(x, k, v).first, d_o); });
  require_derivative("dk", k, dk,
                     [&](const Values& x) { return dot(forward(q, x, v).first, d_o); });
  require_derivative("dv", v, dv,
                     [&](const Values& x) { return dot(forward(q, k, x).first, d_o); });
}

TEST_CASE("attention backward with a rotation is the derivative of rope and attention", "[ops]") {
  Bench b;
  const Shape q_shape{9, 4, 6};
  const Shape k_shape{9, 2, 6};
  const Values q = random_values(1, q_shape.elements(), kF64);
  const Values k = random_values(2, k_shape.elements(), kF64);
  const Values v = random_values(3, k_shape.elements(), kF64);
  const Values d_o = random_values(4, q_shape.elements(), kF64);
  Values cosine;
  Values sine;
  for (const double angle : random_values(5, 7 * 3, kF64)) {
    cosine.push_back(std::cos(angle));
    sine.push_back(std::sin(angle));
  }
  const auto angles = [&] {
    return RopeAngles{.positions = b.runner.upload({4, 0, 2, 6, 1, 3, 3, 5, 0}, DType::kI32, {9}),
                      .cos = b.in(cosine, {7, 3}),
                      .sin = b.in(sine, {7, 3})};
  };
  const auto turned = [&](const Values& x, const Shape& shape) {
    b.runner.reset();
    const RopeAngles by = angles();
    const Rope op{.x = b.in(x, shape), .positions = by.positions, .cos = by.cos, .sin = by.sin};
    b.runner.run(op);
    return b.runner.download(op.x);
  };
  const auto segments = [&] {
    AttentionSegments s;
    s.table = b.runner.upload({0, 0, 5, 5, 0, 5, 5, 4, 4, 0}, DType::kI32, {2, 5});
    return s;
  };
  const auto forward = [&](const Values& q_in, const Values& k_in) {
    const Values q_turned = turned(q_in, q_shape);
    const Values k_turned = turned(k_in, k_shape);
    b.runner.reset();
    const AttentionForward op{.q = b.in(q_turned, q_shape),
                              .k = b.in(k_turned, k_shape),
                              .v = b.in(v, k_shape),
                              .segments = segments(),
                              .o = b.runner.output(kF64, q_shape),
                              .lse = b.runner.output(kF64, {4, 9}),
                              .scale = 0.6};
    b.runner.run(op);
    return std::pair{b.runner.download(op.o), b.runner.download(op.lse)};
  };
  const auto [o, lse] = forward(q, k);
  const Values q_turned = turned(q, q_shape);
  const Values k_turned = turned(k, k_shape);
  b.runner.reset();
  const AttentionBackward op{.d_o = b.in(d_o, q_shape),
                             .q = b.in(q_turned, q_shape),
                             .k = b.in(k_turned, k_shape),
                             .v = b.in(v, k_shape),
                             .o = b.in(o, q_shape),
                             .lse = b.in(lse, {4, 9}),
                             .segments = segments(),
                             .dq = b.runner.output(kF64, q_shape),
                             .dk = b.runner.output(kF64, k_shape),
                             .dv = b.runner.output(kF64, k_shape),
                             .delta = b.runner.output(kF64, {4, 9}),
                             .rotation = angles(),
                             .scale = 0.6};
  b.runner.run(op);
  const Values dq = b.runner.download(op.dq);
  const Values dk = b.runner.download(op.dk);
  require_derivative("dq", q, dq, [&](const Values& x) { return dot(forward(x, k).first, d_o); });
  require_derivative("dk", k, dk, [&](const Values& x) { return dot(forward(q, x).first, d_o); });
}

}  // namespace
}  // namespace strata::test
