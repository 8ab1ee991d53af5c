// Tests dropout of adapters in whole runs in f64: gradients against finite differences of the loss,
// and that masks depend on the step and the token alone. PyTorch draws other masks, so what it
// gives is compared where none is drawn.

#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "golden/golden_file.h"
#include "golden/golden_run.h"
#include "strata/model/layout.h"
#include "strata/model/peft_config.h"
#include "strata/train/session.h"
#include "support/catch.h"

namespace strata::test {
namespace {

constexpr const char* kCase = "lora_mha";

/// The golden run that begins with PEFT's adapters, some of whose input is dropped.
RunConfig dropping_config(const GoldenModel& golden, double dropout) {
  RunConfig config = golden_config(golden, DType::kF64);
  config.adapter = read_peft_config(golden_data() / kCase / kPeftConfigName);
  config.adapter->path = (golden_data() / kCase).string();
  config.adapter->dropout = dropout;
  return config;
}

/// Adds to one element of a tensor of the adapters, on a rank that is alone.
void add_to_element(TrainingState& state, const std::string& name, std::int64_t element,
                    double added) {
  for (const BlockId id : state.ids()) {
    const Block& block = state.layout().blocks[id];
    for (const SourceRun& run : source_runs(block, 0, block.elements, block.elements)) {
      if (run.source->name != name) continue;
      const std::int64_t at = run.block_begin + element;
      const double value = state.master(id).at(static_cast<std::size_t>(at)) + added;
      state.write(id, &BlockState::weight, at, std::as_bytes(std::span(&value, 1)));
    }
  }
}

}  // namespace

TEST_CASE("gradients of adapters with dropout are the derivative of the loss, in f64") {
  const GoldenModel golden = load_golden_model("mha");
  RunConfig config = dropping_config(golden, 0.3);
  config.run.steps = 1;
  const GoldenRun run = train_golden(golden, config, 1);
  const std::string layer = "base_model.model.model.layers.1.";
  for (const std::string& name :
       {layer + "self_attn.k_proj.lora_A.weight", layer + "self_attn.k_proj.lora_B.weight",
        layer + "mlp.down_proj.lora_A.weight",
        std::string("base_model.model.model.layers.0.mlp.up_proj.lora_B.weight")}) {
    const std::vector<double>& gradient = run.first_gradients.at(name);
    for (const std::size_t element : {std::size_t{0}, gradient.size() / 2, gradient.size() - 1}) {
      INFO(name << "[" << element << "]");
      constexpr double kStep = 1e-4;
      const auto loss = [&](double added) {
        return train_golden(golden, config, 1,
                            [&](TrainingState& state) {
                              add_to_element(state, name, static_cast<std::int64_t>(element),
                                             added);
                            })
            .result.losses.front();
      };
      const double derivative = (loss(kStep) - loss(-kStep)) / (2 * kStep);
      CHECK(gradient[element] == Approx(derivative).epsilon(1e-5).margin(1e-9));
    }
  }
}

TEST_CASE("masks of dropout do not depend on rows, sub-batches, passes and ranks") {
  const GoldenModel golden = load_golden_model("mha");
  const GoldenRun whole = train_golden(golden, dropping_config(golden, 0.3), 1);
  struct Mode {
    int ranks;
    std::int64_t passes, sub_batches, rows;
  };
  for (const Mode& mode :
       {Mode{1, 1, 1, 6}, Mode{1, 2, 3, 1}, Mode{2, 1, 3, 1}, Mode{3, 1, 1, 2}}) {
    INFO(mode.ranks << " ranks, " << mode.passes << " passes of " << mode.sub_batches
                    << " sub-batches");
    RunConfig config = dropping_config(golden, 0.3);
    config.schedule.passes = mode.passes;
    config.schedule.sub_batches = mode.sub_batches;
    config.schedule.rows = mode.rows;
    const GoldenRun run = train_golden(golden, config, mode.ranks);
    CHECK(relative_error(run.result.losses, whole.result.losses) < 1e-12);
    CHECK(relative_error(run.result.norms, whole.result.norms) < 1e-12);
  }
}

TEST_CASE("masks of dropout are drawn again where activations are not kept") {
  const GoldenModel golden = load_golden_model("mha");
  const GoldenRun whole = train_golden(golden, dropping_config(golden, 0.3), 1);
  for (const KeepLevel level : kKeepLevels) {
    INFO("level " << static_cast<int>(level));
    RunConfig config = dropping_config(golden, 0.3);
    config.schedule.activations = level;
    const GoldenRun run = train_golden(golden, config, 1);
    CHECK(run.result == whole.result);
  }
}

TEST_CASE("dropout changes the loss of training, in each step and by the seed") {
  const GoldenModel golden = load_golden_model("mha");
  const GoldenFile expected(golden_data() / kCase / "expected.safetensors");
  RunConfig config = dropping_config(golden, 0.3);
  const double plain = expected.values("loss").front();
  const double first = train_golden(golden, config, 1).result.losses.front();
  config.run.seed += 1;
  const double other = train_golden(golden, config, 1).result.losses.front();
  CHECK(std::abs(first - plain) > 1e-6);
  CHECK(std::abs(other - first) > 1e-6);
}

TEST_CASE("a validation drops nothing: its loss is PEFT's") {
  const GoldenModel golden = load_golden_model("mha");
  const GoldenFile expected(golden_data() / kCase / "expected.safetensors");
  const std::unique_ptr<Ranks> ranks = make_self_ranks();
  SessionHooks hooks;
  hooks.fill = [&](std::int64_t step, int pass, const BatchOptions& options,
                   const PassBuffers& out) {
    return fill_golden_pass(golden, step, pass, options, out);
  };
  Session session(dropping_config(golden, 0.3), *ranks, hooks);
  const double loss = expected.values("loss").front();
  CHECK(session.evaluate() == Approx(loss).epsilon(1e-12));
  session.submit(0, 0);  // whose draws must not be those of the next validation
  CHECK(session.evaluate() == Approx(loss).epsilon(1e-12));
}

}  // namespace strata::test
