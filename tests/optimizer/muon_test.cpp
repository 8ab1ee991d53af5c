// Tests Muon against whole matrices in f64, worked out as the papers write it: steps that are
// clipped, skipped and neither, in every dtype, on one rank and on several; and that a model learns
// by it.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "optimizer/muon_reference.h"
#include "strata/base/bytes.h"
#include "strata/base/convert.h"
#include "strata/base/random.h"
#include "strata/engine/state_choices.h"
#include "strata/model/families.h"
#include "strata/optimizer/optimizer.h"
#include "support/catch.h"
#include "support/thread_ranks.h"
#include "support/tiny_model.h"
#include "support/tiny_run.h"

namespace strata::test {
namespace {

constexpr double kClip = 1;

/// The gradients of these steps: larger than kClip, not finite, smaller, and larger.
constexpr double kSizes[] = {1, std::numeric_limits<double>::quiet_NaN(), 1e-4, 0.3};

OptimizerOptions muon_options() {
  OptimizerOptions options;
  options.kind = OptimizerKind::kMuon;
  options.muon_momentum = kMuonMomentum;
  options.weight_decay = kMuonDecay;
  options.grad_clip = kClip;
  options.lr_factors = {"*.k_proj.weight=0.5"};
  return options;
}

LlamaConfig biased(LlamaConfig model) {
  model.attention_bias = true;
  return model;
}

/// An optimizer alone on one of several ranks, whose gradients the test makes.
class MuonRig {
 public:
  MuonRig(const LlamaConfig& model, DType dtype, Ranks& ranks)
      : layout_(make_layout(spec_of(model))),
        ranks_(ranks),
        collectives_(make_collectives(ranks, *backend_.device)),
        state_(layout_,
               plan_state(layout_, {.compute = dtype,
                                    .gradient = DType::kF32,
                                    .muon = true,
                                    .passes = 2,  // the optimizer measures gradients
                                    .rank = ranks.rank(),
                                    .ranks = ranks.size()}),
               arenas_),
        weights_(state_, *collectives_, *backend_.kernels, arenas_, 1),
        optimizer_({state_, weights_, ranks, *collectives_, *backend_.kernels, *backend_.kernels,
                    arenas_, *backend_.pool},
                   muon_options(),
                   [this](const StepOutcome& outcome) { applied.push_back(outcome.applied); }) {
    state_.initialize(3, 0.2, *backend_.pool);
    const auto masters = gather_weights(state_, ranks_);
    for (const BlockId b : state_.ids()) {
      const Block& block = layout_.blocks[b];
      for (const SourceRun& run : source_runs(block, 0, block.elements, block.elements)) {
        MuonTensor tensor{.name = run.source->name,
                          .block = b,
                          .begin = run.block_begin,
                          .rows = run.count / run.segment->cols,
                          .columns = run.segment->cols,
                          .w = masters.at(run.source->name),
                          .m = {},
                          .v = {}};
        tensor.m = tensor.v = std::vector<double>(tensor.w.size(), 0.0);
        tensors.push_back(std::move(tensor));
      }
    }
  }

  /// Makes a step of gradients of about this size.
  void step(std::int64_t number, double size) {
    optimizer_.begin_step({.step = number, .lr = kMuonLr, .valid_tokens = 1}, {});
    for (const BlockId b : state_.ids()) {
      const TensorView& grad = state_.block(b).grad;
      const std::vector<double> whole = gradient(b, number, size);
      const auto begin = whole.begin() + state_.block(b).begin;
      store_as({begin, begin + grad.elements()}, grad.dtype,
               {static_cast<std::byte*>(grad.data), grad.bytes().bytes});
      Arrival arrival;
      arrival.block = b;
      arrival.gradient = grad;
      optimizer_.arrived(std::move(arrival), {});
    }
    optimizer_.finish_step({});
    optimizer_.submit_updates({});
    backend_.device->synchronize();
  }

  /// Makes the same update in f64.
  void update_reference(std::int64_t number, double size) {
    PerBlock<std::vector<double>> gradients;
    double squares = 0;
    for (const BlockId b : state_.ids()) {
      gradients.push_back(gradient(b, number, size));
      if (state_.block(b).grad.dtype == DType::kF32) {
        for (double& value : gradients[b]) value = static_cast<float>(value);
      }
      squares += std::pow(norm_of(gradients[b]), 2);
    }
    const double factor = std::min(1.0, kClip / std::sqrt(squares));
    ++updates_;
    for (MuonTensor& tensor : tensors) {
      std::vector<double> g = tensor.part_of(gradients[tensor.block]);
      for (double& value : g) value *= factor;
      tensor.update(g, updates_);
    }
  }

  /// Returns the largest error of a tensor's weights, as a share of how far they have come from
  /// `start`.
  [[nodiscard]] double error(const std::vector<MuonTensor>& start) {
    const auto masters = gather_weights(state_, ranks_);
    double most = 0;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      std::vector<double> off = masters.at(tensors[t].name);
      std::vector<double> way = tensors[t].w;
      for (std::size_t i = 0; i < way.size(); ++i) {
        off[i] -= tensors[t].w[i];
        way[i] -= start[t].w[i];
      }
      const double share = norm_of(off) / norm_of(way);
      most = std::isfinite(share) ? std::max(most, share) : share;
    }
    return most;
  }
  /// Returns the largest relative error of a moment of a tensor.
  [[nodiscard]] double error_of(TensorView BlockState::*moment,
                                std::vector<double> MuonTensor::*reference) {
    double most = 0;
    for (const BlockId b : state_.ids()) {
      const TensorView& own = state_.block(b).*moment;
      const std::vector<std::byte> bytes = whole(b, moment);
      const auto n = static_cast<std::int64_t>(bytes.size() / size_of(own.dtype));
      const std::vector<double> values = load_as_double({bytes.data(), own.dtype, {n}});
      for (const MuonTensor& tensor : tensors) {
        if (tensor.block != b) continue;
        most = std::max(most, relative_error(tensor.part_of(values), tensor.*reference));
      }
    }
    return most;
  }
  /// Returns the bytes of all that updates change, without the padding that depends on ranks.
  [[nodiscard]] StateBytes bytes() {
    StateBytes all;
    for (const BlockId b : state_.ids()) {
      for (TensorView BlockState::*const tensor : kUpdatedTensors) {
        const TensorView& own = state_.block(b).*tensor;
        if (!own) continue;
        all.push_back(whole(b, tensor));
        all.back().resize(static_cast<std::size_t>(layout_.blocks[b].elements) *
                          size_of(own.dtype));
      }
    }
    return all;
  }

  std::vector<MuonTensor> tensors;
  std::vector<bool> applied;  ///< of each step

 private:
  /// Returns a tensor of all ranks' shards.
  [[nodiscard]] std::vector<std::byte> whole(BlockId b, TensorView BlockState::*tensor) {
    const TensorView& own = state_.block(b).*tensor;
    const auto* const data = static_cast<const std::byte*>(own.data);
    return ranks_.all_gather_host({data, own.bytes().bytes}, Channel::kSubmit);
  }
  /// Returns the gradient of a block, padding included: the same on all ranks.
  [[nodiscard]] std::vector<double> gradient(BlockId b, std::int64_t step, double size) const {
    const std::int64_t padded = layout_.blocks[b].padded_elements(ranks_.size());
    std::vector<double> values(static_cast<std::size_t>(padded), 0.0);
    for (const MuonTensor& tensor : tensors) {
      if (tensor.block != b) continue;
      for (std::int64_t i = tensor.begin; i < tensor.begin + tensor.rows * tensor.columns; ++i) {
        values[static_cast<std::size_t>(i)] =
            size * random_normal(static_cast<std::uint64_t>(step),
                                 static_cast<std::uint64_t>(b.value()),
                                 static_cast<std::uint64_t>(i));
      }
    }
    return values;
  }

  const ModelLayout layout_;
  Ranks& ranks_;
  const Backend backend_ = make_backend(BackendKind::kCpu, {});
  Arena device_{*backend_.device, Space::kDevice, 4 * kMiB, "device"};
  Arena pinned_{*backend_.device, Space::kPinned, 4 * kMiB, "pinned"};
  Arena pageable_{*backend_.device, Space::kPageable, 4 * kMiB, "pageable"};
  const std::unique_ptr<Collectives> collectives_;
  Arenas arenas_{device_, pinned_, pageable_};
  TrainingState state_;
  WeightStore weights_;
  Optimizer optimizer_;
  int updates_ = 0;
};

/// A model whose matrices have several blocks of SquaredNorm, which shards cut anywhere.
LlamaConfig cut_model() {
  LlamaConfig m = tiny_model();
  m.hidden_size = 72;
  m.intermediate_size = 121;
  m.head_dim = 18;
  m.num_hidden_layers = 1;
  return m;
}

/// Returns the state after steps that are not clipped, so that nothing but the directions depends
/// on all elements.
StateBytes trained_bytes(DType dtype, int ranks) {
  StateBytes bytes;
  run_ranks(ranks, [&](Ranks& group) {
    MuonRig rig(cut_model(), dtype, group);
    for (std::int64_t step = 0; step < 2; ++step) rig.step(step, 1e-4);
    StateBytes all = rig.bytes();
    if (group.rank() == 0) bytes = std::move(all);
  });
  return bytes;
}

}  // namespace

TEST_CASE("muon updates matrices of layers as wholes and all else as AdamW does, on any ranks",
          "[numbers]") {
  const auto& [dtype, tolerance] = GENERATE(
      table<DType, double>({{DType::kF64, 1e-9}, {DType::kF32, 1e-4}, {DType::kBF16, 0.05}}));
  const int ranks = GENERATE(1, 2, 3, 4);
  std::vector<double> errors;
  std::vector<bool> applied;
  run_ranks(ranks, [&, of = dtype](Ranks& group) {
    MuonRig rig(biased(tiny_model()), of, group);
    const std::vector<MuonTensor> start = rig.tensors;
    std::vector<double> own;
    for (std::int64_t step = 0; step < std::ssize(kSizes); ++step) {
      rig.step(step, kSizes[step]);
      if (rig.applied.back()) rig.update_reference(step, kSizes[step]);
      own.push_back(rig.error(start));
    }
    own.push_back(rig.error_of(&BlockState::m, &MuonTensor::m));
    own.push_back(rig.error_of(&BlockState::v, &MuonTensor::v));
    if (group.rank() != 0) return;
    errors = own;
    applied = rig.applied;
  });
  INFO(std::string(name_of(dtype)) << ", " << ranks << " ranks");
  REQUIRE(errors.size() == std::size(kSizes) + 2);
  CHECK(errors.back() < 1e-6);
  errors.pop_back();
  CHECK(errors.back() < 1e-6);
  errors.pop_back();
  for (const double error : errors) CHECK(error < tolerance);
  CHECK(applied == std::vector<bool>{true, false, true, true});
}

TEST_CASE("any number of ranks makes the bits that one makes by muon of the same gradients") {
  for (const DType dtype : {DType::kF64, DType::kBF16}) {
    const StateBytes alone = trained_bytes(dtype, 1);
    for (const int ranks : {2, 3, 7, 13}) {  // shards of 13 are smaller than kBlock
      INFO(std::string(name_of(dtype)) << ", " << ranks << " ranks");
      // Catch2 would turn all bytes into text, which takes minutes.
      const bool same = trained_bytes(dtype, ranks) == alone;
      CHECK(same);
    }
  }
}

TEST_CASE("a wait of muon on several ranks that is left out is found as a race", "[one_thread]") {
  RunConfig config = tiny_config();
  config.run.steps = 2;
  config.optimizer.kind = OptimizerKind::kMuon;
  config.debug.execution = Execution::kEager;  // the numbers stay right; only the order is wrong
  for (const WaitFor why : {WaitFor::kFilled, WaitFor::kGathered, WaitFor::kArrived}) {
    Recorder recorder;
    trace_run(recorder, config, 2, why);
    const auto updates = [&](std::size_t i) {
      return recorder.records()[i].what.tag.phase == "update";
    };
    INFO(std::string(name_of(why)));
    CHECK(std::ranges::any_of(recorder.races(100'000), [&](const Race& race) {
      return updates(race.first) && updates(race.second);
    }));
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
