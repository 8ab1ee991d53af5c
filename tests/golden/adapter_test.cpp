// Tests training of adapters against PEFT on transformers in f64: losses, norms, the gradients of
// every A and B, and their values after five clipped AdamW steps; also over packed weights, against
// PEFT over those of bitsandbytes and PyTorch, and over files that bitsandbytes packed.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "golden/golden_file.h"
#include "golden/golden_run.h"
#include "strata/base/thread_pool.h"
#include "strata/model/adapters.h"
#include "strata/model/config.h"
#include "strata/model/families.h"
#include "strata/model/layout.h"
#include "strata/model/merged_weights.h"
#include "strata/model/peft_config.h"
#include "strata/model/safetensors.h"
#include "strata/train/session.h"
#include "support/catch.h"
#include "support/without_gpu.h"

namespace strata::test {
namespace {

/// A case of scripts/golden/adapters.py, or of bnb_folders.py, in strata's words.
struct AdapterCase {
  std::string name;
  std::string model;
  AdapterConfig adapter;
};

std::vector<AdapterCase> adapter_cases() {
  return {{"lora_mha", "mha", {.rank = 3, .alpha = 6}},
          {"lora_qwen3",
           "qwen3",
           {.rank = 4,
            .alpha = 8,
            .rslora = true,
            .targets = {"q_proj", "v_proj", "down_proj"},
            .rank_pattern = {"down_proj=5"},
            .alpha_pattern = {"v_proj=3"}}},
          {"lora_gemma3", "gemma3", {.rank = 2, .alpha = 5, .layers = {0, 2}}},
          {"lora_granite",
           "granite",
           {.rank = 8, .alpha = 4, .targets = {"k_proj", "o_proj", "up_proj"}}},
          {"lora_nf4", "mha", {.rank = 2, .alpha = 4, .base_format = Form::kNf4}},
          {"lora_fp8", "mha", {.rank = 2, .alpha = 4, .base_format = Form::kFp8}},
          {"lora_int8", "mha", {.rank = 2, .alpha = 4, .base_format = Form::kInt8}},
          {"lora_whole_mha",
           "mha",
           {.rank = 2,
            .alpha = 8,
            .targets = {"q_proj"},
            .modules_to_save = {"embed_tokens", "lm_head", "norm"}}},
          {"lora_whole_qwen3",
           "qwen3",
           {.rank = 2, .alpha = 8, .targets = {"up_proj"}, .modules_to_save = {"lm_head"}}},
          {"lora_whole_olmo2",
           "olmo2",
           {.rank = 2,
            .alpha = 8,
            .targets = {"v_proj"},
            .modules_to_save = {"model.embed_tokens", "norm"}}},
          {"lora_whole_gemma3",  // embedding and head are one
           "gemma3",
           {.rank = 2,
            .alpha = 8,
            .targets = {"o_proj"},
            .modules_to_save = {"lm_head", "model.norm"}}},
          {"bnb_mha", "mha", {.rank = 2, .alpha = 4, .targets = {"q_proj", "v_proj", "down_proj"}}},
          {"bnb_mha",
           "mha",
           {.rank = 2,
            .alpha = 4,
            .targets = {"q_proj", "v_proj", "down_proj"},
            .base_format = Form::kNf4}},
          {"bnb_phi3", "phi3", {.rank = 2, .alpha = 4, .targets = {"qkv_proj", "down_proj"}}}};
}

/// Returns the batches of a case's model, and its weights unless the case has some of its own.
GoldenModel golden_of(const AdapterCase& c) {
  GoldenModel golden = load_golden_model(c.model);
  const std::filesystem::path own = golden_data() / c.name;
  if (std::filesystem::exists(own / "config.json")) golden.folder = own;
  return golden;
}

/// Returns the name that a tensor of PEFT has in a run, where those of modules that are trained
/// whole are the model's.
std::string run_name(const std::string& tensor) {
  constexpr std::string_view kPrefix = "base_model.model.";
  const bool whole = tensor.starts_with(kPrefix) && tensor.find(".lora_") == tensor.npos;
  return whole ? tensor.substr(kPrefix.size()) : tensor;
}

/// Trains a case, whose adapter is PEFT's, as the config says.
GoldenRun train_case(const AdapterCase& c, const GoldenModel& golden, RunConfig config, int ranks) {
  config.adapter = c.adapter;
  return train_golden(golden, config, ranks, [&](TrainingState& state) {
    ThreadPool pool(2);
    AdapterFiles files;
    files.emplace_back(golden_data() / c.name / kPeftWeightsName);
    state.load(SafetensorsDirectory(golden.folder), pool, nullptr, {.files = &files});
  });
}

void check_case(const GoldenFile& expected, const GoldenRun& run) {
  CHECK(relative_error(run.result.losses, expected.values("loss")) < 1e-12);
  CHECK(relative_error(run.result.norms, expected.values("grad_norm")) < 1e-12);
  std::size_t gradients = 0;
  for (const std::string& name : expected.tensors()) {
    INFO(name);
    const std::string tensor = run_name(name.substr(name.find('/') + 1));
    if (name.starts_with("grad/")) {
      ++gradients;
      CHECK(relative_error(run.first_gradients.at(tensor), expected.values(name)) < 1e-12);
    } else if (name.starts_with("final/")) {
      CHECK(relative_error(run.result.weights.at(tensor), expected.values(name)) < 1e-9);
    }
  }
  CHECK(gradients == run.first_gradients.size());
}

/// Sets the weights of a state on one rank, those that have an adapter with it.
void load_merged(const MergedWeights& weights, TrainingState& state) {
  ThreadPool pool(2);
  state.load(weights.files(), pool);
  for (const BlockId id : state.ids()) {
    const Block& block = state.layout().blocks[id];
    for (const SourceRun& run : source_runs(block, 0, block.elements, block.elements)) {
      std::vector<double> values(static_cast<std::size_t>(run.count));
      weights.read(run.source->name, run.source_begin, std::span(values));
      state.write(id, &BlockState::weight, run.block_begin, std::as_bytes(std::span(values)));
    }
  }
}

}  // namespace

TEST_CASE("losses, gradients and adapters after five steps are PEFT's, in f64") {
  for (const AdapterCase& c : adapter_cases()) {
    const GoldenModel golden = golden_of(c);
    const GoldenFile expected(golden_data() / c.name / "expected.safetensors");
    struct Mode {
      int ranks;
      std::int64_t passes, sub_batches, rows;
    };
    for (const Mode& mode :
         {Mode{1, 1, 1, 6}, Mode{1, 2, 3, 1}, Mode{2, 1, 3, 1}, Mode{3, 1, 1, 2}}) {
      INFO(c.name << ", " << mode.ranks << " ranks, " << mode.passes << " passes of "
                  << mode.sub_batches << " sub-batches");
      RunConfig config = golden_config(golden, DType::kF64);
      config.schedule.passes = mode.passes;
      config.schedule.sub_batches = mode.sub_batches;
      config.schedule.rows = mode.rows;
      check_case(expected, train_case(c, golden, config, mode.ranks));
    }
  }
}

TEST_CASE("a run that begins with a folder of PEFT goes on as PEFT does, in f64") {
  for (const AdapterCase& c : adapter_cases()) {
    INFO(c.name);
    const GoldenModel golden = golden_of(c);
    const GoldenFile expected(golden_data() / c.name / "expected.safetensors");
    for (const int ranks : {1, 2}) {
      RunConfig config = golden_config(golden, DType::kF64);
      config.schedule.sub_batches = golden.rows / ranks;
      config.adapter = c.adapter;
      config.adapter->path = (golden_data() / c.name).string();
      check_case(expected, train_golden(golden, config, ranks));
    }
  }
}

TEST_CASE("a run that begins with a folder of PEFT has its A and B, to the bit") {
  for (const AdapterCase& c : {adapter_cases().at(2), adapter_cases().at(7)}) {
    const GoldenModel golden = golden_of(c);
    const SafetensorsFile file(golden_data() / c.name / kPeftWeightsName);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      RunConfig config = golden_config(golden, dtype);
      config.adapter = c.adapter;
      config.adapter->path = (golden_data() / c.name).string();
      const std::unique_ptr<Ranks> ranks = make_self_ranks();
      Session session(config, *ranks);
      const auto weights = gather_weights(session.state(), *ranks);
      for (const std::string& name : file.tensors()) {
        INFO(name);
        std::vector<double> values(static_cast<std::size_t>(file.info(name).elements));
        file.read(name, 0, std::span(values));
        CHECK(weights.at(run_name(name)) == values);
      }
    }
  }
}

TEST_CASE("gradients of adapters are PEFT's whatever is kept, in f64") {
  const AdapterCase c = adapter_cases().at(2);
  const GoldenModel golden = golden_of(c);
  const GoldenFile expected(golden_data() / c.name / "expected.safetensors");
  for (const KeepLevel level : kKeepLevels) {
    INFO("level " << static_cast<int>(level));
    RunConfig config = golden_config(golden, DType::kF64);
    config.schedule.activations = level;
    check_case(expected, train_case(c, golden, config, 1));
  }
}

TEST_CASE("what is trained beside adapters is PEFT's wherever its state lives, in f64") {
  for (const AdapterCase& c : adapter_cases()) {
    if (c.adapter.modules_to_save.empty()) continue;
    const GoldenModel golden = golden_of(c);
    const GoldenFile expected(golden_data() / c.name / "expected.safetensors");
    for (const int resident : {0, 1, 2}) {
      for (const UpdateTiming timing : {UpdateTiming::kBeforeUse, UpdateTiming::kSpeculative}) {
        INFO(c.name << ", " << resident << " units resident, timing " << static_cast<int>(timing));
        RunConfig config = golden_config(golden, DType::kF64);
        config.schedule.sub_batches /= 2;
        config.schedule.passes = 2;
        config.schedule.resident_units = resident;
        config.optimizer.timing = timing;
        config.optimizer.interleave = 0.5;
        check_case(expected, train_case(c, golden, config, 1));
      }
    }
  }
}

TEST_CASE("on cuda what is trained beside adapters has PEFT's losses and gradients", "[cuda]") {
  if (without_gpu()) return;
  for (const AdapterCase& c : adapter_cases()) {
    if (c.adapter.modules_to_save.empty()) continue;
    INFO(c.name);
    const GoldenModel golden = golden_of(c);
    const GoldenFile expected(golden_data() / c.name / "expected.safetensors");
    RunConfig config = golden_config(golden, DType::kF32);
    config.run.backend = BackendChoice::kCuda;
    const GoldenRun run = train_case(c, golden, config, 1);
    CHECK(relative_error(run.result.losses, expected.values("loss")) < 1e-5);
    for (const auto& [tensor, gradient] : run.first_gradients) {
      INFO(tensor);
      const bool whole = tensor.find(".lora_") == tensor.npos;
      const std::string name = "grad/" + std::string(whole ? "base_model.model." : "") + tensor;
      CHECK(relative_error(gradient, expected.values(name)) < 1e-4);
    }
  }
}

TEST_CASE("training of adapters leaves the weights of the model as they are") {
  for (const AdapterCase& c : adapter_cases()) {
    if (c.adapter.base_format != Form::kPlain || c.name.starts_with("bnb_")) continue;  // rounded
    const GoldenModel golden = golden_of(c);
    const GoldenFile expected(golden_data() / c.name / "expected.safetensors");
    std::set<std::string> trained;
    for (const std::string& name : expected.tensors()) {
      trained.insert(run_name(name.substr(name.find('/') + 1)));
    }
    const GoldenRun run = train_case(c, golden, golden_config(golden, DType::kF64), 1);
    for (const auto& [name, values] : golden.initial) {
      INFO(c.name << ": " << name);
      if (!trained.contains(name)) CHECK(run.result.weights.at(name) == values);
    }
  }
}

TEST_CASE("configs of PEFT mean the adapters that they were made with") {
  for (const AdapterCase& c : adapter_cases()) {
    INFO(c.name);
    const AdapterConfig peft = read_peft_config(golden_data() / c.name / kPeftConfigName);
    CHECK(peft.dropout == 0);
    ModelSpec expected = spec_of(load_llama_config(golden_of(c).folder / "config.json"));
    ModelSpec found = expected;
    add_adapters(expected, c.adapter);
    add_adapters(found, peft);
    for (int layer = 0; layer < expected.layers(); ++layer) {
      CHECK(std::ranges::equal(found.layer(layer).linears, expected.layer(layer).linears, {},
                               &Linear::adapters, &Linear::adapters));
    }
    CHECK(found.whole == expected.whole);
  }
}

TEST_CASE("weights with PEFT's adapters added have PEFT's loss, in f64") {
  for (const AdapterCase& c : adapter_cases()) {
    if (c.adapter.base_format != Form::kPlain) continue;  // what is added is not rounded
    INFO(c.name);
    const GoldenModel golden = golden_of(c);
    const GoldenFile expected(golden_data() / c.name / "expected.safetensors");
    ModelSpec spec = spec_of(load_llama_config(golden.folder / "config.json"));
    add_adapters(spec, read_peft_config(golden_data() / c.name / kPeftConfigName));
    AdapterFiles files;
    files.emplace_back(golden_data() / c.name / kPeftWeightsName);
    MergedWeights weights{SafetensorsDirectory(golden.folder)};
    weights.add(files, spec);
    const GoldenRun run = train_golden(golden, golden_config(golden, DType::kF64), 1,
                                       [&](TrainingState& state) { load_merged(weights, state); });
    CHECK(run.result.losses.front() == Approx(expected.values("loss").front()).epsilon(1e-12));
  }
}

}  // namespace strata::test
