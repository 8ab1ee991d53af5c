// What a setup makes of a config: defaults that depend on other keys, the undo log, and the plan as
// it is printed. Budgets are mostly without limits, so that only the config decides.

#include "strata/plan/setup.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/optimizer/undo_log.h"
#include "support/catch.h"
#include "support/tiny_config.h"

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

RunConfig speculative_config(std::int64_t layers) {
  RunConfig config = on_arrival_config(layers);
  config.optimizer.grad_clip = 1.0;
  config.optimizer.timing = UpdateTiming::kSpeculative;
  return config;
}

/// Returns the number that stands before "bytes per parameter" in the printed plan.
double printed_bytes_per_parameter(const Setup& setup) {
  const std::string text = setup.to_string();
  const std::string label = "training state: ";
  return std::stod(text.substr(text.find(label) + label.size()));
}

/// Returns the speculated blocks by number, from the last.
std::vector<int> speculated(const Setup& s) {
  std::vector<int> blocks;
  for (const BlockId b : s.model->blocks.ids()) {
    if (s.state.blocks[b].updated == UpdateTime::kSpeculated) blocks.push_back(b.value());
  }
  std::reverse(blocks.begin(), blocks.end());
  return blocks;
}

std::size_t log_bytes(const Setup& s, BlockId block) {
  return round_up(UndoLog::slot_bytes(*s.model, s.state, block), Arena::kAlignment);
}

}  // namespace

TEST_CASE("the plan says how many tensors have which learning rate and decay") {
  RunConfig config = tiny_config();  // 3 layers, not tied
  CHECK_THAT(make_setup(config, 0, 1, {}).to_string(), !ContainsSubstring("parameter groups"));
  config.optimizer.weight_decay = 0.1;
  config.optimizer.weight_decays = {"model.embed_tokens.weight=0"};
  config.optimizer.lr_factors = {"*.k_proj.weight=0.5", "*.layers.0.*_proj.weight=2"};
  CHECK_THAT(
      make_setup(config, 0, 1, {}).to_string(),
      ContainsSubstring("parameter groups: 3 tensors with weight decay 0.1 and lr times 0.5, "
                        "8 tensors with weight decay 0, 13 tensors with weight decay 0.1, "
                        "6 tensors with weight decay 0.1 and lr times 2\n"));
}

TEST_CASE("muon has memory of its own in the plan, on several ranks for a block and its results") {
  RunConfig config = tiny_config();
  CHECK_THAT(make_setup(config, 0, 1, {}).to_string(), !ContainsSubstring("muon"));
  config.optimizer.kind = OptimizerKind::kMuon;
  const Setup s = make_setup(config, 0, 1, {});
  // The largest matrices, in f64, have 20 * 27 elements and a square of 20 * 20.
  CHECK(s.plan.bytes(Space::kDevice, "optimizer.muon") >= (3 * 540 + 2 * 400) * sizeof(double));
  CHECK(s.plan.bytes(Space::kPinned, "optimizer.muon") >= 2 * 540 * sizeof(double));
  const Setup shared = make_setup(config, 0, 2, {});
  const Block& layer = shared.model->blocks[shared.model->block_of_layer(0)];
  const auto block = static_cast<std::size_t>(layer.padded_elements(2)) * sizeof(double);
  std::size_t matrices = 0;
  for (const Segment& segment : layer.segments) {
    if (!segment.decay) continue;
    matrices += static_cast<std::size_t>(segment.elements()) * sizeof(double);
  }
  CHECK(shared.plan.bytes(Space::kPinned, "optimizer.muon") >= block / 2);
  CHECK(shared.plan.bytes(Space::kDevice, "optimizer.muon") >= block + matrices);
}

TEST_CASE("codes of products take what the widest linears need, and nothing without them") {
  RunConfig config = on_arrival_config(3);
  config.schedule.rows = 4;  // 28 tokens; C 20, F 27, queries 24, queries, keys and values 48
  const auto bytes = [&](const std::string& name) {
    return make_setup(config, 0, 1, {}).plan.bytes(Space::kDevice, "scratch.fp8_" + name);
  };
  const auto sum = [](std::initializer_list<std::size_t> tensors) {
    std::size_t all = 0;
    for (const std::size_t tensor : tensors) all += round_up(tensor, Arena::kAlignment);
    return all;
  };
  const std::vector<std::string> names{
      "weights",          "weights_scale", "transposed",      "rows",       "rows_scale",
      "transposed_scale", "x_columns",     "x_columns_scale", "dy_columns", "dy_columns_scale"};
  const std::size_t plain = make_setup(config, 0, 1, {}).device_bytes();
  for (const std::string& name : names) CHECK(bytes(name) == 0);
  config.run.products = Products::kFp8;
  const std::size_t weights = sum({48 * 20, 20 * 24, 54 * 20, 20 * 27});
  CHECK(bytes("weights") == weights);
  CHECK(bytes("transposed") == weights);
  CHECK(bytes("weights_scale") == sum({4 * 48, 4 * 20, 4 * 54, 4 * 20}));
  CHECK(bytes("transposed_scale") == sum({4 * 20, 4 * 24, 4 * 20, 4 * 27}));
  CHECK(bytes("rows") == sum({28 * 54}));
  CHECK(bytes("rows_scale") == sum({4 * 28}));
  CHECK(bytes("x_columns") == 0);
  config.run.products = Products::kFp8All;
  CHECK(bytes("x_columns") == sum({27 * 28}));
  CHECK(bytes("dy_columns") == sum({54 * 28}));
  CHECK(bytes("dy_columns_scale") == sum({4 * 54}));
  std::size_t listed = 0;
  for (const std::string& name : names) listed += bytes(name);
  const std::size_t counts = sum({3 * 4 * 6 * 4 * 8});  // by layer, linear and operand, f64
  CHECK(make_setup(config, 0, 1, {}).device_bytes() == plain + listed + counts);
  config.run.fp8_metrics_every = 0;
  CHECK(make_setup(config, 0, 1, {}).device_bytes() == plain + listed);
  CHECK_THAT(make_setup(config, 0, 1, {}).to_string(),
             ContainsSubstring("products in e4m3: those of 12 of 12 linears\n"));
  config.run.products_bf16 = {"gate_up", "layers.0"};
  CHECK_THAT(make_setup(config, 0, 1, {}).to_string(),
             ContainsSubstring("products in e4m3: those of 6 of 12 linears\n"));
  CHECK(bytes("weights") == sum({48 * 20, 20 * 24, 20 * 27}));
  CHECK(bytes("rows") == sum({28 * 48}));
  CHECK(bytes("dy_columns") == sum({48 * 28}));
  config.run.products_bf16 = {"layers.0", "layers.1", "layers.2"};
  CHECK(make_setup(config, 0, 1, {}).device_bytes() == plain);
}

TEST_CASE("a third of the blocks is deferred, or what a gradient ring has slots for") {
  RunConfig config = on_arrival_config(16);
  const auto deferred = [&] { return make_setup(config, 0, 1, {}).choices.deferred_units; };
  CHECK(deferred() == 6);
  for (const std::int64_t slots : {2, 3, 7, 8, 9, 100}) {
    config.optimizer.gradient_ring = slots;
    CHECK(deferred() == std::min<std::int64_t>(6, slots - 2));
  }
  config.optimizer.deferred_units = 1;
  CHECK(deferred() == 1);
}

TEST_CASE("deferred blocks are spread evenly, each in the middle of its share") {
  const auto chosen = [](int deferred, int blocks) {
    std::string text;
    for (int b = 0; b < blocks; ++b) text += is_deferred(b, deferred, blocks) ? 'x' : '.';
    return text;
  };
  CHECK(chosen(0, 9) == ".........");
  CHECK(chosen(1, 9) == "....x....");
  CHECK(chosen(2, 9) == "..x...x..");
  CHECK(chosen(3, 9) == ".x..x..x.");
  CHECK(chosen(6, 9) == "x.xx.xx.x");
  CHECK(chosen(9, 9) == "xxxxxxxxx");
  CHECK(chosen(100, 9) == chosen(9, 9));
  CHECK(chosen(3, 6) == ".x.x.x");
}

TEST_CASE("a gradient ring has at most a slot for each layer") {
  RunConfig config = on_arrival_config(3);
  config.optimizer.gradient_ring = 100;
  CHECK(make_setup(config, 0, 1, {}).state.gradient_ring == 3);
}

TEST_CASE("half of the units are speculated unless the config says how many wait") {
  RunConfig config = speculative_config(7);
  const auto blocks = [&] { return speculated(make_setup(config, 0, 1, {})); };
  CHECK(blocks() == std::vector<int>{8, 6, 4, 2, 0});
  config.optimizer.deferred_units = 7;
  CHECK(blocks() == std::vector<int>{6, 2});
  config.optimizer.deferred_units = 0;
  config.schedule.resident_units = 6;
  CHECK(blocks() == std::vector<int>{8, 7, 6});
  CHECK_THAT(make_setup(config, 0, 1, {}).to_string(),
             ContainsSubstring("6 of 9 units resident, 3 units updated speculatively"));
}

TEST_CASE("an undo log takes what the state of its units takes beside gradients") {
  for (const auto& [dtype, moment, bytes] :  // of 64 parameters
       {std::tuple{DType::kBF16, DType::kF32, 12 * 64},
        std::tuple{DType::kBF16, DType::kBF16, 8 * 64},
        std::tuple{DType::kBF16, DType::kU8, 6 * 64 + 2},
        std::tuple{DType::kF32, DType::kF32, 12 * 64}}) {
    RunConfig config = speculative_config(4);
    config.run.dtype = dtype;
    config.optimizer.moment_dtype = moment;
    for (const int ranks : {1, 2}) {
      const Setup s = make_setup(config, 0, ranks, {});
      std::size_t expected = 0;
      for (const int b : {0, 2, 4}) {
        const Block& block = s.model->blocks[BlockId(b)];
        expected +=
            round_up(static_cast<std::size_t>(block.shard_elements(ranks) / 64 * bytes), 256);
      }
      CHECK(s.plan.bytes(Space::kPageable, "optimizer.undo_log") == expected);
      CHECK(resolve(config, s).optimizer.undo_log->bytes == expected);
    }
  }
}

TEST_CASE("an undo log has as many units as its bytes hold, the last first, and may have none") {
  RunConfig config = speculative_config(4);
  config.optimizer.deferred_units = 0;
  const Setup all = make_setup(config, 0, 1, {});
  CHECK(all.speculation_warning().empty());
  const auto with = [&](std::size_t bytes) {
    config.optimizer.undo_log = ByteSize{bytes};
    return make_setup(config, 0, 1, {});
  };
  const std::size_t layer = log_bytes(all, BlockId(1));
  const std::size_t head = log_bytes(all, BlockId(5));
  REQUIRE(head < layer);
  CHECK(speculated(with(head + 2 * layer)) == std::vector<int>{5, 4, 3});
  CHECK(speculated(with(head + 2 * layer - 1)) == std::vector<int>{5, 4, 0});
  const std::size_t least = log_bytes(all, BlockId(0));
  REQUIRE(least <= head);
  const Setup none = with(least - 1);
  CHECK(speculated(none).empty());
  CHECK(none.plan.bytes(Space::kPageable, "optimizer.undo_log") == 0);
  CHECK_THAT(none.to_string(), ContainsSubstring("0 units updated speculatively"));
  CHECK_THAT(none.to_string(), ContainsSubstring("raise optimizer.undo_log"));
  config.optimizer.timing = UpdateTiming::kBeforeUse;
  config.optimizer.undo_log = std::nullopt;
  CHECK(make_setup(config, 0, 1, {}).host_bytes() == none.host_bytes());
}

TEST_CASE("an undo log that nobody named takes what the host limit leaves, one that is named all") {
  RunConfig config = speculative_config(4);
  config.optimizer.deferred_units = 0;
  const Setup all = make_setup(config, 0, 1, {});
  const std::size_t layer = log_bytes(all, BlockId(1));
  for (const int missing : {0, 1, 2}) {
    const auto least = all.host_bytes() - static_cast<std::size_t>(missing) * layer;
    const std::size_t limit = least + least / 15 + 1;  // a sixteenth stays free
    const Setup s = make_setup(config, 0, 1, {.host_limit = limit});
    // The embedding comes last and is missed first, the layers above it next.
    CHECK(speculated(s).size() == static_cast<std::size_t>(6 - missing - (missing > 0)));
    CHECK(s.host_bytes() <= limit - limit / 16);
  }
  config.optimizer.undo_log = resolve(config, all).optimizer.undo_log;
  CHECK_THROWS_WITH(make_setup(config, 0, 1, {.host_limit = all.host_bytes() - 1}),
                    ContainsSubstring("optimizer.undo_log"));
}

TEST_CASE("a plan says 6.03 to 16 bytes per parameter, by dtypes and gradient ring") {
  struct Case {
    DType gradient, moment;
    std::optional<std::int64_t> ring;
    double bytes;
  };
  for (const Case& c :
       {Case{DType::kF32, DType::kF32, std::nullopt, 16},
        Case{DType::kBF16, DType::kF32, std::nullopt, 14},
        Case{DType::kBF16, DType::kBF16, std::nullopt, 10}, Case{DType::kBF16, DType::kF32, 2, 12},
        Case{DType::kBF16, DType::kBF16, 2, 8},
        Case{DType::kBF16, DType::kU8, std::nullopt, 8.03125},
        Case{DType::kBF16, DType::kU8, 2, 6.03125}}) {
    RunConfig config = on_arrival_config(120);
    config.optimizer.gradient_dtype = c.gradient;
    config.optimizer.moment_dtype = c.moment;
    config.optimizer.gradient_ring = c.ring;
    const Setup setup = make_setup(config, 0, 1, {});
    const PerBlock<Block>& blocks = setup.model->blocks;
    double elements = 0;
    for (const Block& block : blocks) elements += static_cast<double>(block.shard_elements(1));
    double bytes = c.bytes * elements;
    if (c.ring) {  // what has a place beside the ring's slots: bf16
      const auto homes =
          blocks[BlockId(0)].shard_elements(1) + blocks[blocks.last()].shard_elements(1);
      bytes += 2 * static_cast<double>(homes + *c.ring * blocks[BlockId(1)].shard_elements(1));
    }
    const auto parameters = static_cast<double>(config.model.llama.parameter_count());
    const int arrays = c.moment == DType::kU8 ? 6 : 5;  // of a block
    const double aligned = arrays * 256 * static_cast<double>(blocks.size());
    const double printed = printed_bytes_per_parameter(setup);
    INFO(c.bytes << " bytes, printed " << printed);
    CHECK(printed > bytes / parameters - 0.01);  // two digits are printed
    CHECK(printed <= (bytes + aligned) / parameters);
  }
}

TEST_CASE("what is queued for host lanes and the scratch of batches is planned") {
  RunConfig config = tiny_config();
  config.schedule.rows = 2;
  config.schedule.sub_batches = 3;
  config.data.document_mask = true;
  const std::int64_t tokens = 2 * config.data.sequence_length;
  const std::int64_t ends = config.data.sequence_length + 1;
  const MemoryPlan gpu = make_setup(config, 0, 1, {}).plan;
  CHECK(gpu.heap("queues") == 3 * kMiB);  // the host lane's and the save lane's
  CHECK(gpu.heap("batch.scratch") >= static_cast<std::size_t>(3 * (4 * tokens + 8 * ends)));
  const MemoryPlan cpu = make_setup(config, 0, 1, {.device_is_host = true}).plan;
  CHECK(2 * cpu.heap("queues") == 21 * kMiB);
  CHECK(cpu.host_total() == cpu.total(Space::kPinned) + cpu.total(Space::kPageable) + cpu.heap());
  config.data.validation = "another loader";
  CHECK(make_setup(config, 0, 1, {}).plan.heap("batch.scratch") == 2 * gpu.heap("batch.scratch"));
}

}  // namespace strata::test
