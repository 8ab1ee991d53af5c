// Tests the modes that change the order of sums, against the plain run. What the order of sums may
// change is not a number written here: it is measured, as what rounding changes when the plain run
// is made in another dtype.

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/tiny_run.h"

namespace strata::test {
namespace {

/// How far two runs are apart, relative; weights by how far their changes are.
struct Distance {
  double losses = 0;
  double norms = 0;
  double changes = 0;                     ///< all tensors together
  std::map<std::string, double> tensors;  ///< change of each
};

double squared_distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

Distance distance(const RunResult& a, const RunResult& b, const RunResult& initial) {
  Distance result{.losses = relative_error(a.losses, b.losses),
                  .norms = relative_error(a.norms, b.norms),
                  .tensors = {}};
  double apart = 0;
  double moved = 0;
  for (const auto& [name, values] : b.weights) {
    const double tensor_apart = squared_distance(a.weights.at(name), values);
    const double tensor_moved = squared_distance(values, initial.weights.at(name));
    result.tensors[name] = std::sqrt(tensor_apart / tensor_moved);
    apart += tensor_apart;
    moved += tensor_moved;
  }
  result.changes = std::sqrt(apart / moved);
  return result;
}

RunConfig in_dtype(RunConfig config, DType dtype) {
  config.run.dtype = dtype;
  return config;
}

/// The tiny run with an eps as large as its gradients. AdamW's default makes a sign of a gradient
/// in the first step: rounding errors of gradients near zero would decide the whole tolerance, and
/// a gradient of twice the size would go unseen.
RunConfig smooth_config(DType dtype) {
  RunConfig config = in_dtype(tiny_config(), dtype);
  config.run.threads = 1;
  config.optimizer.eps = 1e-2;
  return config;
}

/// The plain run of a config and what rounding does to it.
struct Reference {
  RunResult run;
  RunResult initial;
  Distance rounding;
};

/// Errors to first order: they are proportional to the unit roundoff. Losses and norms are sums in
/// f64 in any dtype; the error of a sum of n numbers grows with the root of n.
Distance scaled(Distance distance, double factor, const RunConfig& config,
                const RunResult& initial) {
  std::size_t weights = 0;
  for (auto& [name, error] : distance.tensors) {
    error *= factor;
    weights += initial.weights.at(name).size();
  }
  const auto tokens = config.schedule.rows * config.schedule.sub_batches * config.schedule.passes *
                      config.data.sequence_length;
  const auto sum_error = [](auto n) { return std::ldexp(std::sqrt(static_cast<double>(n)), -53); };
  distance.losses = distance.losses * factor + sum_error(tokens);
  distance.norms = distance.norms * factor + sum_error(weights);
  distance.changes *= factor;
  return distance;
}

Reference initial_and_final(const RunConfig& config) {
  RunConfig untrained = config;
  untrained.run.steps = 0;
  return {.run = run_tiny(config), .initial = run_tiny(untrained), .rounding = {}};
}

/// With the error of the sums of gradients: how far the run in f32 is from that in f64, which is
/// more, as everything else is in f32 there too. In f64 by the ratio of the unit roundoffs. In bf16
/// sums are in f32, and in the first step, which begins from the same weights, every rounding to
/// bf16 is that of the plain run.
Reference measure_sums(const RunConfig& config) {
  Reference result = initial_and_final(config);
  const double factor = config.run.dtype == DType::kF64 ? std::ldexp(1.0, -53 + 24) : 1.0;
  const Distance f32 = distance(run_tiny(in_dtype(config, DType::kF32)),
                                run_tiny(in_dtype(config, DType::kF64)), result.initial);
  result.rounding = scaled(f32, factor, config, result.initial);
  return result;
}

/// With the error of the dtype, which is what the smallest difference of weights can grow to once
/// it turns a rounding of the next step: how far the run is from that in f64.
Reference measure_dtype(const RunConfig& config) {
  Reference result = initial_and_final(config);
  const Distance apart =
      distance(result.run, run_tiny(in_dtype(config, DType::kF64)), result.initial);
  result.rounding = scaled(apart, 1.0, config, result.initial);
  return result;
}

/// Two runs are apart by at most the sum of their errors: two of them, and one for chance.
constexpr double kRoom = 3;

void check_close(const RunResult& run, const Reference& plain) {
  const Distance found = distance(run, plain.run, plain.initial);
  const Distance& rounding = plain.rounding;
  CHECK(found.losses <= kRoom * rounding.losses);
  CHECK(found.norms <= kRoom * rounding.norms);
  CHECK(found.changes <= kRoom * rounding.changes);
  for (const auto& [name, apart] : found.tensors) {
    INFO(name);
    CHECK(apart <= kRoom * std::max(rounding.tensors.at(name), rounding.changes));
  }
}

/// How the rows of a step are split.
struct Split {
  std::int64_t sub_batches;
  std::int64_t passes;
  int ranks;
  [[nodiscard]] std::int64_t rows() const { return sub_batches * passes * ranks; }
};

std::vector<Split> all_splits() {
  std::vector<Split> splits;
  for (const std::int64_t sub_batches : {1, 2, 3, 8}) {
    for (const std::int64_t passes : {1, 2, 4}) {
      for (const int ranks : {1, 2, 3}) splits.push_back({sub_batches, passes, ranks});
    }
  }
  return splits;
}

/// One split of the rows of `plain`; sub-batches alone do not change a bit on the cpu.
void check_split(RunConfig config, const Split& split, const Reference& plain) {
  config.schedule.rows = 1;
  config.schedule.sub_batches = split.sub_batches;
  config.schedule.passes = split.passes;
  const RunResult run = run_tiny(config, split.ranks);
  check_close(run, plain);
  if (split.passes == 1 && split.ranks == 1) CHECK(run == plain.run);
}

/// The plain runs that all splits are compared with, by rows of a step. A norm is one number, whose
/// error may be small by chance in one run, and does not depend on the rows: its size is that of
/// all these runs.
std::map<std::int64_t, Reference> measure_references(const RunConfig& base) {
  std::map<std::int64_t, Reference> references;
  for (const Split& split : all_splits()) {
    if (references.contains(split.rows())) continue;
    RunConfig plain = base;
    plain.schedule.rows = split.rows();
    plain.schedule.sub_batches = 1;
    references.emplace(split.rows(), measure_sums(plain));
  }
  double squares = 0;
  for (const auto& [rows, reference] : references) {
    squares += reference.rounding.norms * reference.rounding.norms;
  }
  const double size = std::sqrt(squares / static_cast<double>(references.size()));
  for (auto& [rows, reference] : references) {
    reference.rounding.norms = std::max(reference.rounding.norms, size);
  }
  return references;
}

/// Every split against the run of one sub-batch, one pass and one rank.
void check_all_modes(const RunConfig& base) {
  const std::map<std::int64_t, Reference> references = measure_references(base);
  for (const Split& split : all_splits()) {
    INFO(std::string(name_of(base.run.dtype))
         << (base.optimizer.grad_clip ? ", clipped" : ", not clipped") << ", S = "
         << split.sub_batches << ", " << split.passes << " passes, " << split.ranks << " ranks");
    check_split(base, split, references.at(split.rows()));
  }
}

}  // namespace

TEST_CASE("every split of the rows gives the plain run's numbers to rounding", "[long]") {
  for (const DType dtype : {DType::kF64, DType::kBF16}) {
    RunConfig config = smooth_config(dtype);
    config.data.sequence_length = 4;
    config.run.steps = dtype == DType::kBF16 ? 1 : 2;  // see measure_sums
    check_all_modes(config);
    config.optimizer.grad_clip = std::nullopt;
    check_all_modes(config);
  }
}

TEST_CASE("over several steps other orders of sums stay within the rounding of the dtype",
          "[numbers]") {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
    INFO(std::string(name_of(dtype)));
    const RunConfig base = smooth_config(dtype);
    const Reference plain = dtype == DType::kF64 ? measure_sums(base) : measure_dtype(base);
    const auto close = [&](const std::string& what, const RunConfig& config, int ranks) {
      INFO(what);
      check_close(run_tiny(config, ranks), plain);
    };
    RunConfig c = base;
    for (const int passes : {2, 3, 6}) {
      c = base;
      c.schedule.passes = passes;
      c.schedule.sub_batches = 6 / passes;
      close("passes " + std::to_string(passes), c, 1);
    }
    for (const int ranks : {2, 3}) {
      c = base;
      c.schedule.sub_batches = 6 / ranks;
      close("ranks " + std::to_string(ranks), c, ranks);
    }
    c = base;
    c.schedule.sub_batches = 1;
    c.schedule.passes = 3;
    close("two ranks, three passes", c, 2);
  }
}

TEST_CASE("tied embeddings are summed once in every order of sums") {
  RunConfig c = smooth_config(DType::kF64);
  c.model.llama.tie_word_embeddings = true;
  const Reference plain = measure_sums(c);
  c.schedule.sub_batches = 2;
  check_close(run_tiny(c, 3), plain);
  c.schedule.sub_batches = 3;
  c.schedule.passes = 2;
  check_close(run_tiny(c), plain);
}

namespace {

/// RMS error of a number rounded to bf16, relative to its own size: uniform in half a unit of the
/// last place, averaged over significands.
constexpr double kBf16Error = 0.5 * 0.5774 * 0.0078125 / 1.5;

/// RMS error of int8 relative to the RMS of a row of so many normal numbers. The largest is about
/// sqrt(2 ln n) times that, an error uniform in half a level.
double int8_error(std::int64_t width) {
  return std::sqrt(2 * std::log(static_cast<double>(width))) / 127 / std::sqrt(12.0);
}

}  // namespace

TEST_CASE("in int8 forward and its loss are exact") {
  RunConfig c = tiny_config();
  c.run.steps = 1;
  c.schedule.activations = KeepLevel::kRecompute;
  const RunResult exact = run_tiny(c);
  c.schedule.spill_dtype = BoundaryForm::kInt8;
  const RunResult int8 = run_tiny(c);
  CHECK(int8.losses == exact.losses);
  CHECK(int8.norms != exact.norms);
  RunConfig full = c;
  full.schedule.activations = KeepLevel::kFull;
  CHECK(run_tiny(full).norms != int8.norms);  // what is kept was made from the exact input
  // The head's gradient needs no boundary but its own, which is not spilled.
  c.optimizer.grad_clip = std::nullopt;
  const RunResult unclipped = run_tiny(c);
  c.schedule.spill_dtype = BoundaryForm::kExact;
  CHECK(unclipped.weights.at("lm_head.weight") == run_tiny(c).weights.at("lm_head.weight"));
}

TEST_CASE("gradients through boundaries in int8 err in proportion to what int8 rounds off",
          "[numbers]") {
  // The yardstick is measured: how far the run in bf16 is from that in f64. There layer inputs are
  // rounded too, and everything else besides. Errors of gradients grow in proportion to first
  // order.
  RunConfig config = smooth_config(DType::kF64);
  config.run.steps = 1;
  config.optimizer.grad_clip = std::nullopt;
  config.schedule.activations = KeepLevel::kRecompute;
  const Reference exact = initial_and_final(config);
  const Distance bf16 =
      distance(run_tiny(in_dtype(config, DType::kBF16)), exact.run, exact.initial);
  config.schedule.spill_dtype = BoundaryForm::kInt8;
  const Distance int8 = distance(run_tiny(config), exact.run, exact.initial);
  const double ratio = int8_error(config.model.llama.hidden_size) / kBf16Error;
  CAPTURE(int8.changes, bf16.changes, int8.norms, bf16.norms, ratio);
  CHECK(int8.losses == 0);
  CHECK(int8.changes > 0);
  CHECK(int8.changes <= kRoom * ratio * bf16.changes);
  CHECK(int8.norms <= kRoom * ratio * bf16.changes);
}

TEST_CASE("losses and gradients err in proportion to what products in e4m3 round off",
          "[numbers]") {
  // The yardstick is the run in bf16 again, whose numbers have 8 significant bits where codes have
  // 4. It rounds all that products read, and more. Losses are means over tokens, whose errors may
  // cancel in a run, so they are compared over steps that see ever other tokens.
  RunConfig config = smooth_config(DType::kF64);
  config.run.steps = 12;
  config.optimizer.lr = 1e-4;  // so that runs do not part
  config.optimizer.grad_clip = std::nullopt;
  const Reference exact = initial_and_final(config);
  config.run.dtype = DType::kBF16;
  config.optimizer.gradient_dtype = DType::kF32;
  const Distance bf16 = distance(run_tiny(config), exact.run, exact.initial);
  constexpr double kRatio = 16;
  for (const Products products : {Products::kFp8, Products::kFp8All}) {
    config.run.products = products;
    const Distance fp8 = distance(run_tiny(config), exact.run, exact.initial);
    CAPTURE(fp8.losses, bf16.losses, fp8.changes, bf16.changes, fp8.norms, bf16.norms);
    CHECK(fp8.changes > bf16.changes);
    CHECK(fp8.losses <= kRoom * kRatio * bf16.losses);
    CHECK(fp8.changes <= kRoom * kRatio * bf16.changes);
    CHECK(fp8.norms <= kRoom * kRatio * bf16.norms);
  }
}

}  // namespace strata::test
