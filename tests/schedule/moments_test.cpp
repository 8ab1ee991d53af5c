// Tests moments in bf16 and in 8 bits: what they change, within bounds worked out from their
// rounding against runs with f32 moments, and what they must not change.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/base/convert.h"
#include "strata/base/random.h"
#include "strata/engine/state_choices.h"
#include "strata/model/families.h"
#include "support/catch.h"
#include "support/thread_ranks.h"
#include "support/tiny_model.h"
#include "support/tiny_run.h"

namespace strata::test {
namespace {

RunConfig with_moments(RunConfig config, DType moments) {
  config.optimizer.moment_dtype = moments;
  return config;
}

RunConfig with_steps(RunConfig config, std::int64_t steps) {
  config.run.steps = steps;
  return config;
}

/// tiny_config() in a dtype that bf16 moments exist for, without clipping.
RunConfig base_config(DType dtype) {
  RunConfig config = tiny_config();
  config.run.dtype = dtype;
  config.optimizer.grad_clip = std::nullopt;
  return config;
}

/// Gradients of the last of `steps` steps.
std::map<std::string, std::vector<double>> last_gradients(const RunConfig& config) {
  const auto self = make_self_ranks();
  TinyEngine engine(config, *self);
  (void)run_steps(engine);
  return gather_gradients(engine.state(), *self);
}

/// Extent of u = m / correction1 / (sqrt(v / correction2) + eps) around its value at (m, v) while
/// both are wrong by a relative error of up to `error`. u is monotone in each: corners bound it.
double deviation_of_update(double m, double v, double m_error, double v_error,
                           const OptimizerSection& o, int t) {
  const double correction1 = 1 - std::pow(o.betas[0], t);
  const double correction2 = 1 - std::pow(o.betas[1], t);
  const auto u = [&](double m_off, double v_off) {
    return (m + m_off) / correction1 / (std::sqrt(std::max(0.0, v + v_off) / correction2) + o.eps);
  };
  double largest = 0;
  for (const double m_off : {-m_error, m_error}) {
    for (const double v_off : {-v_error, v_error}) {
      largest = std::max(largest, std::abs(u(m_off, v_off) - u(0, 0)));
    }
  }
  return largest;
}

/// Fills batches of rank 0 as for a run of one rank; other ranks have the same rows without a
/// target, so that they add zeros to every gradient.
std::int64_t fill_rank_0_only(const LlamaConfig& model, std::int64_t step, BatchOptions options,
                              const PassBuffers& out) {
  const int rank = options.rank;
  options.rank = 0;
  options.ranks = 1;
  const SyntheticTokens tokens(1 << 20, model.vocab_size, 5);
  ThreadPool pool(1);
  BatchLoader loader(tokens, options, pool);
  const std::int64_t valid = loader.fill_pass(step * loader.samples_per_step(), 0, out);
  if (rank == 0) return valid;
  std::fill(out.targets.begin(), out.targets.end(), kIgnoreTarget);
  return 0;
}

/// m of every block after every update.
using Moments = std::vector<std::vector<std::vector<double>>>;

/// Updates one rank's shards by gradients of 1 + 2^-9, which becomes m: a quarter of the way
/// between numbers of bf16.
Moments moments_of(std::uint64_t seed, int updates, int rank = 0, int ranks = 1) {
  LlamaConfig model = tiny_model();
  model.hidden_size = 64;  // layers of several blocks of 4096
  const ModelLayout layout = make_layout(spec_of(model));
  const StateChoices choices{.compute = DType::kF32,
                             .gradient = DType::kF32,
                             .moment = DType::kBF16,
                             .passes = 2,  // norms are taken by the optimizer, not on the way
                             .rank = rank,
                             .ranks = ranks};
  const Backend backend = make_backend(BackendKind::kCpu, {});
  Arena device(*backend.device, Space::kDevice, 16 * kMiB, "device");
  Arena pinned(*backend.device, Space::kPinned, 16 * kMiB, "pinned");
  Arena pageable(*backend.device, Space::kPageable, 16 * kMiB, "pageable");
  const auto self = make_self_ranks();
  const auto collectives = make_collectives(*self, *backend.device);
  Arenas arenas(device, pinned, pageable);
  TrainingState state(layout, plan_state(layout, choices), arenas);
  WeightStore weights(state, *collectives, *backend.kernels, arenas, 1);
  OptimizerOptions options;
  options.beta1 = 0;
  options.beta2 = 0;
  options.seed = seed;
  Optimizer optimizer({state, weights, *self, *collectives, *backend.kernels, *backend.kernels,
                       arenas, *backend.pool},
                      options, [](const StepOutcome&) {});
  Moments moments;
  for (std::int64_t step = 0; step < updates; ++step) {
    optimizer.begin_step({.step = step, .lr = 0, .valid_tokens = 1}, {});
    for (const BlockId b : state.ids()) {
      const TensorView& grad = state.block(b).grad;
      std::fill_n(grad.as<float>(), grad.elements(), 1 + 0x1p-9f);
      Arrival arrival;
      arrival.block = b;
      arrival.gradient = grad;
      optimizer.arrived(std::move(arrival), {});
    }
    optimizer.finish_step({});
    backend.device->synchronize();
    moments.emplace_back();
    for (const BlockId b : state.ids()) {
      moments.back().push_back(load_as_double(state.block(b).m));
    }
  }
  return moments;
}

/// Letters of a made-up language: words of Zipf's frequencies, one after the other at random.
class Words final : public TokenSource {
 public:
  static constexpr std::int64_t kVocabulary = 27;  ///< 26 letters and the space

  explicit Words(std::size_t letters) {
    std::vector<std::vector<std::int32_t>> words;
    double total = 0;
    for (std::uint64_t word = 0; word < kWords; ++word) {
      words.emplace_back();
      const std::uint64_t length = 2 + random_bits(1, word, 0) % 6;
      for (std::uint64_t i = 0; i < length; ++i) {
        words.back().push_back(static_cast<std::int32_t>(random_bits(2, word, i) % 26));
      }
      words.back().push_back(26);
      total += frequency(word);
    }
    for (std::uint64_t i = 0; letters_.size() < letters; ++i) {
      double left = random_uniform(3, 0, i) * total;
      std::size_t word = 0;
      while (word + 1 < words.size() && left > frequency(word)) left -= frequency(word++);
      letters_.insert(letters_.end(), words[word].begin(), words[word].end());
    }
  }

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::int64_t size() const override { return std::ssize(letters_); }
  [[nodiscard]] std::int64_t vocabulary() const override { return kVocabulary; }
  [[nodiscard]] std::uint64_t tokenizer_hash() const override { return 0; }
  void read(std::int64_t begin, std::span<std::int32_t> out) const override {
    check_range(*this, begin, std::ssize(out));
    std::copy_n(letters_.begin() + begin, out.size(), out.begin());
  }
  void document_ends_in(std::int64_t, std::int64_t, std::vector<std::int64_t>&) const override {}

 private:
  static constexpr std::uint64_t kWords = 100;
  static double frequency(std::size_t word) { return 1.0 / static_cast<double>(word + 1); }
  std::string name_ = "words";
  std::vector<std::int32_t> letters_;
};

/// The mean loss of the last quarter of a run on `words`.
double final_loss(const RunConfig& config, const Words& words) {
  ThreadPool pool(1);
  std::unique_ptr<BatchLoader> loader;
  TinyHooks hooks;
  hooks.fill = [&](std::int64_t step, int pass, const BatchOptions& options,
                   const PassBuffers& out) {
    if (!loader) loader = std::make_unique<BatchLoader>(words, options, pool);
    return loader->fill_pass(step * loader->samples_per_step(), pass, out);
  };
  const RunResult run = run_tiny(config, 1, hooks);
  const auto quarter = static_cast<std::ptrdiff_t>(run.losses.size() / 4);
  return std::accumulate(run.losses.end() - quarter, run.losses.end(), 0.0) /
         static_cast<double>(quarter);
}

}  // namespace

TEST_CASE("the first update with rounded moments is that with f32 moments", "[numbers]") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const RunConfig config = with_steps(base_config(dtype), 1);
    const RunResult exact = run_tiny(with_moments(config, DType::kF32));
    CHECK(run_tiny(with_moments(config, DType::kBF16)) == exact);
    CHECK(run_tiny(with_moments(config, kMomentCode)) == exact);
  }
}

TEST_CASE("the second update with bf16 moments is apart by what their rounding can do",
          "[numbers]") {
  // Weights, and so the gradients of both steps, are still equal: the updates are apart by what one
  // rounding of m and v does, of less than one part in 2^7.
  const RunConfig two = with_steps(base_config(DType::kF32), 2);
  const auto first = last_gradients(with_steps(two, 1));
  const auto second = last_gradients(two);
  const RunResult start = run_tiny(with_steps(two, 1));
  const RunResult exact = run_tiny(two);
  const RunResult rounded = run_tiny(with_moments(two, DType::kBF16));
  CHECK(rounded.losses == exact.losses);
  CHECK(rounded.norms == exact.norms);
  const OptimizerSection& o = two.optimizer;
  std::size_t elements = 0;
  std::size_t apart = 0;
  for (const auto& [name, weights] : exact.weights) {
    INFO(name);
    const std::vector<double>& w1 = start.weights.at(name);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double g1 = first.at(name)[i];
      const double g2 = second.at(name)[i];
      const double m1 = (1 - o.betas[0]) * g1;
      const double v1 = (1 - o.betas[1]) * g1 * g1;
      const double m2 = o.betas[0] * m1 + (1 - o.betas[0]) * g2;
      const double v2 = o.betas[1] * v1 + (1 - o.betas[1]) * g2 * g2;
      const double bound = o.lr * deviation_of_update(m2, v2, o.betas[0] * std::abs(m1) * 0x1p-7,
                                                      o.betas[1] * v1 * 0x1p-7, o, 2);
      // Each run also rounds u, at most 1 / sqrt(1 - beta2) or so, and w to f32 a few times.
      const double steps = std::abs(weights[i]) + std::abs(w1[i] - weights[i]);
      const double f32_rounding = 2 * 8 * 0x1p-24 * steps;
      REQUIRE(std::abs(rounded.weights.at(name)[i] - weights[i]) <= bound + f32_rounding);
      apart += rounded.weights.at(name)[i] != weights[i] ? 1 : 0;
      ++elements;
    }
  }
  CHECK(apart > elements / 2);
}

TEST_CASE("moments are rounded by the same bits on any number of ranks", "[numbers]") {
  for (const auto& [dtype, moments] :
       {std::pair{DType::kF32, DType::kBF16}, std::pair{DType::kBF16, DType::kBF16},
        std::pair{DType::kF32, kMomentCode}, std::pair{DType::kBF16, kMomentCode}}) {
    RunConfig config = with_moments(base_config(dtype), moments);
    config.model.llama.hidden_size = 64;  // layers of several blocks of 4096
    config.run.steps = 4;
    TinyHooks hooks;
    hooks.fill = [&](std::int64_t step, int, const BatchOptions& options, const PassBuffers& out) {
      return fill_rank_0_only(config.model.llama, step, options, out);
    };
    const RunResult one = run_tiny(config, 1, hooks);
    for (const int ranks : {2, 3}) {
      INFO(std::string(name_of(dtype))
           << ", " << moment_name(moments) << ", " << ranks << " ranks");
      const RunResult several = run_tiny(config, ranks, hooks);
      CHECK(several.losses == one.losses);
      CHECK(several.weights == one.weights);
    }
  }
}

TEST_CASE(
    "every seed, update and block draws its own bits for bf16 moments, every shard the whole's") {
  const Moments run = moments_of(1, 2);
  const std::vector<double> m = run[1][1];  // of the second update and the first layer
  // Each is one of the two neighbours of 1 + 2^-9 in bf16, and both occur.
  for (const double value : m) REQUIRE((value == 1 || value == 1 + 0x1p-7));
  CHECK(std::count(m.begin(), m.end(), 1) > 0);
  CHECK(std::count(m.begin(), m.end(), 1) < std::ssize(m));
  CHECK(moments_of(1, 2) == run);
  CHECK(run[0][1] != m);
  CHECK(run[1][2] != m);
  CHECK(moments_of(2, 2)[1][1] != m);
  for (const int ranks : {2, 3}) {
    std::vector<double> shards;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<double> shard = moments_of(1, 2, rank, ranks)[1][1];
      shards.insert(shards.end(), shard.begin(), shard.end());
    }
    REQUIRE(shards.size() >= m.size());
    shards.resize(m.size());
    CHECK(shards == m);
  }
}

TEST_CASE("a run with moments in 8 bits learns as one with f32 moments does", "[long]") {
  RunConfig config = base_config(DType::kF32);
  // Runs drift apart with time: they are compared while the loss falls fast.
  config.run.steps = 60;
  config.run.threads = 1;
  config.model.llama.vocab_size = Words::kVocabulary;
  config.model.llama.hidden_size = 32;
  config.model.llama.intermediate_size = 64;
  config.model.llama.num_hidden_layers = 2;
  config.model.llama.head_dim = 8;
  config.model.llama.max_position_embeddings = 32;
  config.model.llama.initializer_range = 0.1;
  config.data.sequence_length = 32;
  config.schedule.rows = 4;
  config.schedule.sub_batches = 1;
  config.optimizer.lr = 5e-3;
  // v changes by a part in a thousand an update, less than codes tell apart: errors of its rounding
  // would add up if they were not right on average.
  config.optimizer.betas = {0.9, 0.999};
  const Words words(100'000);
  const double exact = final_loss(config, words);
  const double rounded = final_loss(with_moments(config, kMomentCode), words);
  // A rounding changes m, and so the update, by less than a part in 2^4. A learning rate that is
  // off by as much, always in one direction, must do more harm.
  double tolerance = 0;
  for (const double factor : {1 - 0x1p-4, 1 + 0x1p-4}) {
    RunConfig other = config;
    other.optimizer.lr *= factor;
    tolerance = std::max(tolerance, std::abs(final_loss(other, words) - exact));
  }
  INFO("f32 " << exact << ", 8bit " << rounded << ", allowed " << tolerance);
  CHECK(exact < std::log(Words::kVocabulary) - 0.3);
  CHECK(rounded != exact);
  CHECK(std::abs(rounded - exact) < tolerance);
}

}  // namespace strata::test
