// Tests whole runs on pairs of answers: losses against what is known of them, gradients against
// differences of losses, and that a run does not depend on how its pairs are laid out.

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/output_file.h"
#include "strata/complete/named_model.h"
#include "strata/complete/score_pairs.h"
#include "strata/data/open_source.h"
#include "strata/data/token_file.h"
#include "strata/train/session.h"
#include "strata/train/training_data.h"
#include "support/catch.h"
#include "support/places.h"
#include "support/scratch_folder.h"
#include "support/session_run.h"
#include "support/tiny_config.h"
#include "support/without_gpu.h"
#include "train/saved_run.h"

namespace strata::test {
namespace {

constexpr std::int64_t kPairs = 16;
constexpr std::int64_t kPairRowTokens = 24;  // of one pair or of two

/// Adds an answer whose first third is a prompt without loss.
void write_answer(TokenFileWriter& file, std::int64_t length, std::int64_t seed) {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> loss;
  for (std::int64_t i = 0; i < length; ++i) {
    ids.push_back(static_cast<std::int32_t>((i * i + 7 * seed) % 53));
    loss.push_back(3 * i >= length ? 1 : 0);
  }
  file.append(ids, loss);
  file.end_document();
}

std::string write_pairs(const ScratchFolder& folder) {
  const std::string name = folder.path() / "pairs.bin";
  TokenFileWriter file(name, {.type = TokenType::kU16, .vocabulary = 61});
  file.mark_pairs();
  for (std::int64_t i = 0; i < kPairs; ++i) {
    write_answer(file, 3 + i % 8, i);
    write_answer(file, 4 + i % 5, i + 100);
  }
  file.close();
  file.publish();
  return name;
}

/// Stores the reference of a run's training set, as `evaluate --reference` does.
void store_reference(const RunConfig& config) {
  const auto tokens = open_token_source(config.data.train.files().at(0));
  const NamedModel model("the test", {.model = config.model.path,
                                      .backend = BackendChoice::kCpu,
                                      .dtype = DType::kF64,
                                      .threads = 2});
  const PairList list = list_pairs(*tokens, kPairRowTokens);
  const auto session = model.load_to_score(list.longest, 2 * std::ssize(list.pairs));
  const std::int64_t vocabulary = model.config().vocab_size;
  OutputFile file(reference_file_of(tokens->name()));
  write_reference(file, *tokens, {.model = model.weights_hash(), .most_tokens = kPairRowTokens},
                  score_pairs(session->engine(), *tokens, vocabulary, list, [](std::int64_t) {}));
}

/// Returns a folder with a model whose first weights are not those of started().
std::string other_model(const ScratchFolder& folder) {
  const std::filesystem::path model = folder.path() / "other";
  std::filesystem::copy(goldens_folder() + "/gqa_tied_llama3", model);
  std::fstream file(model / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  std::uint64_t header = 0;
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  file.seekp(static_cast<std::streamoff>(sizeof header + header));
  file.write("\0\0\0\0\0\0\0", 8);
  return model.string();
}

/// Returns a config whose runs start from weights that are there.
RunConfig started(RunConfig config = tiny_config()) {
  config.model.path = goldens_folder() + "/gqa_tied_llama3";
  config.model.llama = load_llama_config(std::filesystem::path(config.model.path) / "config.json");
  return config;
}

/// The same with a stored reference, which preference_config() computes.
RunConfig with_stored(RunConfig config = tiny_config()) {
  config.train.reference = ReferenceFrom::kStored;
  return started(config);
}

/// The same with an embedding and a norm that are trained beside adapters.
RunConfig with_whole(RunConfig config) {
  config.adapter.emplace();
  config.adapter->modules_to_save = {"embed_tokens", "norm"};
  return config;
}

RunConfig preference_config(const ScratchFolder& folder, Preference objective, bool adapter,
                            RunConfig config = tiny_config()) {
  config.train.objective = objective;
  if (adapter) {
    if (!config.adapter) config.adapter.emplace();
    config.adapter->rank = 3;
    config.adapter->alpha = 6;
    config.adapter->targets = {"all-linear"};
  }
  config.data.synthetic = false;
  config.data.train = write_pairs(folder);
  config.data.validation = config.data.train;
  config.data.document_mask = true;
  config.data.packing = true;
  config.data.overlong = Overlong::kDrop;
  config.data.sequence_length = kPairRowTokens;
  config.model.llama.max_position_embeddings = kPairRowTokens;
  config.schedule.rows = 2;
  config.schedule.sub_batches = 3;
  config.schedule.passes = 2;
  config.optimizer.kind = OptimizerKind::kSgd;
  config.optimizer.betas = OptimizerSection().betas;
  config.optimizer.momentum = 0;
  config.optimizer.weight_decay = 0;
  config.optimizer.grad_clip.reset();
  config.validate("the test");
  if (config.train.reference == ReferenceFrom::kStored) store_reference(config);
  config.schedule.step_rows = open_training_set(config).packing.at(0).rows;  // all of them
  return config;
}

StepOutcome step(Session& session, std::int64_t number, double lr) {
  session.submit(number, lr);
  session.synchronize();
  return session.take_finished().at(0).outcome;
}

struct Run {
  Preference objective;
  bool adapter;
  RunConfig config = tiny_config();
};

}  // namespace

TEST_CASE("new adapters have the losses of their base, so the first loss of dpo is log 2") {
  const ScratchFolder folder;
  const auto self = make_self_ranks();
  Session session(preference_config(folder, Preference::kDpo, true), *self);
  const StepOutcome first = step(session, 0, 0.5);
  CHECK(first.loss == Approx(std::log(2.0)).epsilon(1e-15));
  CHECK(first.chosen_reward == 0);  // bit for bit, in every cell
  CHECK(first.rejected_reward == 0);
  const StepOutcome second = step(session, 1, 0.5);
  CHECK(second.loss.value() < first.loss.value() - 1e-3);  // the reference stays where it was
  CHECK(second.chosen_reward > second.rejected_reward);
  for (const Arena* arena : session.arenas()) {
    CHECK(arena->used() == session.setup().plan.total(arena->space()));
  }
}

TEST_CASE("a stored reference gives the losses and gradients of one in the visit") {
  const ScratchFolder folder;
  for (const Preference objective : {Preference::kDpo, Preference::kIpo}) {
    const RunResult visited = run_session(preference_config(folder, objective, true, started()));
    const RunResult stored = run_session(preference_config(folder, objective, true, with_stored()));
    REQUIRE(stored.losses.size() == visited.losses.size());
    for (std::size_t i = 0; i < visited.losses.size(); ++i) {
      CHECK(stored.losses[i] == Approx(visited.losses[i]).epsilon(1e-12));
      CHECK(stored.norms.at(i) == Approx(visited.norms.at(i)).epsilon(1e-11));
    }
  }
}

TEST_CASE("all weights learn by dpo from a stored reference, from log 2 on") {
  const ScratchFolder folder;
  const auto self = make_self_ranks();
  Session session(preference_config(folder, Preference::kDpo, false, with_stored()), *self);
  const StepOutcome first = step(session, 0, 0.05);
  CHECK(first.loss == Approx(std::log(2.0)).epsilon(1e-12));
  CHECK(std::abs(first.chosen_reward) < 1e-12);
  const StepOutcome second = step(session, 1, 0.05);
  CHECK(second.loss.value() < first.loss.value() - 1e-3);
  CHECK(second.chosen_reward > second.rejected_reward);
  for (const Arena* arena : session.arenas()) {
    CHECK(arena->used() == session.setup().plan.total(arena->space()));
  }
}

TEST_CASE("on cuda all weights learn from a stored reference as on the cpu", "[cuda]") {
  if (without_gpu()) return;
  const ScratchFolder folder;
  const auto self = make_self_ranks();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    INFO(name_of(dtype));
    const double tolerance = dtype == DType::kF32 ? 1e-4 : 1e-2;
    RunConfig config =
        preference_config(folder, Preference::kDpo, false, with_stored(tiny_gpu_config(dtype)));
    std::vector<double> losses;
    for (const BackendChoice backend : {BackendChoice::kCuda, BackendChoice::kCpu}) {
      config.run.backend = backend;
      Session session(config, *self);
      CHECK(step(session, 0, 0.05).loss == Approx(std::log(2.0)).epsilon(tolerance));
      losses.push_back(step(session, 1, 0.05).loss.value());
    }
    CHECK(losses[0] == Approx(losses[1]).epsilon(tolerance));
  }
}

TEST_CASE("on cuda the reference has the bits of the base, and losses are those of the cpu",
          "[cuda]") {
  if (without_gpu()) return;
  const ScratchFolder folder;
  const auto self = make_self_ranks();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    INFO(name_of(dtype));
    RunConfig config = preference_config(folder, Preference::kDpo, true, tiny_gpu_config(dtype));
    std::vector<double> losses;
    for (const BackendChoice backend : {BackendChoice::kCuda, BackendChoice::kCpu}) {
      config.run.backend = backend;
      Session session(config, *self);
      const StepOutcome first = step(session, 0, 0.5);
      CHECK(first.loss == Approx(std::log(2.0)).epsilon(1e-6));
      CHECK(first.chosen_reward == 0);
      CHECK(first.rejected_reward == 0);
      losses.push_back(step(session, 1, 0.5).loss.value());
    }
    CHECK(losses[0] == Approx(losses[1]).epsilon(dtype == DType::kF32 ? 1e-4 : 5e-3));
  }
}

TEST_CASE("gradients of preferences are those of their losses") {
  const ScratchFolder folder;
  for (const auto& [objective, adapter, config] :
       {Run{Preference::kDpo, true}, Run{Preference::kIpo, true}, Run{Preference::kSimpo, true},
        Run{Preference::kSimpo, false}, Run{Preference::kOrpo, true}, Run{Preference::kOrpo, false},
        Run{Preference::kDpo, false, with_stored()},
        Run{Preference::kDpo, true, with_whole(with_stored())},
        Run{Preference::kIpo, false, with_stored()}}) {
    INFO("objective " << static_cast<int>(objective) << ", adapter " << adapter);
    const auto self = make_self_ranks();
    Session session(preference_config(folder, objective, adapter, config), *self);
    static_cast<void>(step(session, 0, 0.1));  // B is not 0 any more
    const double before = session.evaluate();
    constexpr double kLr = 1e-6;
    const StepOutcome small = step(session, 1, kLr);
    // The validation set is the training set, in another order.
    CHECK(before == Approx(small.loss.value()).epsilon(1e-12));
    const double fell = before - session.evaluate();
    CHECK(fell == Approx(kLr * small.grad_norm * small.grad_norm).epsilon(1e-4));
    CHECK(small.grad_norm > 1e-3);
  }
}

TEST_CASE("steps and validations with a reference have no races") {
  const ScratchFolder folder;
  const auto self = make_self_ranks();
  for (const RunConfig& config : {tiny_config(), with_stored()}) {
    Recorder recorder;
    Session session(preference_config(folder, Preference::kDpo, true, config), *self,
                    {.trace = &recorder});
    recorder.start();
    for (std::int64_t number = 0; number < 2; ++number) session.submit(number, 0.1);
    session.synchronize();
    static_cast<void>(session.evaluate());
    recorder.stop();
    CHECK(first_race(recorder) == "");
  }
}

TEST_CASE("a run on pairs does not depend on sub-batches, passes or ranks but for rounding") {
  const ScratchFolder folder;
  for (RunConfig config : {preference_config(folder, Preference::kDpo, true),
                           preference_config(folder, Preference::kDpo, false, with_stored())}) {
    const RunResult plain = run_session(config);
    config.schedule.sub_batches = 6;
    config.schedule.passes = 1;
    const RunResult one_pass = run_session(config);
    config.schedule.sub_batches = 1;
    config.schedule.passes = 3;
    const RunResult ranks = run_session(config, 2);
    config.schedule.passes = 2;
    const RunResult more_ranks = run_session(config, 3);
    for (std::size_t i = 0; i < plain.losses.size(); ++i) {
      CHECK(one_pass.losses.at(i) == Approx(plain.losses[i]).epsilon(1e-12));
      CHECK(ranks.losses.at(i) == Approx(plain.losses[i]).epsilon(1e-12));
      CHECK(more_ranks.losses.at(i) == Approx(plain.losses[i]).epsilon(1e-12));
    }
  }
}

TEST_CASE("a run with a stored reference goes on from a checkpoint to the bit") {
  const ScratchFolder folder;
  RunConfig config = preference_config(folder, Preference::kDpo, false, with_stored());
  config.schedule.step_rows.reset();
  config.schedule.sub_batches = 1;  // steps have different pairs
  config.schedule.passes = 1;
  config.checkpoint.at_end = true;
  MemoryFiles files(kRunFolder);
  const SavedRun whole = train_and_save(config, 1, files, {.after = {2}, .steps = 4});
  const SavedRun resumed = train_and_save(config, 1, files, {.from = 2, .steps = 4});
  CHECK(resumed.run.losses == std::vector(whole.run.losses.begin() + 2, whole.run.losses.end()));
  CHECK(resumed.run.weights == whole.run.weights);

  // The model in the checkpoint takes the place of a folder that has gone.
  const std::string original = config.model.path;
  config.model.path = other_model(folder);
  const SavedRun moved = train_and_save(config, 1, files, {.from = 2, .steps = 4});
  CHECK(moved.run.losses == resumed.run.losses);
  const std::string refused = "by other weights than " + original + ", from which";
  CHECK_THROWS_WITH(train_and_save(config, 1, files, {.steps = 1}),
                    ContainsSubstring("by other weights than " + config.model.path));
  store_reference(config);
  CHECK_THROWS_WITH(train_and_save(config, 1, files, {.from = 2, .steps = 4}),
                    ContainsSubstring(refused));
  config.model.path = original;
  CHECK_THROWS_WITH(train_and_save(config, 1, files, {.from = 2, .steps = 4}),
                    ContainsSubstring(refused));
}

TEST_CASE("a reference of a model that computes with other factors is refused") {
  const ScratchFolder folder;
  RunConfig config = preference_config(folder, Preference::kDpo, false, with_stored());
  const auto check = [&](const auto& change, bool fits) {
    RunConfig other = config;
    change(other.model.llama);
    const auto open = [&] { return open_training_set(other, reference_wish(other, {})); };
    if (fits) {
      CHECK_NOTHROW(open());
    } else {
      CHECK_THROWS_WITH(open(), ContainsSubstring("was computed by other weights"));
    }
  };
  check([](LlamaConfig& m) { m.initializer_range *= 2; }, true);
  check([](LlamaConfig& m) { m.rope_theta *= 2; }, false);
  check([](LlamaConfig& m) { m.rope_scaling.value().factor *= 2; }, false);
  check([](LlamaConfig& m) { m.rms_norm_eps *= 2; }, false);
  check([](LlamaConfig& m) { m.sliding_window = 3; }, false);
  check([](LlamaConfig& m) { m.final_logit_softcapping = 30; }, false);
  check([](LlamaConfig& m) { m.residual_multiplier = 0.5; }, false);
}

TEST_CASE("rows are listed without a reference, and a vocabulary that grows has none") {
  const ScratchFolder folder;
  RunConfig config = preference_config(folder, Preference::kDpo, false, with_stored());
  std::filesystem::remove(reference_file_of(config.data.train.files().at(0)));
  CHECK(open_training_set(config).packing.at(0).rows > 0);
  CHECK_THROWS_WITH(open_training_set(config, reference_wish(config, {})),
                    ContainsSubstring("is not there"));
  ++config.model.llama.vocab_size;
  CHECK_THROWS_WITH(reference_wish(config, {}),
                    ContainsSubstring("train.reference: the vocabulary of") &&
                        ContainsSubstring("Leave model.vocab_size out"));
}

TEST_CASE("files of pairs and objectives must fit each other") {
  const ScratchFolder folder;
  const auto self = make_self_ranks();
  RunConfig config = preference_config(folder, Preference::kSimpo, false);
  config.train.objective.reset();
  CHECK_THROWS_WITH(Session(config, *self), ContainsSubstring("pairs.bin: holds pairs of chosen") &&
                                                ContainsSubstring("train.objective"));
}

}  // namespace strata::test
