// Tests that samples change no bit of a training wherever its state lives, that they are what
// generation draws from the same weights, on any number of ranks, up to the ends of texts and
// answers, and that they have no race.

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/random.h"
#include "strata/data/byte_tokenizer.h"
#include "strata/device/execution.h"
#include "strata/model/peft_config.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/scratch_folder.h"
#include "support/session_run.h"
#include "support/thread_ranks.h"
#include "support/tiny_generation.h"
#include "support/without_gpu.h"

namespace strata::test {
namespace {

/// A model of bytes that is sampled after each step.
RunConfig sampled_config() {
  RunConfig config = tiny_config();
  config.model.llama.vocab_size = ByteTokenizer::kVocabulary;
  config.model.llama.max_position_embeddings = 40;
  config.run.sample_every = 1;
  config.run.sample_tokens = 9;
  config.run.sample_prompts = {"a", "two", "a longer one"};
  return config;
}

struct Sampled {
  RunResult run;
  std::vector<std::vector<RunSample>> samples;  ///< after each step
};

/// Runs all steps, with samples after each if the config has any.
Sampled run_sampled(const RunConfig& config, int ranks = 1) {
  std::mutex mutex;
  Sampled result;
  run_ranks(ranks, [&](Ranks& group) {
    Session session(config, group);
    Sampled own;
    for (std::int64_t step = 0; step < config.run.steps; ++step) {
      session.submit(step, config.optimizer.lr);
      if (config.run.sample_every > 0) own.samples.push_back(session.sample(step + 1));
    }
    session.synchronize();
    for (const FinishedStep& finished : session.take_finished()) {
      own.run.losses.push_back(finished.outcome.loss.value());
      own.run.norms.push_back(finished.outcome.grad_norm);
    }
    own.run.weights = gather_weights(session.state(), session.groups().shard());
    const std::lock_guard lock(mutex);
    if (group.rank() == 0) result = std::move(own);
  });
  return result;
}

RunConfig without_samples(RunConfig config) {
  config.run.sample_every = 0;
  return config;
}

constexpr std::int64_t kRank = 3;
constexpr double kScale = 2;  // alpha 6 over the rank

/// A run in f64 whose adapters learn fast.
RunConfig adapted_config() {
  RunConfig config = sampled_config();
  config.run.dtype = DType::kF64;
  config.adapter = AdapterConfig{.rank = kRank, .alpha = 6, .layers = {0, 2}};
  config.adapter->targets = {"q_proj", "v_proj", "o_proj", "up_proj", "down_proj"};
  config.adapter->modules_to_save = {"embed_tokens", "lm_head", "norm"};
  config.optimizer.lr = 0.05;
  return config;
}

std::vector<RunConfig> placements() {
  std::vector<RunConfig> all(10, sampled_config());
  all[1].schedule.resident_units = 2;
  all[2].optimizer.timing = UpdateTiming::kSpeculative;
  all[3].optimizer.timing = UpdateTiming::kOnArrival;
  all[3].optimizer.grad_clip.reset();
  all[3].optimizer.deferred_units = 2;
  all[4].optimizer.interleave = 0.7;
  all[5].schedule.activation_slots = 2;
  all[5].schedule.weight_slots = 1;
  all[6].schedule.passes = 2;
  all[6].schedule.sub_batches = 3;
  all[6].schedule.activations = KeepLevel::kFull;
  all[7].schedule.activations = KeepLevel::kAttention;
  all[7].schedule.spill = KeepLevel::kFull;
  all[7].debug.poison_slots = true;
  all[8].model.llama.tie_word_embeddings = true;
  all[8].debug.execution = Execution::kShuffled;
  all[9] = adapted_config();
  return all;
}

/// The texts and reasons of all samples.
std::vector<std::string> texts_of(const Sampled& sampled) {
  std::vector<std::string> texts;
  for (const auto& samples : sampled.samples) {
    for (const RunSample& sample : samples) {
      texts.push_back(sample.prompt + "|" + sample.text + "|" + sample.finish_reason);
    }
  }
  return texts;
}

/// A prompt in tokens, and those that end what is drawn.
struct EncodedPrompt {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> ends;
};

/// Gives the weights of a session to generation.
void copy_weights(Session& session, TrainingState& state) {
  for (const BlockId b : state.ids()) {
    const ConstTensorView weight(session.state().block(b).weight);
    state.write(b, &BlockState::weight, 0, {weight.bytes().begin, weight.bytes().bytes});
  }
}

/// Gives the weights of a session in f64, with its adapters added as their definition says.
void copy_merged(Session& session, TrainingState& state) {
  const std::unique_ptr<Ranks> ranks = make_self_ranks();
  const auto weights = gather_weights(session.state(), *ranks);
  for (const BlockId id : state.ids()) {
    const Block& block = state.layout().blocks[id];
    for (const SourceRun& run : source_runs(block, 0, block.elements, block.elements)) {
      const std::string& name = run.source->name;
      std::vector<double> w = weights.at(name);
      const auto a = weights.find(peft_name(name, "lora_A"));
      if (a != weights.end()) {
        const std::vector<double>& b = weights.at(peft_name(name, "lora_B"));
        const std::size_t columns = a->second.size() / kRank;
        for (std::size_t i = 0; i < w.size(); ++i) {
          for (std::size_t r = 0; r < kRank; ++r) {
            w[i] += kScale * b[i / columns * kRank + r] * a->second[r * columns + i % columns];
          }
        }
      }
      state.write(id, &BlockState::weight, run.block_begin, std::as_bytes(std::span(w)));
    }
  }
}

/// What generation draws from the weights of a session, which `copy` gives to it.
std::vector<Continuation> generated(Session& session, std::int64_t step,
                                    const std::vector<EncodedPrompt>& prompts,
                                    void (*copy)(Session&, TrainingState&) = copy_weights) {
  const RunConfig& config = session.config();
  TinyGeneration generation(
      {.model = config.model.llama,
       .needs = {.compute = config.run.dtype, .sequences = 2, .context = 40},
       .fill = [&](TrainingState& state, ThreadPool&) { copy(session, state); }});
  std::vector<GenerateRequest> requests;
  for (const EncodedPrompt& prompt : prompts) {
    GenerateRequest request{.prompt = prompt.ids,
                            .sampling = {},
                            .most_tokens = config.run.sample_tokens,
                            .sample = std::ssize(requests)};
    request.sampling.seed = random_bits(static_cast<std::uint64_t>(config.run.seed),
                                        0x73616d706c6573, static_cast<std::uint64_t>(step));
    requests.push_back(std::move(request));
  }
  return generation.run(requests, [&](const DrawnToken& token) {
    return std::ranges::count(prompts[token.sequence].ends, token.id) == 0;
  });
}

std::vector<EncodedPrompt> bytes_of_prompts(const RunConfig& config) {
  std::vector<EncodedPrompt> prompts;
  for (const std::string& prompt : config.run.sample_prompts) {
    prompts.push_back({.ids = {}, .ends = {ByteTokenizer::kEndOfDocument}});
    ByteTokenizer::encode(prompt, prompts.back().ids);
  }
  return prompts;
}

constexpr const char* kLetters[] = {"a", "b", "#", "", "", ""};  // of the ids below

/// A model of few tokens that is talked to, by a template.
RunConfig talking_config(const ScratchFolder& folder, const std::string& chat_template) {
  RunConfig config = sampled_config();
  config.model.llama.vocab_size = 6;
  config.model.tokenizer = folder.write("tokenizer.json",
                                        R"({"model": {"type": "BPE", "merges": [], "vocab":
           {"a": 0, "b": 1, "#": 2, "<s>": 3, "</s>": 4, "<|im_end|>": 5}},
          "decoder": {"type": "Fuse"},
          "added_tokens": [{"id": 3, "content": "<s>", "special": true},
                           {"id": 4, "content": "</s>", "special": true},
                           {"id": 5, "content": "<|im_end|>", "special": true}]})");
  folder.write("tokenizer_config.json", R"({"eos_token": "</s>"})");
  folder.write("chat_template.jinja", chat_template);
  config.run.sample_tokens = 20;
  config.run.sample_prompts = {R"({"messages": [{"role": "user", "content": "ab"}]})", "ab"};
  return config;
}

}  // namespace

TEST_CASE("samples change no bit of a training, wherever its state lives") {
  for (const RunConfig& config : placements()) {
    INFO(write_fields(config));
    const Sampled sampled = run_sampled(config);
    CHECK(sampled.run == run_sampled(without_samples(config)).run);
    CHECK(sampled.samples.size() == 3);
    CHECK(texts_of(sampled).size() == 9);
  }
}

TEST_CASE("samples do not depend on where weights live or how much memory is idle") {
  const std::vector<RunConfig> all = placements();
  const std::vector<std::string> texts = texts_of(run_sampled(all[0]));
  CHECK(texts_of(run_sampled(all[1])) == texts);
  CHECK(texts_of(run_sampled(all[5])) == texts);
  CHECK(texts[0] != texts[3]);
}

TEST_CASE("samples are what generation draws from the weights of the step") {
  const std::unique_ptr<Ranks> ranks = make_self_ranks();
  Session session(sampled_config(), *ranks);
  for (std::int64_t step = 0; step < 3; ++step) {
    session.submit(step, 2e-2);
    const std::vector<RunSample> samples = session.sample(step + 1);
    const std::vector<Continuation> expected =
        generated(session, step + 1, bytes_of_prompts(sampled_config()));
    REQUIRE(samples.size() == expected.size());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      CHECK(samples[i].ids == expected[i].ids);
      CHECK(samples[i].prompt_tokens == std::ssize(samples[i].prompt));
    }
  }
}

TEST_CASE("samples of a run with adapters are what the model with them added draws") {
  const RunConfig config = adapted_config();
  const std::unique_ptr<Ranks> ranks = make_self_ranks();
  Session session(config, *ranks);
  std::size_t others = 0;  // than without adapters
  for (std::int64_t step = 0; step < 3; ++step) {
    session.submit(step, config.optimizer.lr);
    const std::vector<RunSample> samples = session.sample(step + 1);
    const std::vector<Continuation> expected =
        generated(session, step + 1, bytes_of_prompts(config), copy_merged);
    const std::vector<Continuation> plain =
        generated(session, step + 1, bytes_of_prompts(config), copy_weights);
    REQUIRE(samples.size() == expected.size());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      CHECK(samples[i].ids == expected[i].ids);
      others += samples[i].ids != plain[i].ids ? 1 : 0;
    }
  }
  CHECK(others > 0);
}

TEST_CASE("a sample of a run with adapters is the same alone and beside others") {
  RunConfig many = adapted_config();
  many.run.dtype = DType::kBF16;
  RunConfig one = many;
  one.run.sample_prompts.resize(1);
  const Sampled beside = run_sampled(many);
  const Sampled alone = run_sampled(one);
  REQUIRE(alone.samples.size() == beside.samples.size());
  for (std::size_t step = 0; step < alone.samples.size(); ++step) {
    CHECK(alone.samples[step].at(0).ids == beside.samples[step].at(0).ids);
  }
}

TEST_CASE("a conversation is answered until the turn ends, and a text goes on beyond that") {
  constexpr std::int32_t kTurnEnd = 5;
  constexpr std::int32_t kEnd = 4;
  const ScratchFolder folder;
  const RunConfig config =
      talking_config(folder, "{% for m in messages %}{{ m.content + '<|im_end|>' }}{% endfor %}");
  const std::unique_ptr<Ranks> ranks = make_self_ranks();
  Session session(config, *ranks);
  session.submit(0, config.optimizer.lr);
  int turns = 0;
  int passed = 0;  // ends of turns within texts
  for (std::int64_t step = 1; step <= 8; ++step) {
    const std::vector<RunSample> samples = session.sample(step);
    const std::vector<Continuation> expected = generated(
        session, step,
        {{.ids = {0, 1, kTurnEnd}, .ends = {kEnd, kTurnEnd}}, {.ids = {0, 1}, .ends = {kEnd}}});
    REQUIRE(samples.size() == 2);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const RunSample& sample = samples[i];
      CHECK(sample.ids == expected[i].ids);
      std::string text;
      for (const std::int32_t id : sample.ids) text += kLetters[id];
      CHECK(sample.text == text);
      const std::int32_t last = sample.ids.back();
      const bool over = last == kEnd || (i == 0 && last == kTurnEnd);
      CHECK(sample.finish_reason == (over ? "stop" : "length"));
    }
    turns += samples[0].ids.back() == kTurnEnd ? 1 : 0;
    passed += static_cast<int>(std::ranges::count(samples[1].ids, kTurnEnd));
  }
  CHECK(turns > 0);
  CHECK(passed > 0);
}

TEST_CASE("where no token ends a turn, an answer ends before the text that does") {
  const ScratchFolder folder;
  RunConfig config = talking_config(folder, "{% for m in messages %}{{ m.content }}#{% endfor %}");
  config.run.sample_prompts.pop_back();
  const std::unique_ptr<Ranks> ranks = make_self_ranks();
  Session session(config, *ranks);
  session.submit(0, config.optimizer.lr);
  int turns = 0;
  for (std::int64_t step = 1; step <= 8; ++step) {
    const RunSample sample = session.sample(step).at(0);
    CHECK(sample.prompt_tokens == 3);
    const bool ended = sample.ids.back() == 2;
    CHECK(std::ranges::count(sample.ids, 2) == (ended ? 1 : 0));
    CHECK(sample.text.find('#') == sample.text.npos);
    if (ended) CHECK(sample.finish_reason == "stop");
    turns += ended ? 1 : 0;
  }
  CHECK(turns > 0);
}

TEST_CASE("a line of samples.jsonl has a conversation as an object, and a text as one") {
  const auto line = [](const std::string& prompt) {
    return parse_json<nlohmann::json>(
        json_line(3, {.prompt = prompt, .text = "b", .finish_reason = "stop", .ids = {1}}));
  };
  const nlohmann::json talk = line(R"({"messages": [{"role": "user", "content": "a"}]})");
  CHECK(talk["prompt"]["messages"][0]["content"] == "a");
  CHECK(line(R"({"a": 1})")["prompt"] == R"({"a": 1})");
}

TEST_CASE("two ranks draw what one draws, and train as without samples") {
  RunConfig one = sampled_config();
  RunConfig two = one;
  two.schedule.sub_batches = 3;
  const Sampled sampled = run_sampled(two, 2);
  CHECK(texts_of(sampled) == texts_of(run_sampled(one)));
  CHECK(sampled.run == run_sampled(without_samples(two), 2).run);
}

TEST_CASE("samples have no race with the steps around them") {
  const auto races = [](RunConfig config, std::optional<WaitFor> omit) {
    config.debug.execution = Execution::kEager;
    Recorder recorder;
    const std::unique_ptr<Ranks> ranks = make_self_ranks();
    Session session(config, *ranks, {.trace = &recorder, .omit_wait = omit});
    recorder.start();
    for (std::int64_t step = 0; step < 3; ++step) {
      session.submit(step, 2e-2);
      if (!omit || step == 2) (void)session.sample(step + 1);
    }
    session.submit(3, 2e-2);
    session.synchronize();
    recorder.stop();
    const std::vector<Race> found = recorder.races(1);
    return found.empty() ? std::string() : found.front().text;
  };
  for (const RunConfig& config : placements()) CHECK(races(config, {}) == "");
  CHECK(races(sampled_config(), WaitFor::kFilled) != "");
}

TEST_CASE("an empty list of prompts samples from the beginning of a text") {
  RunConfig config = sampled_config();
  config.run.sample_prompts.clear();
  const Sampled sampled = run_sampled(config);
  REQUIRE(sampled.samples.size() == 3);
  REQUIRE(sampled.samples[0].size() == 1);
  CHECK(sampled.samples[0][0].prompt.empty());
  CHECK(sampled.samples[0][0].prompt_tokens == 1);
  CHECK(std::ssize(sampled.samples[0][0].ids) > 0);
}

TEST_CASE("samples that cannot be taken are refused with key and remedy") {
  const auto complaint = [](const RunConfig& config) {
    const std::unique_ptr<Ranks> ranks = make_self_ranks();
    try {
      const Session session(config, *ranks);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  RunConfig config = sampled_config();
  config.model.llama.vocab_size = 61;
  CHECK_THAT(complaint(config), ContainsSubstring("model.tokenizer: samples"));
  config = sampled_config();
  config.run.sample_prompts.emplace_back("a text of thirty-five characters ...");
  CHECK_THAT(complaint(config), ContainsSubstring("run.sample_prompts: a text of") &&
                                    ContainsSubstring("36 tokens and up to 9 are to follow"));
  config = sampled_config();
  config.model.llama.max_position_embeddings = 4096;
  config.run.sample_tokens = 4000;
  CHECK_THAT(complaint(config), ContainsSubstring("are idle there between steps") &&
                                    ContainsSubstring("run.sample_tokens"));
  const ScratchFolder folder;
  config = talking_config(folder, "{{ raise_exception('no ' + messages[0].content) }}");
  CHECK_THAT(complaint(config),
             ContainsSubstring("run.sample_prompts[0]: ") && ContainsSubstring("no ab"));
  config.run.sample_prompts = {"ab", R"({"messages": [{"content": "ab"}]})"};
  CHECK_THAT(complaint(config),
             ContainsSubstring("run.sample_prompts[1]: message 0 has no \"role\""));
  config = talking_config(folder, "{{ messages[0].content * 40 }}");
  CHECK_THAT(complaint(config), ContainsSubstring("has 80 tokens and up to 20 are to follow"));
  std::filesystem::remove(folder.file("chat_template.jinja"));
  CHECK_THAT(complaint(config), ContainsSubstring("run.sample_prompts[0]: is a conversation") &&
                                    ContainsSubstring("--chat-template"));
  config = sampled_config();
  config.model.tokenizer = "/nowhere/tokenizer.json";
  CHECK_THAT(complaint(config), ContainsSubstring("/nowhere/tokenizer.json"));
}

TEST_CASE("the plan has the pinned memory of samples and no device memory for them") {
  const auto setup = [](const RunConfig& config) { return make_setup(config, 0, 1, Budget{}); };
  const Setup with = setup(sampled_config());
  const Setup without = setup(without_samples(sampled_config()));
  CHECK(with.plan.total(Space::kDevice) == without.plan.total(Space::kDevice));
  CHECK(with.plan.bytes(Space::kPinned, "samples") > 0);
  CHECK(with.plan.total(Space::kPinned) ==
        without.plan.total(Space::kPinned) + with.plan.bytes(Space::kPinned, "samples"));
  CHECK_THAT(with.to_string(), ContainsSubstring("samples: 3 at once of up to 29 tokens"));
}

TEST_CASE("samples on a gpu change no bit of a training and repeat wherever weights live",
          "[cuda]") {
  if (without_gpu()) return;
  for (RunConfig config : placements()) {
    if (config.debug.execution != Execution::kThreads) continue;
    config.run.backend = BackendChoice::kCuda;
    config.run.dtype = DType::kBF16;
    config.kernels.matmul_tuning = MatmulTuning::kOff;
    INFO(write_fields(config));
    const Sampled sampled = run_sampled(config);
    CHECK(sampled.run == run_sampled(without_samples(config)).run);
    CHECK(texts_of(sampled).size() == 9);
    CHECK(texts_of(sampled) == texts_of(run_sampled(config)));
  }
}

}  // namespace strata::test
