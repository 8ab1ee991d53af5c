// Tests attention of the cuda backend: every case of strata/op_checks/checks.h, lengths around the
// tile sizes, and the head shapes of LLaMA with documents. Its error is held against that of a
// faultless bf16 implementation, and its bits against themselves.

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/thread_pool.h"
#include "strata/op_checks/checks.h"
#include "strata/op_checks/reference.h"
#include "support/catch.h"

namespace strata::test {
namespace {

constexpr std::array kAttentionTypes{DType::kF32, DType::kBF16};

Backend cuda_backend(AttentionKernels kernels) {
  return make_backend(BackendKind::kCuda, {.device = {}, .threads = 1, .attention = kernels});
}

/// Kernels to check, by name.
struct Contestant {
  /// Every operator runs `runs` times, and must leave the same bytes each time.
  explicit Contestant(AttentionKernels kernels, int runs = 1)
      : name(kernels == AttentionKernels::kAuto       ? "kernels for this device"
             : kernels == AttentionKernels::kPortable ? "portable kernels"
                                                      : "cuDNN"),
        backend(cuda_backend(kernels)),
        runner(backend, runs) {}
  std::string name;
  Backend backend;
  OpRunner runner;
};
using Contestants = std::deque<Contestant>;

/// Runs the checks with the kernels for this device and with the portable ones.
void with_attention_kernels(const std::function<void(OpRunner&)>& checks, int runs = 1) {
  if (!cuda_available()) {
    WARN("skipped: this program has no CUDA backend, or there is no device");
    return;
  }
  for (const AttentionKernels kernels : {AttentionKernels::kAuto, AttentionKernels::kPortable}) {
    Contestant contestant(kernels, runs);
    INFO(contestant.name);
    checks(contestant.runner);
  }
}

/// The same for checks that compare both with one reference.
void with_both(const std::function<void(Contestants&)>& checks) {
  if (!cuda_available()) {
    WARN("skipped: this program has no CUDA backend, or there is no device");
    return;
  }
  Contestants contestants;
  contestants.emplace_back(AttentionKernels::kAuto);
  contestants.emplace_back(AttentionKernels::kPortable);
  checks(contestants);
}

void on_cudnn(const std::function<void(Contestants&)>& checks, int runs = 1) {
  if (!cuda_available() || !cudnn_available()) {
    WARN("skipped: this program was built without cuDNN, or there is no device");
    return;
  }
  Contestants contestants;
  try {
    contestants.emplace_back(AttentionKernels::kCudnn, runs);
  } catch (const ConfigError& refused) {  // the library of this machine is too old
    if (std::string(refused.what()).find("needs cuDNN") == std::string::npos) throw;
    WARN("skipped: " << refused.what());
    return;
  }
  checks(contestants);
}

bool on_tensor_cores(DType dtype, std::int64_t head_dim) {
  return dtype == DType::kBF16 && (head_dim == 64 || head_dim == 128 || head_dim == 256);
}

void check_both(OpRunner& runner, DType dtype, const AttentionCase& c) {
  INFO(name_of(dtype) << ", " << c.heads << " heads, " << c.kv_heads << " kv heads");
  const DType intermediate = on_tensor_cores(dtype, c.head_dim) ? DType::kBF16 : DType::kF32;
  const AttentionRounding rounding{.intermediate = intermediate, .unturned = dtype};
  (void)check_attention_forward(runner, dtype, c, intermediate);
  (void)check_attention_backward(runner, dtype, c, rounding);
  (void)check_attention_backward(runner, dtype, c, rounding, true);
}

/// Causal attention of equal rows or of documents; values as bf16 holds them.
struct Problem {
  std::vector<std::int64_t> lengths;  ///< of rows, or of documents
  bool documents;                     ///< given by a table
  bool turned = false;                ///< the backward has a rotation
  bool room = false;  ///< the table has an entry for each token, most of them unused
  std::int64_t window = 0;
  double score_cap = 0;
  std::int64_t tokens, heads, kv_heads, head_dim;
  std::vector<double> q, k, v, d_o;
  double scale;

  struct Heads {
    std::int64_t heads, kv_heads, head_dim;
  };
  static Problem of_rows(std::int64_t rows, std::int64_t length, const Heads& of) {
    return {std::vector<std::int64_t>(static_cast<std::size_t>(rows), length), false, of};
  }
  static Problem of_documents(const std::vector<std::int64_t>& lengths, const Heads& of) {
    return {lengths, true, of};
  }
  [[nodiscard]] Problem with_rotation() const {
    Problem p = *this;
    p.turned = true;
    return p;
  }
  [[nodiscard]] Problem with_scores(std::int64_t of_window, double cap) const {
    Problem p = *this;
    p.window = of_window;
    p.score_cap = cap;
    return p;
  }
  [[nodiscard]] Problem with_room() const {
    Problem p = *this;
    p.room = true;
    return p;
  }

  [[nodiscard]] Shape query_shape() const { return {tokens, heads, head_dim}; }
  [[nodiscard]] Shape key_shape() const { return {tokens, kv_heads, head_dim}; }
  [[nodiscard]] std::size_t at_query(std::int64_t token, std::int64_t head) const {
    return static_cast<std::size_t>((token * heads + head) * head_dim);
  }
  [[nodiscard]] std::size_t at_key(std::int64_t token, std::int64_t head) const {
    return static_cast<std::size_t>((token * kv_heads + head / (heads / kv_heads)) * head_dim);
  }
  /// First token of each token's row or document.
  [[nodiscard]] std::vector<std::int64_t> beginnings() const {
    std::vector<std::int64_t> result;
    for (const std::int64_t length : lengths) {
      result.insert(result.end(), static_cast<std::size_t>(length),
                    static_cast<std::int64_t>(result.size()));
    }
    return result;
  }
  [[nodiscard]] AttentionSegments segments(OpRunner& runner) const {
    AttentionSegments result;
    if (!documents) {
      result.uniform_length = lengths.front();
      return result;
    }
    std::vector<double> table;
    double begin = 0;
    for (const std::int64_t n : lengths) {
      const auto length = static_cast<double>(n);
      table.insert(table.end(), {begin, begin, length, length, 0});
      begin += length;
    }
    if (room) table.resize(static_cast<std::size_t>(tokens * 5), 0);
    result.table = runner.upload(table, DType::kI32, {std::ssize(table) / 5, 5});
    result.self_attention = true;
    return result;
  }
  /// Of the rotation: of each token its place in its row, and of each place and pair the angle.
  [[nodiscard]] std::vector<double> positions() const {
    std::vector<double> result;
    for (const std::int64_t begin : beginnings()) {
      result.push_back(static_cast<double>(std::ssize(result) - begin));
    }
    return result;
  }
  [[nodiscard]] std::vector<double> of_angles(double (*f)(double)) const {
    std::vector<double> result(static_cast<std::size_t>(tokens * head_dim / 2));
    for (std::size_t i = 0; i < result.size(); ++i) {
      const auto half = static_cast<std::size_t>(head_dim / 2);
      const double frequency =
          std::pow(1e4, -static_cast<double>(i % half) / static_cast<double>(half));
      const std::size_t position = i / half;
      result[i] = rounded_to(DType::kF32, f(static_cast<double>(position) * frequency));
    }
    return result;
  }

 private:
  Problem(const std::vector<std::int64_t>& lengths_in, bool documents_in, const Heads& of)
      : lengths(lengths_in),
        documents(documents_in),
        tokens(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0})),
        heads(of.heads),
        kv_heads(of.kv_heads),
        head_dim(of.head_dim),
        q(random_values(11, tokens * heads * head_dim, DType::kBF16)),
        k(random_values(12, tokens * kv_heads * head_dim, DType::kBF16)),
        v(random_values(13, tokens * kv_heads * head_dim, DType::kBF16)),
        d_o(random_values(14, tokens * heads * head_dim, DType::kBF16)),
        scale(1 / std::sqrt(static_cast<double>(head_dim))) {
    for (double& x : q) x *= 2;  // scores spread enough for peaked rows
  }
};

struct Results {
  std::vector<double> o, lse, dq, dk, dv;
};

double unrolled_dot(const double* a, const double* b, std::int64_t n) {
  std::array<double, 8> sums{};  // independent, so that they are added at full speed
  for (std::int64_t i = 0; i < n; ++i) sums[static_cast<std::size_t>(i % 8)] += a[i] * b[i];
  double sum = 0;
  for (const double s : sums) sum += s;
  return sum;
}

void add_scaled(double* to, double factor, const double* from, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

double exact(double x) { return x; }
double through_bf16(double x) { return rounded_to(DType::kBF16, x); }

/// One head's queries `first`, `first` + `step`, ...: their part of the results, and of dk and dv
/// what they add.
class HeadPass {
 public:
  HeadPass(const Problem& problem, const std::vector<std::int64_t>& begins, double (*round)(double),
           Results& results)
      : p_(problem), begins_(begins), round_(round), r_(results) {}

  std::vector<double> dk, dv;  ///< [tokens, D] of this head

  void run(std::int64_t head, std::int64_t first, std::int64_t step) {
    dk.assign(static_cast<std::size_t>(p_.tokens * p_.head_dim), 0);
    dv = dk;
    for (std::int64_t token = first; token < p_.tokens; token += step) query(token, head);
  }

 private:
  void query(std::int64_t token, std::int64_t head) {
    const std::int64_t d = p_.head_dim;
    const std::int64_t begin = std::max(begins_[static_cast<std::size_t>(token)],
                                        p_.window > 0 ? token - p_.window + 1 : 0);
    const std::size_t at = p_.at_query(token, head);
    std::vector<double> scores;
    std::vector<double> slopes;  // of capped scores
    for (std::int64_t key = begin; key <= token; ++key) {
      const double score = p_.scale * unrolled_dot(&p_.q[at], &p_.k[p_.at_key(key, head)], d);
      const double bent = p_.score_cap > 0 ? std::tanh(score / p_.score_cap) : 0;
      scores.push_back(p_.score_cap > 0 ? p_.score_cap * bent : score);
      slopes.push_back(1 - bent * bent);
    }
    const double top = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    std::vector<double> o(static_cast<std::size_t>(d));
    for (std::int64_t key = begin; key <= token; ++key) {
      const double weight = std::exp(scores[static_cast<std::size_t>(key - begin)] - top);
      sum += weight;
      add_scaled(&r_.o[at], round_(weight), &p_.v[p_.at_key(key, head)], d);
      add_scaled(o.data(), weight, &p_.v[p_.at_key(key, head)], d);
    }
    const double lse = top + std::log(sum);
    r_.lse[static_cast<std::size_t>(head * p_.tokens + token)] = lse;
    for (std::size_t i = 0; i < o.size(); ++i) {
      r_.o[at + i] = round_(r_.o[at + i] / sum);
      o[i] = through_bf16(o[i] / sum);
    }
    const double delta = unrolled_dot(&p_.d_o[at], o.data(), d);
    for (std::int64_t key = begin; key <= token; ++key) {
      const std::size_t k = p_.at_key(key, head);
      const auto of_key = static_cast<std::size_t>(key * d);
      const double weight = std::exp(scores[static_cast<std::size_t>(key - begin)] - lse);
      const double d_score = round_(weight * (unrolled_dot(&p_.d_o[at], &p_.v[k], d) - delta) *
                                    slopes[static_cast<std::size_t>(key - begin)]);
      add_scaled(&dv[of_key], round_(weight), &p_.d_o[at], d);
      add_scaled(&dk[of_key], p_.scale * d_score, &p_.q[at], d);
      add_scaled(&r_.dq[at], p_.scale * d_score, &p_.k[k], d);
    }
  }

  const Problem& p_;
  const std::vector<std::int64_t>& begins_;
  double (*round_)(double);
  Results& r_;
};

/// Rows of `heads` heads by the inverse of the rotation.
void turn_back(const Problem& p, std::int64_t heads, std::vector<double>& x) {
  const std::vector<double> positions = p.positions();
  const std::vector<double> cosines = p.of_angles(std::cos);
  const std::vector<double> sines = p.of_angles(std::sin);
  const auto half = static_cast<std::size_t>(p.head_dim / 2);
  for (std::size_t low = 0; low < x.size(); low += low % half == half - 1 ? half + 1 : 1) {
    const std::size_t token = low / (2 * half * static_cast<std::size_t>(heads));
    const std::size_t angle = static_cast<std::size_t>(positions[token]) * half + low % half;
    const double a = x[low];
    const double b = x[low + half];
    x[low] = a * cosines[angle] + b * sines[angle];
    x[low + half] = b * cosines[angle] - a * sines[angle];
  }
}

/// By the definition, in f64. `round` is applied where a bf16 implementation must round: to
/// probabilities, score gradients and results. Gradients are those of bf16 o, as the operator's.
Results naive(const Problem& p, double (*round)(double)) {
  Results r{std::vector<double>(p.q.size()),
            std::vector<double>(static_cast<std::size_t>(p.heads * p.tokens)),
            std::vector<double>(p.q.size()), std::vector<double>(p.k.size()),
            std::vector<double>(p.k.size())};
  const std::vector<std::int64_t> beginnings = p.beginnings();
  constexpr std::int64_t kPasses = 32;  // enough for the cores of a machine with a GPU
  const std::int64_t parts = std::max<std::int64_t>(1, kPasses / p.heads);
  std::deque<HeadPass> passes;
  for (std::int64_t i = 0; i < p.heads * parts; ++i) passes.emplace_back(p, beginnings, round, r);
  ThreadPool pool(0);
  pool.parallel_for(std::ssize(passes), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      passes[static_cast<std::size_t>(i)].run(i / parts, i % parts, parts);
    }
  });
  for (std::int64_t i = 0; i < std::ssize(passes); ++i) {
    const HeadPass& pass = passes[static_cast<std::size_t>(i)];
    for (std::int64_t token = 0; token < p.tokens; ++token) {
      const std::size_t to = p.at_key(token, i / parts);
      const auto from = static_cast<std::size_t>(token * p.head_dim);
      add_scaled(&r.dk[to], 1, &pass.dk[from], p.head_dim);
      add_scaled(&r.dv[to], 1, &pass.dv[from], p.head_dim);
    }
  }
  if (p.turned) {
    turn_back(p, p.heads, r.dq);
    turn_back(p, p.kv_heads, r.dk);
  }
  for (auto* tensor : {&r.dq, &r.dk, &r.dv}) {
    for (double& x : *tensor) x = round(x);
  }
  return r;
}

/// The operators on q, k, v and their gradients as columns of one tensor each. The backward gets
/// `o` and `lse`, and with `adds_dq` a dq_sum.
Results run(OpRunner& runner, const Problem& p, const Results& given, bool adds_dq = false) {
  runner.reset();
  const std::int64_t width = (p.heads + 2 * p.kv_heads) * p.head_dim;
  const std::int64_t stride = width + 8;
  std::vector<double> packed;
  for (std::int64_t token = 0; token < p.tokens; ++token) {
    for (const auto* x : {&p.q, &p.k, &p.v}) {
      const auto row = static_cast<std::int64_t>(x->size()) / p.tokens;
      packed.insert(packed.end(), x->begin() + token * row, x->begin() + (token + 1) * row);
    }
  }
  const auto columns = [&](const TensorView& all, std::int64_t begin, const Shape& shape) {
    void* data = static_cast<std::byte*>(all.data) + begin * 2;
    return TensorView(data, DType::kBF16, shape, stride);
  };
  const std::int64_t at_k = p.heads * p.head_dim;
  const std::int64_t at_v = at_k + p.kv_heads * p.head_dim;
  const TensorView in = runner.upload(packed, DType::kBF16, {p.tokens, width}, stride);
  const TensorView out = runner.output(DType::kBF16, {p.tokens, width}, stride);
  AttentionForward forward;
  forward.q = columns(in, 0, p.query_shape());
  forward.k = columns(in, at_k, p.key_shape());
  forward.v = columns(in, at_v, p.key_shape());
  forward.segments = p.segments(runner);
  forward.o = runner.output(DType::kBF16, p.query_shape());
  forward.lse = runner.output(DType::kF32, {p.heads, p.tokens});
  forward.scale = p.scale;
  forward.window = p.window;
  forward.score_cap = p.score_cap;
  runner.run(forward);
  std::vector<double> o = given.o;
  for (double& x : o) x = through_bf16(x);
  std::vector<double> lse = given.lse;
  for (double& x : lse) x = rounded_to(DType::kF32, x);
  AttentionBackward backward;
  backward.d_o = runner.upload(p.d_o, DType::kBF16, p.query_shape());
  backward.q = forward.q;
  backward.k = forward.k;
  backward.v = forward.v;
  backward.o = runner.upload(o, DType::kBF16, p.query_shape());
  backward.lse = runner.upload(lse, DType::kF32, {p.heads, p.tokens});
  backward.segments = forward.segments;
  backward.dq = columns(out, 0, p.query_shape());
  backward.dk = columns(out, at_k, p.key_shape());
  backward.dv = columns(out, at_v, p.key_shape());
  backward.delta = runner.output(DType::kF32, {p.heads, p.tokens});
  if (adds_dq) backward.dq_sum = runner.output(DType::kF32, p.query_shape());
  if (p.turned) {
    const Shape table{p.tokens, p.head_dim / 2};
    backward.rotation = {.positions = runner.upload(p.positions(), DType::kI32, {p.tokens}),
                         .cos = runner.upload(p.of_angles(std::cos), DType::kF32, table),
                         .sin = runner.upload(p.of_angles(std::sin), DType::kF32, table)};
  }
  backward.scale = p.scale;
  backward.window = p.window;
  backward.score_cap = p.score_cap;
  runner.run(backward);
  return {runner.download(forward.o), runner.download(forward.lse), runner.download(backward.dq),
          runner.download(backward.dk), runner.download(backward.dv)};
}

double norm_of_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

/// Requires ||got - exact|| to be at most 1.5 times what rounding to bf16 alone makes.
void require_as_accurate(const std::string& name, const std::vector<double>& got,
                         const std::vector<double>& exactly, const std::vector<double>& rounded) {
  const double error = norm_of_difference(got, exactly);
  // Exact zeros (a row of one token has no gradient of q and k) leave the roundoff of f32 sums.
  const double floor = 1e-5 * std::sqrt(static_cast<double>(got.size()));
  INFO(name << " has error " << error);
  REQUIRE(error <= 1.5 * norm_of_difference(rounded, exactly) + floor);
}

void check_accuracy(Contestants& contestants, const Problem& p) {
  INFO(p.lengths.size() << (p.documents ? " documents, the first of " : " rows of ")
                        << p.lengths.front() << ", window " << p.window << ", cap " << p.score_cap
                        << (p.turned ? ", turned back, " : ", ") << p.heads << " heads, "
                        << p.kv_heads << " kv heads of " << p.head_dim);
  const Results exactly = naive(p, exact);
  const Results rounded = naive(p, through_bf16);
  for (Contestant& contestant : contestants) {
    INFO(contestant.name);
    const Results got = run(contestant.runner, p, exactly);
    require_as_accurate("o", got.o, exactly.o, rounded.o);
    require_as_accurate("dq", got.dq, exactly.dq, rounded.dq);
    require_as_accurate("dk", got.dk, exactly.dk, rounded.dk);
    require_as_accurate("dv", got.dv, exactly.dv, rounded.dv);
    const Results added = run(contestant.runner, p, exactly, true);
    require_as_accurate("dq, added", added.dq, exactly.dq, rounded.dq);
    require_as_accurate("dk beside added dq", added.dk, exactly.dk, rounded.dk);
    require_as_accurate("dv beside added dq", added.dv, exactly.dv, rounded.dv);
    REQUIRE(norm_of_difference(got.lse, exactly.lse) <=
            1e-5 * std::sqrt(static_cast<double>(got.lse.size())));
  }
}

/// What a backward may be given where only its bits count.
Results any_results(const Problem& p) {
  Results given;
  given.o = p.q;
  given.lse.assign(static_cast<std::size_t>(p.heads * p.tokens), 1.0);
  return given;
}

/// Of a runner: a hundred runs of each operator on the same bytes.
constexpr int kRepeats = 100;

TEST_CASE("attention on cuda follows the formula for every kind of segment", "[cuda]") {
  with_attention_kernels([](OpRunner& runner) {
    for (const DType dtype : kAttentionTypes) {
      for (const AttentionCase& c : attention_cases(cuda_head_dims())) check_both(runner, dtype, c);
    }
  });
}

TEST_CASE("attention on cuda is as accurate as bf16 allows at lengths around its tiles", "[cuda]") {
  with_both([](Contestants& contestants) {
    for (const std::int64_t head_dim : {64, 128, 256}) {
      for (const std::int64_t length :
           {1, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 79, 80, 81, 127, 128, 129, 193}) {
        for (const std::int64_t kv_heads : {8, 4, 2, 1}) {
          check_accuracy(contestants, Problem::of_rows(2, length, {8, kv_heads, head_dim}));
        }
      }
      for (const std::int64_t kv_heads : {2, 1}) {
        check_accuracy(contestants, Problem::of_rows(1, 1000, {8, kv_heads, head_dim}));
      }
    }
  });
}

TEST_CASE("attention on cuda is as accurate as bf16 allows at 4096 tokens", "[cuda][slow]") {
  with_both([](Contestants& contestants) {
    check_accuracy(contestants, Problem::of_rows(1, 4096, {4, 1, 64}));
    check_accuracy(contestants, Problem::of_rows(1, 4096, {4, 1, 128}));
    check_accuracy(contestants, Problem::of_rows(1, 4096, {2, 1, 256}));
  });
}

TEST_CASE(
    "attention on cuda is as accurate as bf16 allows for documents of the LLaMA and Gemma shapes",
    "[cuda]") {
  with_both([](Contestants& contestants) {
    for (const Problem::Heads heads :
         {Problem::Heads{8, 4, 256}, Problem::Heads{16, 16, 128}, Problem::Heads{32, 32, 128},
          Problem::Heads{40, 40, 128}, Problem::Heads{32, 8, 128}, Problem::Heads{64, 8, 128}}) {
      const Problem p = Problem::of_documents({1, 130, 77, 3, 64, 48}, heads);
      check_accuracy(contestants, p);
      check_accuracy(contestants, p.with_rotation());
    }
  });
}

TEST_CASE("attention on cuda is as accurate as bf16 allows when it turns gradients back",
          "[cuda]") {
  with_both([](Contestants& contestants) {
    for (const std::int64_t head_dim : {64, 128, 256}) {
      for (const std::int64_t length : {1, 63, 129, 300}) {
        const Problem p = Problem::of_rows(2, length, {4, 2, head_dim});
        check_accuracy(contestants, p.with_rotation());
      }
    }
  });
}

TEST_CASE("attention on cuda is as accurate as bf16 allows through windows", "[cuda][slow]") {
  with_both([](Contestants& contestants) {
    for (const std::int64_t head_dim : {64, 128, 256}) {
      const Problem rows = Problem::of_rows(2, 600, {4, 2, head_dim});
      for (const std::int64_t window : {1,   2,   31,  48,  63,  64,  65,  96,  127, 128,
                                        129, 191, 192, 193, 256, 257, 400, 599, 600, 5000}) {
        check_accuracy(contestants, rows.with_scores(window, 0));
      }
      const Problem documents =
          Problem::of_documents({1, 300, 77, 3, 450, 64, 129}, {8, 1, head_dim}).with_rotation();
      for (const std::int64_t window : {1, 5, 64, 100, 128, 200, 300}) {
        check_accuracy(contestants, documents.with_scores(window, 0));
      }
      check_accuracy(contestants, documents.with_room().with_scores(100, 0));
    }
    check_accuracy(contestants, Problem::of_rows(1, 2100, {8, 2, 128}).with_scores(700, 0));
  });
}

TEST_CASE("attention on cuda is as accurate as bf16 allows where scores are capped", "[cuda]") {
  with_both([](Contestants& contestants) {
    for (const std::int64_t head_dim : {64, 128, 256}) {
      for (const std::int64_t window : {0, 1, 65, 130}) {
        check_accuracy(contestants,
                       Problem::of_rows(2, 300, {4, 2, head_dim}).with_scores(window, 3));
        check_accuracy(contestants, Problem::of_documents({1, 130, 77, 3, 64, 48}, {8, 2, head_dim})
                                        .with_rotation()
                                        .with_scores(window, 3));
      }
    }
  });
}

TEST_CASE("attention on cuda writes the same bits a hundred times", "[cuda]") {
  with_attention_kernels(
      [](OpRunner& runner) {
        for (const std::int64_t head_dim : {64, 128, 256}) {
          const Problem documents =
              Problem::of_documents({1, 200, 77, 3, 150, 64, 5}, {8, 2, head_dim});
          for (const Problem& p :
               {Problem::of_rows(1, 333, {4, 2, head_dim}), documents, documents.with_rotation(),
                documents.with_rotation().with_scores(70, 0), documents.with_scores(70, 3)}) {
            (void)run(runner, p, any_results(p));
          }
        }
      },
      kRepeats);
}

TEST_CASE("attention on cuda has the same bits whatever room a table of documents has", "[cuda]") {
  with_attention_kernels([](OpRunner& runner) {
    for (const std::int64_t head_dim : {64, 96, 128, 256}) {
      const Problem packed =
          Problem::of_documents({1, 200, 77, 3, 150, 64, 5}, {8, 2, head_dim}).with_rotation();
      const Results given = any_results(packed);
      const Results without = run(runner, packed, given);
      const Results with = run(runner, packed.with_room(), given);
      require_equal("o", with.o, without.o);
      require_equal("lse", with.lse, without.lse);
      require_equal("dq", with.dq, without.dq);
      require_equal("dk", with.dk, without.dk);
      require_equal("dv", with.dv, without.dv);
    }
  });
}

TEST_CASE("attention on cuda refuses what it has no kernel for, by name", "[cuda]") {
  with_attention_kernels([](OpRunner& runner) {
    const auto forward = [&](DType dtype, std::int64_t head_dim, double scale) {
      const Shape shape{2, 1, head_dim};
      const std::vector<double> values(static_cast<std::size_t>(shape.elements()), 1.0);
      AttentionForward op;
      op.q = op.k = op.v = runner.upload(values, dtype, shape);
      op.segments.uniform_length = 2;
      op.o = runner.output(dtype, shape);
      op.lse = runner.output(accumulator_of(dtype), {1, 2});
      op.scale = scale;
      runner.run(op);
    };
    REQUIRE_THROWS_WITH(forward(DType::kF64, 64, 1),
                        ContainsSubstring("attention_forward") && ContainsSubstring("f64"));
    REQUIRE_THROWS_WITH(forward(DType::kBF16, 264, 1), ContainsSubstring("head dims up to 256"));
    REQUIRE_THROWS_WITH(forward(DType::kBF16, 64, -1), ContainsSubstring("scale"));
  });
}

TEST_CASE("attention through cuDNN is as accurate as bf16 allows", "[cuda]") {
  on_cudnn([](Contestants& cudnn) {
    for (const std::int64_t head_dim : {32, 96, 256}) {
      check_accuracy(cudnn, Problem::of_rows(1, 200, {4, 2, head_dim}));
    }
    for (const std::int64_t head_dim : {64, 128}) {
      for (const std::int64_t length : {1, 64, 128, 200}) {
        for (const std::int64_t kv_heads : {4, 1}) {
          check_accuracy(cudnn, Problem::of_rows(2, length, {4, kv_heads, head_dim}));
        }
      }
      check_accuracy(cudnn, Problem::of_rows(2, 200, {4, 2, head_dim}).with_rotation());
    }
  });
}

TEST_CASE("attention through cuDNN is as accurate as bf16 allows in longer rows", "[cuda][slow]") {
  on_cudnn([](Contestants& cudnn) {
    for (const std::int64_t head_dim : {64, 128}) {
      for (const std::int64_t length : {1000, 1024}) {
        for (const std::int64_t heads : {1, 4}) {
          check_accuracy(cudnn, Problem::of_rows(1, length, {heads, 1, head_dim}));
        }
      }
    }
  });
}

TEST_CASE("attention through cuDNN writes the same bits a hundred times", "[cuda]") {
  on_cudnn(
      [](Contestants& cudnn) {
        const Problem rows = Problem::of_rows(1, 1024, {8, 2, 64});
        (void)run(cudnn.front().runner, rows, any_results(rows));
      },
      kRepeats);
}

TEST_CASE("attention beside cuDNN's follows the formula for what samples of a run ask", "[cuda]") {
  on_cudnn([](Contestants& cudnn) {
    OpRunner& runner = cudnn.front().runner;
    for (const AttentionCase& c : attention_cases(cuda_head_dims())) {
      if (c.uniform_length == 0) check_both(runner, DType::kBF16, c);
    }
    for (const AttentionCase& c : decode_cases(cuda_head_dims())) {
      const DType intermediate =
          on_tensor_cores(DType::kBF16, c.head_dim) ? DType::kBF16 : DType::kF32;
      (void)check_attention_forward(runner, DType::kBF16, c, intermediate);
    }
    for (const AttentionCase& c : fused_attend_cases(cuda_head_dims())) {
      (void)check_fused_attend(runner, DType::kBF16, c);
    }
  });
}

TEST_CASE("attention through cuDNN refuses what it cannot run, naming the key", "[cuda]") {
  on_cudnn([](Contestants& cudnn) {
    OpRunner& runner = cudnn.front().runner;
    const auto forward = [&](DType dtype, std::int64_t head_dim) {
      const Shape shape{4, 1, head_dim};
      const std::vector<double> values(static_cast<std::size_t>(shape.elements()), 1.0);
      AttentionForward op;
      op.q = op.k = op.v = runner.upload(values, dtype, shape);
      op.segments.uniform_length = 2;
      op.o = runner.output(dtype, shape);
      op.lse = runner.output(DType::kF32, {1, 4});
      runner.run(op);
    };
    REQUIRE_THROWS_WITH(forward(DType::kF32, 64),
                        ContainsSubstring("kernels.attention") && ContainsSubstring("f32"));
    for (const std::int64_t head_dim : {60, 264}) {
      REQUIRE_THROWS_WITH(forward(DType::kBF16, head_dim),
                          ContainsSubstring("kernels.attention") && ContainsSubstring("head dims"));
    }
  });
}

TEST_CASE("attention through cuDNN is refused by a program without cuDNN", "[cuda]") {
  if (!cuda_available() || cudnn_available()) {
    WARN("skipped: this program has cuDNN, or there is no device");
    return;
  }
  const BackendOptions options{.device = {}, .threads = 1, .attention = AttentionKernels::kCudnn};
  REQUIRE_THROWS_WITH(make_backend(BackendKind::kCuda, options),
                      ContainsSubstring("kernels.attention") && ContainsSubstring("CUDNN_ROOT"));
}

}  // namespace
}  // namespace strata::test
