// Tests generation on a GPU: what is drawn for a request, and what a sequence scores, are the same
// bytes alone and in any batch, wherever weights, keys and values live.

#include <cmath>
#include <utility>
#include <vector>

#include "generation_layouts.h"
#include "support/catch.h"
#include "support/tiny_generation.h"
#include "support/without_gpu.h"

namespace strata::test {
namespace {

/// A model whose heads have the width that tensor cores take, with several of them for each kv
/// head, and with positions for keys of several parts.
LlamaConfig gpu_model(std::int64_t head_size) {
  LlamaConfig model = long_model();
  model.hidden_size = 96;
  model.intermediate_size = 136;
  model.head_dim = head_size;
  model.num_hidden_layers = 3;
  model.max_position_embeddings = 700;
  return model;
}

/// The same with windows that most tokens leave, in all layers but one.
LlamaConfig windowed_gpu_model(std::int64_t head_size) {
  LlamaConfig model = gpu_model(head_size);
  model.model_type = ModelType::kQwen2;
  model.sliding_window = 90;
  model.layer_types = {kWindowLayer, kFullLayer, kWindowLayer};
  return model;
}

/// All places, and more sequences in larger cells.
std::vector<GenerationNeeds> gpu_layouts(DType compute) {
  const GenerationNeeds first{.compute = compute,
                              .sequences = 7,
                              .context = 640,
                              .cell_tokens = 200,
                              .sweep_tokens = 450,
                              .penalties = true,
                              .window_step = AttentionForward::kTileKeys};
  std::vector<GenerationNeeds> all = in_all_places(first);
  all.push_back(first);
  all.back().sequences = 24;
  all.back().cell_tokens = 1000;
  all.back().sweep_tokens = 2000;
  return all;
}

/// Prompts of one token, of one cell and of several, drawn in all ways.
std::vector<GenerateRequest> requests() {
  std::vector<GenerateRequest> all;
  for (const std::int64_t length : {1, 7, 33, 199, 250, 410, 560, 3, 64}) {
    GenerateRequest request{.prompt = random_prompt(all.size(), length),
                            .sampling = {.temperature = 0.9, .seed = 5},
                            .most_tokens = 12 + length % 30};
    all.push_back(request);
  }
  all[1].sampling = {.temperature = 0};
  all[2].sampling.top_k = 7;
  all[3].sampling.top_p = 0.7;
  all[4].sampling.min_p = 0.05;
  all[5].sampling.repeat_penalty = 1.3;
  all[6].sampling = {.temperature = 0, .repeat_penalty = 1.2};
  return all;
}

}  // namespace

TEST_CASE("a request on a gpu has the same bytes alone and in any batch, wherever things live",
          "[cuda][slow]") {
  if (without_gpu()) return;
  const std::vector<GenerateRequest> all = requests();
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const LlamaConfig& model : {gpu_model(64), gpu_model(128), windowed_gpu_model(128)}) {
      GenerationNeeds one = gpu_layouts(dtype)[0];
      one.sequences = 1;
      one.window_step = one.context;  // all is kept
      std::vector<Continuation> alone;
      {
        TinyGeneration generation({.model = model, .needs = one, .backend = BackendKind::kCuda});
        // A sequence at a time: the next one begins when it has ended.
        alone = generation.run(all);
      }
      REQUIRE(alone.size() == all.size());
      for (std::size_t i = 0; i < all.size(); ++i) {
        REQUIRE(std::ssize(alone[i].ids) == all[i].most_tokens);
      }
      CHECK(alone[0].ids != alone[7].ids);
      for (const GenerationNeeds& layout : gpu_layouts(dtype)) {
        // Algorithms of the library for many rows have the bits of the kernel for few.
        for (const bool prepared : {false, true}) {
          TinyGeneration generation(
              {.model = model, .needs = layout, .backend = BackendKind::kCuda});
          if (prepared) {
            LlamaForward::prepare(generation.setup().spec, generation.setup().sizes,
                                  *generation.backend().kernels);
          }
          INFO(name_of(dtype) << ", head size " << model.head_size() << ", "
                              << generation.setup().to_string() << ", prepared " << prepared);
          CHECK(generation.run(all) == alone);
        }
      }
    }
  }
}

TEST_CASE("tokens beside a gpu that attend on the host have the same bytes in any batch",
          "[cuda]") {
  if (without_gpu()) return;
  std::vector<GenerateRequest> all = requests();
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const int fetched_layers : {0, 1}) {
      const LlamaConfig model = windowed_gpu_model(128);
      GenerationNeeds one = gpu_layouts(dtype)[0];
      one.kv_slots = 2;
      one.host_attention = true;
      one.fetched_layers = fetched_layers;
      std::vector<GenerationNeeds> layouts(3, one);
      one.sequences = 1;
      one.window_step = one.context;
      layouts[0].groups = 2;
      layouts[1].groups = 4;
      layouts[1].resident_units = 0;
      layouts[2].sequences = 24;
      layouts[2].cell_tokens = 1000;
      layouts[2].sweep_tokens = 2000;
      const auto run = [&](const GenerationNeeds& needed) {
        TinyGeneration generation({.model = model, .needs = needed, .backend = BackendKind::kCuda});
        INFO(name_of(dtype) << ", " << generation.setup().to_string());
        CHECK(generation.setup().kv.fetched_layers() == fetched_layers);
        return generation.run(all);
      };
      const std::vector<Continuation> alone = run(one);
      for (const GenerationNeeds& layout : layouts) CHECK(run(layout) == alone);
    }
  }
  // In f32 the likeliest tokens are those of attention on the device.
  for (GenerateRequest& request : all) request.sampling = {.temperature = 0};
  std::vector<std::vector<Continuation>> results;
  for (const bool host_attention : {false, true}) {
    GenerationNeeds layout = gpu_layouts(DType::kF32)[0];
    layout.kv_slots = 3;
    layout.host_attention = host_attention;
    TinyGeneration generation(
        {.model = gpu_model(64), .needs = layout, .backend = BackendKind::kCuda});
    CHECK(generation.setup().kv.attended_at_home() == host_attention);
    results.push_back(generation.run(all));
  }
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(results[0][i].ids == results[1][i].ids);
}

TEST_CASE("with int8 keys a request on a gpu has the same bytes in any batch, wherever things live",
          "[cuda][slow]") {
  if (without_gpu()) return;
  const std::vector<GenerateRequest> all = requests();
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const LlamaConfig& model : {gpu_model(64), windowed_gpu_model(128), gpu_model(32)}) {
      std::vector<GenerationNeeds> layouts = gpu_layouts(dtype);
      for (GenerationNeeds& layout : layouts) layout.kv_dtype = KvDType::kInt8;
      GenerationNeeds one = layouts[0];
      one.sequences = 1;
      one.window_step = one.context;
      const auto run = [&](const GenerationNeeds& needed) {
        TinyGeneration generation({.model = model, .needs = needed, .backend = BackendKind::kCuda});
        INFO(name_of(dtype) << ", head size " << model.head_size() << ", "
                            << generation.setup().to_string());
        return generation.run(all);
      };
      const std::vector<Continuation> alone = run(one);
      for (const GenerationNeeds& layout : layouts) CHECK(run(layout) == alone);
      GenerationNeeds exact = one;
      exact.kv_dtype = KvDType::kAuto;
      CHECK(run(exact) != alone);
      // Attended to on the host: other roundings, but the same in any batch.
      GenerationNeeds attended = layouts[0];
      attended.kv_slots = 2;
      attended.host_attention = true;
      GenerationNeeds attended_alone = attended;
      attended_alone.sequences = 1;
      attended.groups = 4;
      CHECK(run(attended) == run(attended_alone));
    }
  }
}

TEST_CASE("a gpu with int8 keys scores as the cpu does", "[cuda]") {
  if (without_gpu()) return;
  std::vector<ScoreRequest> all;
  for (const std::int64_t length : {9, 300, 640}) {
    all.push_back({.ids = random_prompt(all.size(), length)});
  }
  GenerationNeeds layout = scoring(gpu_layouts(DType::kF32)[0]);
  const auto scores = [&](BackendKind backend, KvDType dtype) {
    layout.kv_dtype = dtype;
    TinyGeneration generation({.model = gpu_model(64), .needs = layout, .backend = backend});
    std::vector<double> flat;
    for (const std::vector<double>& of : score(generation, all))
      flat.insert(flat.end(), of.begin(), of.end());
    return flat;
  };
  const auto rms = [](const std::vector<double>& a, const std::vector<double>& b) {
    REQUIRE(a.size() == b.size());
    double squares = 0;
    for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
    return std::sqrt(squares / static_cast<double>(a.size()));
  };
  const std::vector<double> cpu = scores(BackendKind::kCpu, KvDType::kInt8);
  // What one of them rounds to the level beside the other's, by the roundings of f32, moves what
  // comes after it by part of what all of int8's roundings do.
  const double error = rms(cpu, scores(BackendKind::kCpu, KvDType::kAuto));
  const double apart = rms(cpu, scores(BackendKind::kCuda, KvDType::kInt8));
  INFO("int8 moves scores by " << error << ", the backends are " << apart << " apart");
  CHECK(apart < error / 4);
  CHECK(rms(scores(BackendKind::kCuda, KvDType::kAuto), scores(BackendKind::kCpu, KvDType::kAuto)) <
        1e-4);
}

TEST_CASE("a sequence on a gpu has the same scores alone and in any batch", "[cuda]") {
  if (without_gpu()) return;
  std::vector<ScoreRequest> all;
  for (const std::int64_t length : {2, 9, 300, 640, 77, 201}) {
    all.push_back({.ids = random_prompt(all.size(), length)});
  }
  for (const auto& [dtype, products] :
       {std::pair(DType::kBF16, Products::kPlain), std::pair(DType::kF32, Products::kPlain),
        std::pair(DType::kBF16, Products::kFp8)}) {
    Logprobs alone;
    for (const GenerationNeeds& needed : gpu_layouts(dtype)) {
      GenerationNeeds layout = scoring(needed);
      layout.products = products;
      if (alone.empty()) {
        GenerationNeeds one = layout;
        one.sequences = 1;
        TinyGeneration generation(
            {.model = gpu_model(64), .needs = one, .backend = BackendKind::kCuda});
        alone = score(generation, all);
        REQUIRE(alone[3].size() == 639);
      }
      TinyGeneration generation(
          {.model = gpu_model(64), .needs = layout, .backend = BackendKind::kCuda});
      INFO(name_of(dtype) << ", " << generation.setup().to_string());
      CHECK(score(generation, all) == alone);
    }
  }
}

TEST_CASE("a gpu draws the tokens that the cpu draws", "[cuda]") {
  if (without_gpu()) return;
  // In f32 the two differ by rounding alone, which the likeliest token seldom notices.
  GenerationNeeds layout = gpu_layouts(DType::kF32)[0];
  std::vector<GenerateRequest> all = requests();
  for (GenerateRequest& request : all) {
    request.sampling = {.temperature = 0};
    request.most_tokens = 8;
  }
  std::vector<std::vector<Continuation>> results;
  for (const BackendKind backend : {BackendKind::kCpu, BackendKind::kCuda}) {
    TinyGeneration generation({.model = gpu_model(64), .needs = layout, .backend = backend});
    results.push_back(generation.run(all));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(results[0][i].ids == results[1][i].ids);
    for (std::size_t t = 0; t < results[0][i].logprobs.size(); ++t) {
      CHECK(results[1][i].logprobs[t] == Approx(results[0][i].logprobs[t]).margin(1e-4));
    }
  }
}

}  // namespace strata::test
