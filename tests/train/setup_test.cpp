// What a setup makes of a config: defaults that depend on other keys, and the plan as it is
// printed.

#include "strata/train/setup.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/tiny_run.h"

namespace strata::test {
namespace {

RunConfig on_arrival_config(std::int64_t layers) {
  RunConfig config = tiny_config();
  config.run.dtype = DType::kBF16;
  config.model.llama.num_hidden_layers = layers;
  config.optimizer.grad_clip = std::nullopt;
  config.optimizer.timing = UpdateTiming::kOnArrival;
  return config;
}

/// The number in front of "bytes per parameter" in the printed plan.
double printed_bytes_per_parameter(const Setup& setup) {
  const std::string text = setup.to_string();
  const std::string label = "training state: ";
  return std::stod(text.substr(text.find(label) + label.size()));
}

}  // namespace

TEST_CASE("a third of the blocks is deferred, or what a gradient ring has slots for") {
  RunConfig config = on_arrival_config(16);
  const auto deferred = [&] { return make_setup(config, 0, 1, {}).optimizer.deferred_blocks; };
  CHECK(deferred() == 6);
  for (const std::int64_t slots : {2, 3, 7, 8, 9, 100}) {
    config.optimizer.gradient_ring = slots;
    CHECK(deferred() == std::min<std::int64_t>(6, slots - 2));
  }
  config.optimizer.deferred_units = 1;
  CHECK(deferred() == 1);
}

TEST_CASE("a gradient ring has at most a slot for each layer") {
  RunConfig config = on_arrival_config(3);
  config.optimizer.gradient_ring = 100;
  CHECK(make_setup(config, 0, 1, {}).state.gradient_ring == 3);
}

TEST_CASE("a plan says 8 to 16 bytes per parameter, by dtypes and gradient ring") {
  struct Case {
    DType gradient, moment;
    std::optional<std::int64_t> ring;
    double bytes;
  };
  for (const Case& c :
       {Case{DType::kF32, DType::kF32, std::nullopt, 16},
        Case{DType::kBF16, DType::kF32, std::nullopt, 14},
        Case{DType::kBF16, DType::kBF16, std::nullopt, 10}, Case{DType::kBF16, DType::kF32, 2, 12},
        Case{DType::kBF16, DType::kBF16, 2, 8}}) {
    RunConfig config = on_arrival_config(120);
    config.optimizer.gradient_dtype = c.gradient;
    config.optimizer.moment_dtype = c.moment;
    config.optimizer.gradient_ring = c.ring;
    const Setup setup = make_setup(config, 0, 1, {});
    const std::vector<Block>& blocks = setup.layout.blocks;
    double elements = 0;
    for (const Block& block : blocks) elements += static_cast<double>(block.shard_elements(1));
    double bytes = c.bytes * elements;
    if (c.ring) {  // what has a place beside the ring's slots: bf16
      const auto homes = blocks.front().shard_elements(1) + blocks.back().shard_elements(1);
      bytes += 2 * static_cast<double>(homes + *c.ring * blocks[1].shard_elements(1));
    }
    const auto parameters = static_cast<double>(config.model.llama.parameter_count());
    const double aligned = 5 * 256 * static_cast<double>(blocks.size());  // five arrays a block
    const double printed = printed_bytes_per_parameter(setup);
    INFO(c.bytes << " bytes, printed " << printed);
    CHECK(printed > bytes / parameters - 0.01);  // two digits are printed
    CHECK(printed <= (bytes + aligned) / parameters);
  }
}

}  // namespace strata::test
