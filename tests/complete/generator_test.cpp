// Tests that a continuation depends on its request alone: the same bits as training's forward, in
// any batch, wherever weights, keys and values live. Also that sweeps have no race, and that races
// are found when waits are left out.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "complete/generation_layouts.h"
#include "strata/base/convert.h"
#include "strata/model/llama.h"
#include "support/catch.h"
#include "support/tiny_generation.h"

namespace strata::test {
namespace {

/// Prompts of many lengths, each continued in another way.
std::vector<GenerateRequest> mixed_requests() {
  std::vector<GenerateRequest> requests;
  for (std::int64_t i = 0; i < 9; ++i) {
    GenerateRequest request{.prompt = random_prompt(static_cast<std::uint64_t>(i), 1 + 5 * i % 23),
                            .sampling = {},
                            .most_tokens = 3 + 7 * i % 11,
                            .sample = i % 2};
    request.sampling.temperature = i % 3 == 0 ? 0 : 1;
    request.sampling.top_k = i % 4 == 1 ? 5 : 0;
    request.sampling.top_p = i % 4 == 2 ? 0.8 : 1;
    request.sampling.repeat_penalty = i % 5 == 4 ? 1.3 : 1;
    request.sampling.seed = static_cast<std::uint64_t>(i);
    requests.push_back(std::move(request));
  }
  return requests;
}

/// Adds those whose tokens attend on the host.
std::vector<GenerationNeeds> with_host_attention(std::vector<GenerationNeeds> all) {
  const auto more = attended_on_host(all.front());
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// What was submitted in a sweep for each unit, as numbers of records.
struct AskedInSweep {
  std::map<int, std::size_t> attends;  ///< the first time that the host was to attend
  std::map<int, std::size_t> fetches;  ///< the last of the keys that were fetched
};

std::vector<AskedInSweep> asked_in_sweeps(const std::vector<TraceRecord>& records) {
  std::vector<AskedInSweep> sweeps;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Submission& what = records[i].what;
    if (what.name == "embedding_forward" && what.tag.unit == 0) sweeps.emplace_back();
    if (sweeps.empty() || what.tag.unit < 1) continue;
    if (records[i].lane == Lane::kHost && what.name == "attention_forward") {
      sweeps.back().attends.try_emplace(what.tag.unit, i);
    }
    if (records[i].lane == Lane::kActivationsIn) sweeps.back().fetches[what.tag.unit] = i;
  }
  return sweeps;
}

/// Each request in a generation of its own, whose layers keep all keys, also those with a window.
std::vector<Continuation> one_by_one(const std::vector<GenerateRequest>& requests,
                                     const GenerationNeeds& needs,
                                     const LlamaConfig& model = long_model()) {
  std::vector<Continuation> all;
  for (const GenerateRequest& request : requests) {
    GenerationNeeds alone = needs;
    alone.sequences = 1;
    alone.window_step = needs.context;
    TinyGeneration generation({.model = model, .needs = alone});
    REQUIRE(generation.setup().kv.windowed.empty());
    all.push_back(generation.run({request}).front());
  }
  return all;
}

/// Returns the logits [N, V] of training's forward for one row of tokens.
std::vector<double> training_logits(TinyGeneration& generation,
                                    const std::vector<std::int32_t>& tokens) {
  const ModelSpec& spec = generation.setup().spec;
  const DType x = generation.setup().sizes.compute;
  Backend& backend = generation.backend();
  const std::int64_t n = std::ssize(tokens);
  const LlamaSizes sizes{.compute = x, .row_tokens = n, .cell_tokens = n, .head_chunk = n};
  MemoryPlan plan;
  const Llama::Memory memory(spec, sizes, plan);
  const Shape rows{n, spec.width};
  Arena arena(*backend.device, Space::kDevice, plan.total(Space::kDevice) + 17 * (64 << 10),
              "training");
  Arena pinned(*backend.device, Space::kPinned, plan.total(Space::kPinned), "staging");
  Arena pageable(*backend.device, Space::kPageable, 0, "none");
  Arenas arenas(arena, pinned, pageable);
  Llama llama(spec, sizes, *backend.kernels, arenas);
  std::vector<std::int32_t> positions(tokens.size());
  std::iota(positions.begin(), positions.end(), 0);
  const auto ints = [&](const std::vector<std::int32_t>& values) {
    const TensorView view = arena.allocate_tensor("ints", DType::kI32, {n});
    std::ranges::copy(values, view.as<std::int32_t>());
    return view;
  };
  CellBatch batch;
  batch.ids = ints(tokens);
  batch.targets = ints(tokens);
  batch.positions = ints(positions);
  batch.segments.uniform_length = n;
  batch.segments.self_attention = true;
  std::vector<TensorView> boundaries{arena.allocate_tensor("x", x, rows),
                                     arena.allocate_tensor("y", x, rows)};
  const TensorView loss = arena.allocate_tensor("loss", accumulator_of(x), {n});

  TrainingState& state = generation.engine().state();
  Stream& compute = backend.device->stream(Lane::kCompute);
  const auto views = [&](UnitId id) {
    std::vector<std::byte*> blocks;
    for (const BlockId b : state.layout().units[id].blocks) {
      blocks.push_back(static_cast<std::byte*>(state.block(b).weight.data));
    }
    return unit_views<ConstTensorView>(state.layout(), state.layout().units[id], blocks, x);
  };
  const ModelLayout& layout = state.layout();
  llama.embedding_forward(compute, views(layout.embedding()).embedding, batch, boundaries[0], {});
  for (int layer = 0; layer < layout.layers(); ++layer) {
    llama.layer_forward(compute, layer, views(layout.unit_of_layer(layer)).layer, batch,
                        boundaries[0], {}, boundaries[1], {});
    std::swap(boundaries[0], boundaries[1]);
  }
  llama.head_forward(compute, views(layout.head()).head, batch, boundaries[0], loss, {});
  backend.device->synchronize();
  std::vector<double> all;
  for (std::int64_t row = 0; row < n; ++row) {
    const auto one = load_as_double(llama.last_logits().slice_rows(row, 1));
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

}  // namespace

TEST_CASE("decoding through the cache has the bits of training's forward") {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
    for (LlamaConfig model : {long_model(), windowed_model()}) {
      model.tie_word_embeddings = !model.sliding_window;
      GenerationNeeds one = needs(dtype);
      one.sequences = 1;
      TinyGeneration generation({.model = model, .needs = one});
      // All logits of the sequence, one token after the other.
      std::vector<double> decoded;
      std::vector<std::int32_t> tokens = random_prompt(1, 13);
      GenerateRequest request{.prompt = tokens, .sampling = {}, .most_tokens = 20, .sample = 0};
      const Continuation continuation =
          generation
              .run({request},
                   [&](const DrawnToken& token) {
                     const std::vector<double> logits = generation.last_logits(1);
                     decoded.insert(decoded.end(), logits.begin(), logits.end());
                     tokens.push_back(token.id);
                     return true;
                   })
              .front();
      REQUIRE(continuation.ids.size() == 20);
      tokens.pop_back();
      const std::vector<double> trained = training_logits(generation, tokens);
      const auto from = static_cast<std::ptrdiff_t>(12 * model.vocab_size);
      CHECK(std::vector<double>(trained.begin() + from, trained.end()) == decoded);
      CHECK(*std::ranges::max_element(decoded) > 0);
    }
  }
}

TEST_CASE("a request gives the same tokens alone and in any batch, wherever things live") {
  const std::vector<GenerateRequest> requests = mixed_requests();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    // Windows in the one that is quicker.
    const LlamaConfig model = dtype == DType::kF32 ? windowed_model() : long_model();
    const std::vector<Continuation> alone = one_by_one(requests, needs(dtype), model);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      REQUIRE(std::ssize(alone[i].ids) == requests[i].most_tokens);
    }
    for (const GenerationNeeds& layout : with_host_attention(layouts(dtype))) {
      for (const Execution execution : {Execution::kThreads, Execution::kShuffled}) {
        TinyGeneration generation({.model = model, .needs = layout, .execution = execution});
        INFO(generation.setup().to_string());
        CHECK(generation.run(requests) == alone);
      }
    }
    std::vector<GenerateRequest> turned(requests.rbegin(), requests.rend());
    TinyGeneration generation({.model = model, .needs = needs(dtype)});
    std::vector<Continuation> other = generation.run(turned);
    std::ranges::reverse(other);
    CHECK(other == alone);
  }
}

TEST_CASE("with int8 keys a request gives the same tokens in any batch, wherever things live") {
  const std::vector<GenerateRequest> requests = mixed_requests();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const LlamaConfig model = dtype == DType::kF32 ? long_model() : windowed_model();
    const std::vector<Continuation> alone =
        one_by_one(requests, needs(dtype, KvDType::kInt8), model);
    CHECK(alone != one_by_one(requests, needs(dtype), model));
    for (const GenerationNeeds& layout : with_host_attention(layouts(dtype, KvDType::kInt8))) {
      TinyGeneration generation(
          {.model = model, .needs = layout, .execution = Execution::kShuffled});
      INFO(generation.setup().to_string());
      CHECK(generation.run(requests) == alone);
    }
  }
}

TEST_CASE("decoding over int8 keys has training's logits to within what is rounded") {
  GenerationNeeds one = needs(DType::kF64, KvDType::kInt8);
  one.sequences = 1;
  TinyGeneration generation({.model = long_model(), .needs = one});
  std::vector<double> decoded;
  std::vector<std::int32_t> tokens = random_prompt(1, 13);
  GenerateRequest request{.prompt = tokens, .sampling = {}, .most_tokens = 20, .sample = 0};
  (void)generation.run({request}, [&](const DrawnToken& token) {
    const std::vector<double> logits = generation.last_logits(1);
    decoded.insert(decoded.end(), logits.begin(), logits.end());
    tokens.push_back(token.id);
    return true;
  });
  tokens.pop_back();
  const std::vector<double> all = training_logits(generation, tokens);
  const auto from = static_cast<std::ptrdiff_t>(12 * generation.setup().spec.vocabulary);
  const std::vector<double> trained(all.begin() + from, all.end());
  REQUIRE(trained.size() == decoded.size());
  double error = 0, size = 0;
  for (std::size_t i = 0; i < trained.size(); ++i) {
    error += (trained[i] - decoded[i]) * (trained[i] - decoded[i]);
    size += trained[i] * trained[i];
  }
  // Every key and value is off by 1/254 of the largest of its head at most, 0.4 %, and half of the
  // residual stream's content comes by way of them.
  CHECK(error > 0);
  CHECK(std::sqrt(error / size) < 0.01);
}

TEST_CASE("weights and keys and values travel as planned") {
  const auto counts = [](const GenerationNeeds& layout) {
    TinyGeneration generation({.model = long_model(), .needs = layout});
    (void)generation.run(mixed_requests());
    GenerationEngine& engine = generation.engine();
    return std::array{engine.weights().loaded_bytes(), engine.kv().fetched_bytes(),
                      engine.kv().sent_bytes()};
  };
  for (const KvDType dtype : {KvDType::kAuto, KvDType::kInt8}) {
    const auto all = layouts(DType::kF32, dtype);
    CHECK(counts(all[0]) == std::array<std::size_t, 3>{0, 0, 0});
    const auto streamed = counts(all[1]);
    CHECK(streamed[0] > 0);
    CHECK(streamed[1] == 0);
    const auto fetched = counts(all[2]);
    CHECK(fetched[0] == 0);
    // Every token but the last of each sequence has its key and value sent home, in every layer.
    std::size_t kept = 0;
    for (const GenerateRequest& r : mixed_requests()) {
      kept += r.prompt.size() + static_cast<std::size_t>(r.most_tokens) - 1;
    }
    const KvShape shape{
        .layers = 4, .rows = 1, .heads = 2, .head_size = 6, .dtype = DType::kF32, .kept = dtype};
    CHECK(shape.row_bytes() == (dtype == KvDType::kAuto ? 96 : 48));  // 24 levels, 4 scales, and 8
    CHECK(fetched[2] == kept * 4 * shape.row_bytes());
    CHECK(fetched[1] > fetched[2]);
    // Where the host attends, parts of prompts that are cut need the parts before, and nothing
    // else.
    const auto attended = counts(attended_on_host(needs(DType::kF32, dtype))[0]);
    CHECK(attended[1] > 0);
    CHECK(attended[1] < fetched[1] / 4);
    CHECK(attended[2] == 0);
    // With it in half of the layers the others are fetched, but for what slots still hold.
    const auto some = counts(attended_on_host(needs(DType::kF32, dtype))[3]);
    const std::size_t half = (attended[1] + fetched[1]) / 2;
    CHECK(some[1] <= half);
    CHECK(some[1] > half - half / 20);
    CHECK(some[2] == 0);
  }
}

TEST_CASE("layers with a window keep and fetch what it sees, whatever the context") {
  const auto of_context = [](std::int64_t context, std::int64_t drawn) {
    LlamaConfig model = windowed_model();
    model.max_position_embeddings = context;
    GenerationNeeds layout = needs(DType::kF32);
    layout.context = context;
    layout.kv_slots = 2;
    layout.groups = 2;
    TinyGeneration generation({.model = model, .needs = layout});
    std::vector<GenerateRequest> requests;
    for (std::uint64_t i = 0; i < 4; ++i) {
      requests.push_back({.prompt = random_prompt(i, context - drawn),
                          .sampling = {},
                          .most_tokens = drawn,
                          .sample = 0});
    }
    (void)generation.run(requests);
    const GenerationEngine& engine = generation.engine();
    return std::array{generation.setup().kv.bytes(), engine.kv().fetched_bytes()};
  };
  constexpr std::size_t kRow = 96;                      // bytes, see above
  constexpr std::size_t kSequences = 4, kWindowed = 3;  // layers, and one that keeps all
  constexpr std::size_t kWindow = 7, kStep = 3;
  for (const std::int64_t context : {40, 400}) {
    const auto tokens = static_cast<std::size_t>(context);
    CHECK(of_context(context, 2)[0] ==
          kSequences * kRow * (tokens + kWindowed * (kWindow + kStep - 1)));
  }
  // A token more fetches all that is kept: of layers with a window the same, however long it is.
  const std::size_t fetched = of_context(400, 11)[1] - of_context(400, 10)[1];
  const std::size_t whole = kSequences * kRow * 398;
  CHECK(fetched > whole / 2);  // what slots still hold is not fetched
  CHECK(fetched < whole + kSequences * kRow * kWindowed * (kWindow + kStep - 1));
}

TEST_CASE("a sweep takes the memory that was planned") {
  std::vector<GenerationNeeds> all = with_host_attention(layouts(DType::kBF16));
  const auto int8 = with_host_attention(layouts(DType::kBF16, KvDType::kInt8));
  all.insert(all.end(), int8.begin(), int8.end());
  for (const GenerationNeeds& layout : all) {
    TinyGeneration generation({.model = windowed_model(), .needs = layout});
    CHECK(generation.setup().kv.attended_at_home() == layout.host_attention);
    constexpr std::array kSpaces{Space::kDevice, Space::kPinned, Space::kPageable};
    const auto arenas = generation.engine().arenas();
    for (std::size_t i = 0; i < kSpaces.size(); ++i) {
      CHECK(arenas[i]->used() == generation.setup().plan.total(kSpaces[i]));
    }
  }
}

TEST_CASE("sweeps have no race, and races are found where waits are left out") {
  const auto races = [](const GenerationNeeds& layout, std::optional<WaitFor> omit) {
    Recorder recorder;
    TinyGeneration generation({.model = windowed_model(),
                               .needs = layout,
                               .trace = &recorder,
                               .omit_wait = omit,
                               .execution = Execution::kEager});
    recorder.start();
    (void)generation.run(mixed_requests());
    generation.backend().device->synchronize();
    recorder.stop();
    CHECK(recorder.records().size() > 100);
    const std::vector<Race> found = recorder.races(1);
    return found.empty() ? std::string() : found.front().text;
  };
  for (const KvDType kept : {KvDType::kAuto, KvDType::kInt8}) {
    for (const GenerationNeeds& layout : with_host_attention(layouts(DType::kF32, kept))) {
      CHECK(races(layout, {}) == "");
    }
  }
  for (const WaitFor omitted : {WaitFor::kFilled, WaitFor::kReuse}) {
    INFO(std::string(name_of(omitted)));
    CHECK(races(layouts(DType::kF32)[1], omitted) != "");
    CHECK(races(layouts(DType::kF32)[2], omitted) != "");
  }
  for (const WaitFor omitted :
       {WaitFor::kFilled, WaitFor::kReuse, WaitFor::kArrived, WaitFor::kTaken}) {
    INFO(std::string(name_of(omitted)));
    for (const KvDType kept : {KvDType::kAuto, KvDType::kInt8}) {
      for (const std::size_t layout : {1, 4}) {
        CHECK(races(attended_on_host(needs(DType::kF32, kept))[layout], omitted) != "");
      }
    }
  }
}

TEST_CASE("keys of layers that fetch them are on their way while the host attends in others") {
  constexpr int kLayers = 6;
  LlamaConfig model = long_model();
  model.num_hidden_layers = kLayers;
  GenerationNeeds layout = needs(DType::kF32);
  layout.host_attention = true;
  layout.fetched_layers = 2;
  layout.groups = 2;
  layout.kv_slots = 2;
  Recorder recorder;
  TinyGeneration generation(
      {.model = model, .needs = layout, .trace = &recorder, .execution = Execution::kEager});
  std::vector<GenerateRequest> requests;
  for (std::uint64_t i = 0; i < 4; ++i) {
    requests.push_back(
        {.prompt = random_prompt(i, 4), .sampling = {}, .most_tokens = 6, .sample = 0});
  }
  recorder.start();
  (void)generation.run(requests);
  generation.backend().device->synchronize();
  recorder.stop();
  const std::vector<AskedInSweep> sweeps = asked_in_sweeps(recorder.records());
  int followed = 0;
  for (const AskedInSweep& sweep : sweeps) {
    for (const auto& [unit, fetched] : sweep.fetches) {
      const auto attends = sweep.attends.find(unit - 1);
      if (attends == sweep.attends.end()) continue;
      CHECK(fetched < attends->second);
      ++followed;
    }
  }
  CHECK(followed >= 5);  // slots may still hold what the sweep before ended with
}

TEST_CASE("a sequence ends where it is told to, and others take its place") {
  TinyGeneration generation({.model = long_model(), .needs = needs(DType::kF32)});
  std::vector<GenerateRequest> requests = mixed_requests();
  std::map<std::size_t, int> drawn;
  const auto all = generation.run(
      requests, [&](const DrawnToken& token) { return ++drawn[token.sequence] < 2; });
  for (const Continuation& one : all) CHECK(one.ids.size() == 2);
  CHECK(generation.generator().counts().sequences == 9);
  CHECK(generation.generator().counts().drawn_tokens == 18);
  std::int64_t prompts = 0;
  for (const GenerateRequest& request : requests) prompts += std::ssize(request.prompt);
  CHECK(generation.generator().counts().prompt_tokens == prompts);
}

TEST_CASE("samples of a prompt follow the model's distribution") {
  // The first tokens of many samples, by the logits of the prompt.
  LlamaConfig model = tiny_model();
  GenerationNeeds many{.compute = DType::kF64,
                       .sequences = 500,
                       .context = 4,
                       .cell_tokens = 500,
                       .sweep_tokens = 1500};
  TinyGeneration generation({.model = model, .needs = many});
  constexpr std::int64_t kSamples = 20000;
  std::vector<GenerateRequest> requests;
  for (std::int64_t i = 0; i < kSamples; ++i) {
    requests.push_back({.prompt = {3, 1, 4}, .sampling = {}, .most_tokens = 1, .sample = i});
  }
  std::map<std::int32_t, double> counts;
  std::map<std::int32_t, double> probabilities;
  for (const Continuation& one : generation.run(requests)) {
    counts[one.ids[0]] += 1;
    probabilities[one.ids[0]] = std::exp(one.logprobs[0]);
  }
  double statistic = 0;
  double total = 0;
  for (const auto& [token, probability] : probabilities) {
    const double expected = probability * kSamples;
    statistic += (counts[token] - expected) * (counts[token] - expected) / expected;
    total += probability;
  }
  CHECK(total == Approx(1).epsilon(1e-9));  // every token was drawn
  const double freedom = static_cast<double>(probabilities.size()) - 1;
  CHECK(freedom == 60);
  // Above this a chi-squared number of 60 degrees of freedom lies with a probability of 1e-4.
  CHECK(statistic < 109.7);
}

TEST_CASE("what cannot be continued is refused with the remedy") {
  TinyGeneration generation({.model = long_model(), .needs = needs(DType::kF32)});
  const Generator& generator = generation.generator();
  GenerateRequest request{.prompt = {1, 2}, .sampling = {}, .most_tokens = 38, .sample = 0};
  CHECK(generator.problem(request).empty());
  request.most_tokens = 39;
  CHECK_THAT(generator.problem(request), ContainsSubstring("a sequence may have 40"));
  request.most_tokens = 0;
  CHECK_THAT(generator.problem(request), ContainsSubstring("at least one token"));
  request.most_tokens = 1;
  request.prompt = {};
  CHECK_THAT(generator.problem(request), ContainsSubstring("no token"));
  request.prompt = {1, 61};
  CHECK_THAT(generator.problem(request), ContainsSubstring("has id 61"));
  request.prompt = {1};
  const auto check = [&](double Sampling::*number, double value, const char* name) {
    GenerateRequest wrong = request;
    wrong.sampling.*number = value;
    CHECK_THAT(generator.problem(wrong), ContainsSubstring(name));
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double value : {-1.0, 1e-9, nan}) check(&Sampling::temperature, value, "temperature");
  for (const double value : {0.0, 1.1, nan}) check(&Sampling::top_p, value, "top_p");
  for (const double value : {-0.1, 1.1, nan}) check(&Sampling::min_p, value, "min_p");
  for (const double value : {0.0, nan}) check(&Sampling::repeat_penalty, value, "repeat_penalty");
}

TEST_CASE("weights that are not finite are said so") {
  TinyGeneration generation({.model = long_model(),
                             .needs = needs(DType::kF32),
                             .fill = [](TrainingState& state, ThreadPool& pool) {
                               state.initialize(1, std::numeric_limits<double>::quiet_NaN(), pool);
                             }});
  CHECK_THROWS_WITH(generation.run(mixed_requests()), ContainsSubstring("not finite"));
}

}  // namespace strata::test
