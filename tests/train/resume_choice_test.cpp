// Tests which checkpoint a run goes on from, and which configs may go on from it.

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "checkpoint/memory_files.h"
#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/checkpoint/checkpoint_save.h"
#include "strata/train/resume.h"
#include "support/catch.h"
#include "support/scratch_folder.h"
#include "support/thread_ranks.h"
#include "support/tiny_config.h"
#include "train/resume_keys.h"
#include "train/saved_run.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;

const fs::path kRun = "/runs/a";
const fs::path kOther = "/runs/b";

void write_text(Files& files, const fs::path& file, const std::string& text) {
  write_whole(files, file, std::as_bytes(std::span(text)));
}

/// Writes a checkpoint of one small file, whose loss was finite or not.
void add_checkpoint(Files& files, const fs::path& run, std::int64_t step, bool finite = true) {
  Manifest manifest;
  manifest.step = step;
  manifest.finite = finite;
  test::add_checkpoint(files, run, manifest);
}

fs::path checkpoint(const fs::path& run, std::int64_t step) {
  return run / kCheckpointsName / checkpoint_name(step);
}

/// Two runs: one with checkpoints of steps 5, 10 and 15, of which the last is torn, and one with
/// step 7.
void add_runs(Files& files) {
  for (const std::int64_t step : {5, 10, 15}) add_checkpoint(files, kRun, step);
  add_checkpoint(files, kOther, 7);
  files.remove(checkpoint(kRun, 15) / "weights");
}

/// Returns the folder that is found, or "nothing", or the error.
std::string found(const Files& files, const std::string& from, const fs::path& run = kRun) {
  const auto self = make_self_ranks();
  try {
    const auto result = find_resume(files, {.from = from, .allowed = {}}, run, *self);
    if (!result) return "nothing";
    CHECK(result->manifest.step == step_of_name(result->folder.filename().string()));
    return result->folder.string();
  } catch (const ConfigError& error) {
    return error.what();
  }
}

/// The checkpoint of a run with this config.
FoundCheckpoint saved_with(const RunConfig& config) {
  FoundCheckpoint checkpoint{.folder = "/run/checkpoints/step-00000005", .manifest = {}};
  checkpoint.manifest.config = write_fields(config);
  if (config.adapter) checkpoint.manifest.base = BaseWeights{.folder = "/base", .hash = 1};
  return checkpoint;
}

std::string complaint(const RunConfig& before, const RunConfig& now,
                      const std::vector<std::string>& allowed = {}) {
  try {
    static_cast<void>(
        compare_with_checkpoint(now, saved_with(before), {.from = "auto", .allowed = allowed}));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> lines(const RunConfig& before, const RunConfig& now,
                               const std::vector<std::string>& allowed = {}) {
  return compare_with_checkpoint(now, saved_with(before), {.from = "auto", .allowed = allowed});
}

using Change = std::function<void(RunConfig&)>;

/// A value other than tiny_config()'s of every key that changes the numbers.
const std::map<std::string, Change> kNumberChanges{
    {"run.seed", [](RunConfig& c) { c.run.seed = 5; }},
    {"run.dtype", [](RunConfig& c) { c.run.dtype = DType::kF32; }},
    {"run.products", [](RunConfig& c) { c.run.products = Products::kFp8; }},
    {"run.products_bf16", [](RunConfig& c) { c.run.products_bf16 = {"down"}; }},
    {"adapter.alpha", [](RunConfig& c) { c.adapter->alpha = 3; }},
    {"adapter.rslora", [](RunConfig& c) { c.adapter->rslora = true; }},
    {"adapter.dropout", [](RunConfig& c) { c.adapter->dropout = 0.1; }},
    {"adapter.base_format", [](RunConfig& c) { c.adapter->base_format = Form::kNf4; }},
    {"adapter.alpha_pattern", [](RunConfig& c) { c.adapter->alpha_pattern = {"q_proj=2"}; }},
    {"data.train", [](RunConfig& c) { c.data.train = "other.bin"; }},
    {"data.sequence_length", [](RunConfig& c) { c.data.sequence_length = 6; }},
    {"data.dtype", [](RunConfig& c) { c.data.dtype = TokenFormat::kU16; }},
    {"data.eos_token", [](RunConfig& c) { c.data.eos_token = 3; }},
    {"data.document_begins", [](RunConfig& c) { c.data.document_begins = true; }},
    {"data.document_mask", [](RunConfig& c) { c.data.document_mask = true; }},
    {"data.packing", [](RunConfig& c) { c.data.packing = true; }},
    {"data.overlong", [](RunConfig& c) { c.data.overlong = Overlong::kDrop; }},
    {"data.shuffle", [](RunConfig& c) { c.data.shuffle = false; }},
    {"data.synthetic", [](RunConfig& c) { c.data.synthetic = false; }},
    {"train.objective", [](RunConfig& c) { c.train.objective = Preference::kOrpo; }},
    {"train.reference", [](RunConfig& c) { c.train.reference = ReferenceFrom::kStored; }},
    {"train.beta", [](RunConfig& c) { c.train.beta = 0.5; }},
    {"train.gamma", [](RunConfig& c) { c.train.gamma = 0.5; }},
    {"train.label_smoothing", [](RunConfig& c) { c.train.label_smoothing = 0.1; }},
    {"schedule.spill_dtype", [](RunConfig& c) { c.schedule.spill_dtype = BoundaryForm::kInt8; }},
    {"optimizer.lr", [](RunConfig& c) { c.optimizer.lr = 1; }},
    {"optimizer.betas", [](RunConfig& c) { c.optimizer.betas = {0.8, 0.9}; }},
    {"optimizer.momentum", [](RunConfig& c) { c.optimizer.momentum = 0.5; }},
    {"optimizer.nesterov", [](RunConfig& c) { c.optimizer.nesterov = true; }},
    {"optimizer.muon_momentum", [](RunConfig& c) { c.optimizer.muon_momentum = 0.9; }},
    {"optimizer.eps", [](RunConfig& c) { c.optimizer.eps = 1; }},
    {"optimizer.weight_decay", [](RunConfig& c) { c.optimizer.weight_decay = 0; }},
    {"optimizer.decay_norms", [](RunConfig& c) { c.optimizer.decay_norms = true; }},
    {"optimizer.lr_factors", [](RunConfig& c) { c.optimizer.lr_factors = {"*=2"}; }},
    {"optimizer.weight_decays", [](RunConfig& c) { c.optimizer.weight_decays = {"*=0"}; }},
    {"optimizer.grad_clip", [](RunConfig& c) { c.optimizer.grad_clip = 3; }},
    {"optimizer.gradient_dtype", [](RunConfig& c) { c.optimizer.gradient_dtype = DType::kBF16; }},
    {"optimizer.moment_dtype", [](RunConfig& c) { c.optimizer.moment_dtype = DType::kBF16; }},
    {"optimizer.master", [](RunConfig& c) { c.optimizer.master = MasterWeights::kNone; }},
    {"optimizer.lr_schedule", [](RunConfig& c) { c.optimizer.lr_schedule = LrSchedule::kCosine; }},
    {"optimizer.warmup_steps", [](RunConfig& c) { c.optimizer.warmup_steps = 1; }},
    {"optimizer.min_lr_ratio", [](RunConfig& c) { c.optimizer.min_lr_ratio = 0.5; }},
    {"optimizer.wsd_decay_steps", [](RunConfig& c) { c.optimizer.wsd_decay_steps = 1; }},
};

}  // namespace

TEST_CASE("auto takes the newest whole checkpoint, and nothing where there is none") {
  MemoryFiles files("/runs");
  CHECK(found(files, "auto") == "nothing");
  files.make_folder(kRun);
  CHECK(found(files, "auto") == "nothing");
  add_checkpoint(files, kRun, 5);
  CHECK(found(files, "auto") == checkpoint(kRun, 5));
  add_checkpoint(files, kRun, 100'000'000);  // a name of more digits is not less
  CHECK(found(files, "auto") == checkpoint(kRun, 100'000'000));
  CHECK(found(files, "") == "nothing");
}

TEST_CASE("auto passes over what is torn, and says why") {
  MemoryFiles files("/runs");
  add_runs(files);
  std::vector<std::string> skipped;
  const auto newest = newest_checkpoint(files, kRun / kCheckpointsName, skipped);
  REQUIRE(newest);
  CHECK(newest->folder == checkpoint(kRun, 10));
  REQUIRE(skipped.size() == 1);
  CHECK_THAT(skipped[0], ContainsSubstring((checkpoint(kRun, 15) / "weights").string()) &&
                             ContainsSubstring("missing"));
  CHECK(found(files, "auto") == checkpoint(kRun, 10));
  // Another tear: a manifest that ends early.
  const fs::path manifest = checkpoint(kRun, 10) / kManifestName;
  const std::string text = read_whole(files, manifest, kMostManifestBytes);
  files.remove(manifest);
  write_text(files, manifest, text.substr(0, text.size() / 2));
  CHECK(found(files, "auto") == checkpoint(kRun, 5));
  // A run that began anew would take their place.
  files.remove(checkpoint(kRun, 5) / kManifestName);
  CHECK_THAT(
      found(files, "auto"),
      ContainsSubstring("none of the checkpoints in " + (kRun / kCheckpointsName).string()) &&
          ContainsSubstring("--output") && ContainsSubstring("--overwrite") &&
          ContainsSubstring("--resume DIR"));
}

TEST_CASE("a checkpoint that cannot be read is not passed over, whatever the system says of it") {
  const fs::path folder = kRun / kCheckpointsName;
  for (const int error : {EACCES, EIO, ESTALE, EMFILE}) {
    for (const fs::path& path : {folder, checkpoint(kRun, 10), checkpoint(kRun, 10) / kManifestName,
                                 checkpoint(kRun, 10) / "weights"}) {
      for (const std::string from : {"auto", kRun.c_str()}) {
        MemoryFiles files("/runs");
        add_runs(files);
        const std::size_t before = files.operations();
        files.hide(path, error);
        INFO(path << " " << from);
        CHECK_THAT(found(files, from),
                   ContainsSubstring("--resume " + from + ": ") &&
                       ContainsSubstring(path.string()) &&
                       ContainsSubstring(std::generic_category().message(error) + "; "));
        CHECK(files.operations() == before);
      }
    }
  }
}

TEST_CASE("a checkpoint that rank 0 reads and another rank does not is an error on all ranks") {
  for (const std::string from : {"auto", "10"}) {
    const bool blind = GENERATE(false, true);
    std::mutex mutex;
    std::vector<std::string> results;
    run_ranks(2, [&](Ranks& group) {
      MemoryFiles files("/runs");
      add_runs(files);
      if (group.rank() == 1 && blind) files.hide(kRun, ESTALE);
      if (group.rank() == 1 && !blind) files.remove(checkpoint(kRun, 10) / "weights");
      std::string result;
      try {
        result = find_resume(files, {.from = from, .allowed = {}}, kRun, group)->folder.string();
      } catch (const ConfigError& error) {
        result = error.what();
      }
      const std::lock_guard lock(mutex);
      results.push_back(result);
    });
    for (const std::string& result : results) {
      CHECK_THAT(result,
                 ContainsSubstring("--resume " + from +
                                   ": rank 1 cannot read what rank 0 "
                                   "can: ") &&
                     ContainsSubstring(checkpoint(kRun, 10).string()) &&
                     ContainsSubstring(blind ? "Stale file handle" : "weights: is missing"));
    }
  }
}

TEST_CASE("a run goes on from the checkpoint that is named by step, folder or run") {
  MemoryFiles files("/runs");
  add_runs(files);
  CHECK(found(files, "5") == checkpoint(kRun, 5));
  CHECK(found(files, "10", kRun) == checkpoint(kRun, 10));
  CHECK(found(files, checkpoint(kOther, 7).string()) == checkpoint(kOther, 7));
  CHECK(found(files, kOther.string()) == checkpoint(kOther, 7));
  CHECK(found(files, kRun.string(), kOther) == checkpoint(kRun, 10));  // passes over 15
}

TEST_CASE("a named checkpoint that is not there or not whole is an error on all ranks") {
  MemoryFiles files("/runs");
  add_runs(files);
  CHECK_THAT(found(files, "6"), ContainsSubstring("--resume 6") &&
                                    ContainsSubstring(checkpoint(kRun, 6).string()) &&
                                    ContainsSubstring("is no checkpoint"));
  CHECK_THAT(found(files, "/runs/c"), ContainsSubstring("--resume /runs/c"));
  for (const std::string& from : {std::string("15"), checkpoint(kRun, 15).string()}) {
    CHECK_THAT(found(files, from), ContainsSubstring("--resume " + from) &&
                                       ContainsSubstring("weights") &&
                                       ContainsSubstring("missing"));
  }
  for (const std::string& from : {std::string("auto"), std::string("10"), std::string("6")}) {
    std::mutex mutex;
    std::vector<std::string> results;
    run_ranks(3, [&](Ranks& group) {
      std::string result;
      try {
        result = find_resume(files, {.from = from, .allowed = {}}, kRun, group)->folder.string();
      } catch (const ConfigError& error) {
        result = error.what();
      }
      const std::lock_guard lock(mutex);
      results.push_back(result);
    });
    CHECK(results == std::vector<std::string>(3, found(files, from)));
  }
}

TEST_CASE("each key that changes the numbers is refused unless it is allowed") {
  RunConfig before = tiny_config();
  before.run.dtype = DType::kBF16;
  before.optimizer.gradient_dtype = DType::kF32;
  before.run.steps = 20;
  before.adapter.emplace();
  CHECK(complaint(before, before) == "");
  CHECK(lines(before, before).empty());
  for (const KeyRule& rule : resume_rules()) {
    if (rule.effect == KeyEffect::kNumbers) CHECK(kNumberChanges.contains(std::string(rule.path)));
  }
  for (const auto& [key, change] : kNumberChanges) {
    INFO(key);
    RunConfig now = before;
    change(now);
    CHECK_THAT(complaint(before, now),
               ContainsSubstring("\n  " + key + ": was ") && ContainsSubstring("--allow " + key));
    CHECK_THAT(complaint(before, now, {"run.steps", "optimizer.lr_other"}),
               ContainsSubstring("--allow " + key));
    CHECK(complaint(before, now, {key}) == "");
    const std::vector<std::string> shown = lines(before, now, {key});
    REQUIRE(shown.size() == 1);
    CHECK_THAT(shown[0], ContainsSubstring(key + ": was "));
    CHECK_THAT(complaint(now, before), ContainsSubstring("--allow " + key));  // and back again
  }
  RunConfig two = before;
  two.run.seed = 7;
  two.optimizer.eps = 2;
  CHECK_THAT(complaint(before, two, {"run.seed"}),
             ContainsSubstring("--allow optimizer.eps") && !ContainsSubstring("--allow run.seed"));
  CHECK(complaint(before, two, {"run.seed", "optimizer.eps"}) == "");
}

TEST_CASE("every key is sorted into those that are free to change and those that are not") {
  std::vector<std::string> sorted;
  for (const KeyRule& rule : resume_rules()) sorted.emplace_back(rule.path);
  std::vector<std::string> keys;
  RunConfig config = tiny_config();
  config.model.llama.rope_scaling = RopeScaling{};
  config.adapter.emplace();
  for (const FieldText& field : field_texts(config)) keys.push_back(field.path);
  for (std::vector<std::string>* list : {&sorted, &keys}) std::ranges::sort(*list);
  CHECK(sorted == keys);  // a new key needs a row in src/train/resume_keys.cpp
  CHECK(std::ranges::adjacent_find(sorted) == sorted.end());
  CHECK(effect_of("data.invented") == KeyEffect::kNumbers);
}

TEST_CASE("levels of what is spilled count where they are given and it is rounded") {
  RunConfig before = tiny_config();
  before.schedule.activations = KeepLevel::kSelective;
  before.schedule.spill = KeepLevel::kSelective;
  RunConfig now = before;
  now.schedule.activations = KeepLevel::kAttention;
  now.schedule.spill = KeepLevel::kAttention;
  CHECK(complaint(before, now) == "");
  before.schedule.spill_dtype = now.schedule.spill_dtype = BoundaryForm::kInt8;
  CHECK_THAT(complaint(before, now), ContainsSubstring("--allow schedule.activations") &&
                                         ContainsSubstring("--allow schedule.spill)"));
  now.schedule.activations.reset();
  now.schedule.spill.reset();
  CHECK(complaint(before, now) == "");
}

TEST_CASE("a key that turns something off is no open key") {
  RunConfig before = tiny_config();
  before.optimizer.grad_clip = 1;
  before.data.eos_token = 3;
  RunConfig now = before;
  now.optimizer.grad_clip.reset();
  now.data.eos_token.reset();
  CHECK_THAT(complaint(before, now), ContainsSubstring("--allow optimizer.grad_clip") &&
                                         ContainsSubstring("--allow data.eos_token"));
}

TEST_CASE("gradients of an open dtype are compared by what it stands for") {
  RunConfig before = tiny_config();
  before.run.dtype = DType::kBF16;
  before.optimizer.gradient_dtype = DType::kBF16;  // as a manifest has it
  RunConfig now = before;
  now.optimizer.gradient_dtype.reset();
  CHECK(complaint(before, now) == "");
  before.optimizer.gradient_dtype = DType::kF32;
  CHECK_THAT(complaint(before, now), ContainsSubstring("--allow optimizer.gradient_dtype"));
}

TEST_CASE("what only says where and how fast may differ, and is shown") {
  const RunConfig before = tiny_config();
  RunConfig now = before;
  now.run.threads = 1;
  now.run.output = "elsewhere";
  now.run.steps = 50;  // at a constant learning rate
  now.schedule.sub_batches = 3;
  now.schedule.passes = 2;
  now.schedule.resident_units = 2;
  now.optimizer.timing = UpdateTiming::kSpeculative;
  now.optimizer.interleave = 1;
  now.checkpoint.keep = 7;
  const std::vector<std::string> shown = lines(before, now);
  CHECK(shown.size() == 9);
  CHECK(std::ranges::find(shown, "run.steps: was 3, is 50") != shown.end());
}

TEST_CASE("keys that the planner chooses are open") {
  RunConfig before = tiny_config();
  before.schedule.weight_slots = 2;
  before.schedule.activation_slots = 9;
  before.optimizer.deferred_units = 1;
  before.optimizer.interleave = 0.5;
  RunConfig now = before;
  now.schedule.weight_slots.reset();
  now.schedule.activation_slots.reset();
  now.schedule.resident_units.reset();
  now.schedule.gradient_sums = GradientSums::kAuto;
  now.optimizer.deferred_units.reset();
  now.optimizer.interleave.reset();
  now.run.backend = BackendChoice::kAuto;
  CHECK(lines(before, now).empty());
}

TEST_CASE("more steps need leave where the learning rate ends with the run") {
  for (const LrSchedule schedule : {LrSchedule::kLinear, LrSchedule::kCosine, LrSchedule::kWsd}) {
    INFO(enum_name(kLrScheduleNames, schedule));
    RunConfig before = tiny_config();
    before.optimizer.lr_schedule = schedule;
    RunConfig now = before;
    now.run.steps = 50;
    CHECK_THAT(complaint(before, now), ContainsSubstring("run.steps: was 3, is 50 (--allow"));
    CHECK(complaint(before, now, {"run.steps"}) == "");
  }
}

TEST_CASE("adapters go on as adapters of the same shapes, and whole models as whole models") {
  const RunConfig whole = tiny_config();
  RunConfig adapters = whole;
  adapters.adapter.emplace();
  CHECK(complaint(adapters, adapters) == "");
  CHECK_THAT(complaint(adapters, whole), ContainsSubstring("holds adapters alone"));
  CHECK_THAT(complaint(whole, adapters), ContainsSubstring("holds a whole model"));
  RunConfig wider = adapters;
  wider.adapter->rank = 9;
  CHECK_THAT(complaint(adapters, wider, {"adapter.alpha"}),
             ContainsSubstring("adapter.rank: was 8, is 9 (another model"));
  RunConfig more = adapters;
  more.adapter->modules_to_save = {"lm_head"};
  CHECK_THAT(complaint(adapters, more), ContainsSubstring("adapter.modules_to_save: was"));
}

TEST_CASE("adapters go on where other names mean the same modules that are trained whole") {
  RunConfig before = tiny_config();
  before.adapter = AdapterConfig{.modules_to_save = {"lm_head", "norm"}};
  RunConfig now = before;
  now.adapter->modules_to_save = {"model.norm", "lm_head", "lm_head"};
  CHECK(complaint(before, now) == "");
  now.adapter->modules_to_save.emplace_back("embed_tokens");
  CHECK_THAT(complaint(before, now), ContainsSubstring("adapter.modules_to_save: was"));
  for (RunConfig* config : {&before, &now}) config->model.llama.tie_word_embeddings = true;
  CHECK(complaint(before, now) == "");
}

TEST_CASE(
    "another optimizer is refused and cannot be allowed, as its moments mean something else") {
  const RunConfig before = tiny_config();
  RunConfig now = before;
  now.optimizer.kind = OptimizerKind::kLion;
  for (const std::vector<std::string>& allowed : {{}, std::vector<std::string>{"optimizer.kind"}}) {
    CHECK_THAT(complaint(before, now, allowed),
               ContainsSubstring("optimizer.kind: was \"adamw\", is \"lion\" (the moments mean") &&
                   ContainsSubstring("model.path = /run/checkpoints/step-00000005/model"));
  }
}

TEST_CASE("another model is refused and cannot be allowed") {
  const std::map<std::string, Change> changes{
      {"model.vocab_size", [](RunConfig& c) { c.model.llama.vocab_size = 62; }},
      {"model.hidden_size", [](RunConfig& c) { c.model.llama.hidden_size = 24; }},
      {"model.intermediate_size", [](RunConfig& c) { c.model.llama.intermediate_size = 29; }},
      {"model.num_hidden_layers", [](RunConfig& c) { c.model.llama.num_hidden_layers = 4; }},
      {"model.num_attention_heads", [](RunConfig& c) { c.model.llama.num_attention_heads = 2; }},
      {"model.num_key_value_heads",
       [](RunConfig& c) { c.model.llama.num_key_value_heads.reset(); }},
      {"model.head_dim", [](RunConfig& c) { c.model.llama.head_dim.reset(); }},
      {"model.rope_theta", [](RunConfig& c) { c.model.llama.rope_theta = 5e5; }},
      {"model.rope_scaling.rope_type",
       [](RunConfig& c) {
         c.model.llama.rope_scaling = RopeScaling{.rope_type = RopeType::kLlama3};
       }},
      {"model.rms_norm_eps", [](RunConfig& c) { c.model.llama.rms_norm_eps = 1e-6; }},
      {"model.tie_word_embeddings", [](RunConfig& c) { c.model.llama.tie_word_embeddings = true; }},
      {"model.attention_bias", [](RunConfig& c) { c.model.llama.attention_bias = true; }},
      {"model.mlp_bias", [](RunConfig& c) { c.model.llama.mlp_bias = true; }},
  };
  const RunConfig before = tiny_config();
  for (const auto& [key, change] : changes) {
    INFO(key);
    RunConfig now = before;
    change(now);
    CHECK_THAT(complaint(before, now, {key}),
               ContainsSubstring(key + ": was ") && ContainsSubstring("another model"));
    CHECK_THAT(complaint(now, before, {key}), ContainsSubstring("another model"));
  }
  RunConfig resized = before;
  resized.model.llama.vocab_size += 2;
  CHECK_THAT(complaint(before, resized),
             ContainsSubstring("no place for other tokens: begin a new run with model.path = "));
  // The same model in other words.
  RunConfig now = before;
  now.model.llama.rope_scaling = RopeScaling{};
  CHECK(complaint(before, now) == "");
  RunConfig open = before;
  open.model.llama.num_key_value_heads.reset();
  now = open;
  now.model.llama.num_key_value_heads = open.model.llama.num_attention_heads;
  CHECK(complaint(now, open) + complaint(open, now) == "");
  now.model.path = "elsewhere";
  CHECK(complaint(open, now) == "");
}

TEST_CASE("old checkpoints go, but never the newest whose loss was finite") {
  const auto kept = [](const std::map<std::int64_t, bool>& finite, std::int64_t keep) {
    MemoryFiles files("/runs");
    for (const auto& [step, is_finite] : finite) add_checkpoint(files, kRun, step, is_finite);
    const fs::path folder = kRun / kCheckpointsName;
    const std::vector<std::int64_t> gone =
        remove_old_checkpoints(files, folder, finite.rbegin()->first, {.keep = keep});
    const std::vector<std::int64_t> left = list_checkpoints(files, folder);
    CHECK(gone.size() + left.size() == finite.size());
    CHECK(files.list(folder).size() == left.size());
    for (const std::int64_t step : left) {
      CHECK(read_manifest(files, checkpoint(kRun, step)).step == step);
    }
    return left;
  };
  using Steps = std::vector<std::int64_t>;
  CHECK(kept({{1, true}, {2, true}, {3, true}}, 1) == Steps{3});
  CHECK(kept({{1, true}, {2, true}, {3, true}}, 2) == Steps{2, 3});
  CHECK(kept({{1, true}, {2, true}, {3, true}}, 5) == Steps{1, 2, 3});
  CHECK(kept({{1, true}, {2, true}, {3, false}}, 1) == Steps{2, 3});
  CHECK(kept({{1, true}, {2, false}, {3, false}, {4, false}}, 1) == Steps{1, 4});
  CHECK(kept({{1, true}, {2, false}, {3, false}, {4, false}}, 2) == Steps{1, 3, 4});
  CHECK(kept({{1, false}, {2, false}, {3, false}}, 1) == Steps{3});
}

TEST_CASE("folders of other names are no checkpoints") {
  CHECK(step_of_name("step-00000012") == 12);
  CHECK(step_of_name("step-123456789") == 123'456'789);
  for (const char* name :
       {"step-12", "step-000000012", "step-0000001x", "step--0000001", "step-", "Step-00000012",
        ".unfinished-step-00000012-1", "step-00000012.old", "step-00000012.abandoned"}) {
    INFO(name);
    CHECK(!step_of_name(name));
  }
}

TEST_CASE("a run goes on from its own checkpoint where --resume auto would find it again") {
  const auto own = [](const fs::path& run, const fs::path& from, std::int64_t step) {
    CheckpointPlace place{.files = nullptr, .folder = run / kCheckpointsName, .resume = {}};
    if (from.empty()) return place.resumes_own();
    place.resume.emplace();
    place.resume->folder = from;
    place.resume->manifest.step = step;
    return place.resumes_own();
  };
  CHECK(!own(kRun, "", 0));  // it begins
  CHECK(own(kRun, checkpoint(kRun, 5), 5));
  CHECK(own(kRun / "../a/", checkpoint(kRun, 5), 5));
  CHECK(own(fs::relative(kRun), checkpoint(kRun, 5), 5));
  CHECK(!own(kRun, checkpoint(kOther, 5), 5));
  CHECK(!own(kRun, checkpoint(kRun, 5).string() + ".abandoned", 5));

  const ScratchFolder folder;
  fs::create_directories(folder.file("run"));
  fs::create_directory_symlink(folder.file("run"), folder.file("latest"));
  CHECK(own(folder.file("latest"), checkpoint(folder.file("run"), 5), 5));
}

TEST_CASE("what is allowed in vain is refused with what may be allowed") {
  const auto refusal = [](const ResumeRequest& request) -> std::string {
    try {
      require_allowable(request);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(refusal({.from = "", .allowed = {}}).empty());
  CHECK(refusal({.from = "auto", .allowed = {"optimizer.lr", "run.steps"}}).empty());
  CHECK_THAT(refusal({.from = "", .allowed = {"optimizer.lr"}}), ContainsSubstring("by --resume"));
  CHECK_THAT(refusal({.from = "auto", .allowed = {"run.seed", "optimizer.lrr"}}),
             ContainsSubstring("--allow optimizer.lrr: did you mean optimizer.lr?"));
  CHECK_THAT(refusal({.from = "9", .allowed = {"run.output"}}),
             ContainsSubstring("--allow run.output: no key of this name changes the numbers") &&
                 ContainsSubstring("run.seed, run.steps, run.dtype"));
  CHECK_THAT(refusal({.from = "9", .allowed = {"model.hidden_size"}}),
             ContainsSubstring("another model cannot be allowed"));
  CHECK_THAT(refusal({.from = "auto", .allowed = {"optimizer.kind"}}),
             ContainsSubstring("moments mean something else to another optimizer"));
}

}  // namespace strata::test
