// Tests configs: defaults, keys and their values, the rules between keys with the remedies that
// they name, and that the configs in configs/ are valid.

#include "strata/config/config.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/stop_signals.h"
#include "strata/base/suggestion.h"
#include "strata/config/assignments.h"
#include "support/catch.h"
#include "support/places.h"

namespace {

namespace fs = std::filesystem;
using strata::ConfigError;
using strata::RunConfig;
using strata::TrainingData;
using namespace std::string_literals;

/// A folder that is removed at the end.
struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "strata_config_XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] fs::path write(const std::string& name, const std::string& text) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name) << text;
    return path / name;
  }
  fs::path path;
};

const std::string kMinimal = R"({
  "model": {"vocab_size": 100, "hidden_size": 32, "intermediate_size": 48,
            "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64},
  "data": {"train": "corpus.bin", "sequence_length": 64}
})";

RunConfig minimal(const std::vector<std::string>& sets = {},
                  TrainingData training_data = TrainingData::kRequired) {
  const Folder folder;
  return strata::load_run_config(folder.write("run.json", kMinimal), sets, training_data);
}

std::string complaint(const std::vector<std::string>& sets) {
  try {
    minimal(sets);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

fs::path shipped(const std::string& name) {
  return fs::path(strata::test::configs_folder()) / name;
}

}  // namespace

TEST_CASE("a minimal config has the documented defaults") {
  const RunConfig c = minimal();
  CHECK(c.run.seed == 1);
  CHECK(c.run.dtype == strata::DType::kBF16);
  CHECK(c.run.output == "runs/default");
  CHECK(c.model.llama.kv_heads() == 4);
  CHECK_FALSE(c.schedule.weight_slots.has_value());
  CHECK(c.schedule.gradient_slots == 2);
  CHECK_FALSE(c.schedule.activations.has_value());
  CHECK(c.optimizer.betas[1] == 0.95);
  CHECK_FALSE(c.optimizer.grad_clip.has_value());
  CHECK_FALSE(c.memory.device_limit.has_value());
  CHECK(c.kernels.matmul_tuning == strata::MatmulTuning::kAuto);
  CHECK_FALSE(c.kernels.plan_cache.has_value());
  CHECK(c.debug.execution == strata::Execution::kThreads);
}

TEST_CASE("matrix products are tuned as the config says, and strictly so") {
  CHECK(minimal({"kernels.matmul_tuning=off"}).kernels.matmul_tuning == strata::MatmulTuning::kOff);
  CHECK(minimal({"kernels.plan_cache=/somewhere"}).kernels.plan_cache == "/somewhere");
  REQUIRE_THAT(complaint({"kernels.matmul_tuning=on"}),
               ContainsSubstring("kernels.matmul_tuning") && ContainsSubstring("off"));
  REQUIRE_THAT(complaint({"kernels.plans=x"}), ContainsSubstring("kernels.plans"));
}

TEST_CASE("what cells spill is auto, off or a level by name") {
  using strata::KeepLevel;
  CHECK_FALSE(minimal({"schedule.spill=auto"}).schedule.spill.has_value());
  CHECK(minimal({"schedule.spill=off"}).schedule.spill == KeepLevel::kRecompute);
  CHECK(minimal({"schedule.spill=selective"}).schedule.spill == KeepLevel::kSelective);
  CHECK_THAT(complaint({"schedule.spill=recompute"}),
             ContainsSubstring("schedule.spill") && ContainsSubstring("off"));
  const RunConfig c = minimal({"memory.spill_limit=3GiB", "hardware.link_gbs=20"});
  CHECK(c.memory.spill_limit->bytes == std::size_t{3} << 30);
  CHECK(c.hardware.link_gbs == 20);
}

TEST_CASE("boundaries in int8 need a level by name and slots that forward does not run out of") {
  const std::string int8 = "schedule.spill_dtype=int8";
  const std::string level = "schedule.activations=recompute";
  CHECK(minimal({int8, level}).schedule.spill_dtype == strata::BoundaryForm::kInt8);
  CHECK_THAT(complaint({int8}), ContainsSubstring("schedule.activations: must name a level"));
  CHECK_THAT(complaint({int8, level, "schedule.sub_batches=4", "schedule.activation_slots=4"}),
             ContainsSubstring("schedule.activation_slots: must be at least"));
  CHECK(complaint({int8, level, "schedule.sub_batches=4", "schedule.activation_slots=5"}) ==
        "no error");
}

TEST_CASE("what cells keep is auto or a level by name") {
  using strata::KeepLevel;
  CHECK_FALSE(minimal({"schedule.activations=auto"}).schedule.activations.has_value());
  for (const KeepLevel level : strata::kKeepLevels) {
    const std::string name(strata::name_of(level));
    CHECK(minimal({"schedule.activations=" + name}).schedule.activations == level);
  }
  for (const std::string value : {"most", "4", "null"}) {
    CHECK_THAT(complaint({"schedule.activations=" + value}),
               ContainsSubstring("schedule.activations") && ContainsSubstring("attention_out"));
  }
}

TEST_CASE("tokens of a step are rows of all sub-batches and passes") {
  CHECK(
      minimal({"schedule.rows=3", "schedule.sub_batches=5", "schedule.passes=2"}).step_tokens(1) ==
      3 * 5 * 2 * 64);
}

TEST_CASE("cross-field rules name the key and the remedy") {
  struct Case {
    std::vector<std::string> sets;
    std::string expected;
  };
  const std::vector<Case> cases{
      {{"optimizer.timing=on_arrival", "optimizer.grad_clip=1"},
       "optimizer.grad_clip: needs the norm of all gradients"},
      {{"optimizer.timing=speculative"},
       "optimizer.timing: \"speculative\" updates as if nothing were clipped"},
      {{"optimizer.timing=speculative", "optimizer.grad_clip=1", "optimizer.gradient_ring=4"},
       "optimizer.gradient_ring: lets gradients go as they are used"},
      {{"optimizer.grad_clip=1", "optimizer.undo_log=1GiB"},
       "optimizer.undo_log: belongs to optimizer.timing \"speculative\""},
      {{"run.dtype=f64", "optimizer.gradient_dtype=bf16"},
       "optimizer.gradient_dtype: bf16 would undo run.dtype f64"},
      {{"optimizer.warmup_steps=101"},
       "optimizer.warmup_steps: is above run.steps (100), so the learning rate would never reach"},
      {{"optimizer.gradient_dtype=f64"}, "optimizer.gradient_dtype: expected one of"},
      {{"optimizer.gradient_ring=4"},
       "optimizer.gradient_ring: lets gradients go as they are used"},
      {{"optimizer.gradient_ring=4", "optimizer.timing=on_arrival", "schedule.passes=2"},
       "optimizer.gradient_ring: has no place in which several passes are summed; set "
       "schedule.gradient_sums to \"device\""},
      {{"optimizer.gradient_ring=4", "optimizer.timing=on_arrival", "optimizer.deferred_units=3"},
       "optimizer.gradient_ring: must be at least optimizer.deferred_units + 2"},
      {{"optimizer.gradient_ring=1", "optimizer.timing=on_arrival"},
       "optimizer.gradient_ring: must be at least optimizer.deferred_units + 2"},
      {{"run.dtype=f64", "optimizer.moment_dtype=bf16"},
       "optimizer.moment_dtype: bf16 would undo run.dtype f64"},
      {{"run.dtype=f64", "optimizer.moment_dtype=8bit"},
       "optimizer.moment_dtype: 8bit would undo run.dtype f64"},
      {{"run.dtype=f64", "optimizer.gradient_dtype=f32", "run.backend=cuda"}, "run.dtype: f64"},
      {{"run.products=fp8", "run.dtype=f32"},
       "run.products: in e4m3 stand in for products in bf16"},
      {{"run.products=e5m2"}, "run.products: expected one of"},
      {{R"(run.products_bf16=["down"])"}, "run.products_bf16: names what"},
      {{"run.products=fp8", R"(run.products_bf16=["down", "mlp"])"},
       "run.products_bf16: has \"mlp\"; name linears (qkv, attention_out, gate_up, down) or layers "
       "(layers.0 to layers.1)"},
      {{"run.products=fp8", R"(run.products_bf16=["layers.2"])"}, "has \"layers.2\""},
      {{"run.products=fp8", R"(run.products_bf16=["layers.01"])"}, "has \"layers.01\""},
      {{"run.products=fp8", R"(run.products_bf16=["layers.-1"])"}, "has \"layers.-1\""},
      {{"run.products=fp8", R"(run.products_bf16=["layers.99999999999999999999"])"},
       "has \"layers.99999999999999999999\""},
      {{"run.products=fp8", "run.backend=cuda", "model.hidden_size=40", "model.head_dim=8"},
       "run.products: in e4m3 need model.hidden_size to be a multiple of 16"},
      {{"run.products=fp8", "run.backend=cuda", "model.intermediate_size=56"},
       "run.products: in e4m3 need model.intermediate_size to be"},
      {{"run.products=fp8", "run.backend=cuda", "model.head_dim=6"},
       "run.products: in e4m3 need the width of queries to be"},
      {{"run.products=fp8_all", "run.backend=cuda", "data.sequence_length=60", "schedule.rows=2"},
       "run.products: \"fp8_all\" sums over the tokens of a sub-batch"},
      {{"adapter.rank=0"}, "adapter.rank: "},
      {{R"(adapter.targets=["w_proj"])"}, "adapter.targets: \"w_proj\" is no linear"},
      {{"adapter.layers=[2]"}, "adapter.layers: must be whole numbers"},
      {{R"(adapter.modules_to_save=["norm", "up_proj"])"},
       "adapter.modules_to_save: \"up_proj\" is a linear of layers"},
      {{"adapter.path=peft"}, "adapter.path: names adapters for the weights of a model"},
      {{"adapter.rank=4", "checkpoint.weights_every_steps=5"},
       "checkpoint.weights_every_steps: saves weights of a whole model"},
      {{"kernels.attention=cudnn", "run.backend=cpu"}, "kernels.attention: \"cudnn\" needs a GPU"},
      {{"kernels.attention=cudnn", "run.backend=cuda", "run.dtype=f32"},
       "kernels.attention: \"cudnn\" computes in bf16 only"},
      {{"kernels.attention=cudnn", "run.backend=cuda", "run.dtype=bf16", "data.document_mask=true"},
       "kernels.attention: \"cudnn\" has no document masks"},
      {{"kernels.attention=fast"}, "kernels.attention: expected one of"},
      {{"data.sequence_length=65"},
       "data.sequence_length: is above model.max_position_embeddings (64)"},
      {{"data.sequence_length=0"}, "data.sequence_length: is required"},
      {{"data.train="}, "data.train: is required"},
      {{"data.synthetic=true"}, "data.synthetic: excludes data.train"},
      {{R"(data.train=["a.bin", "b.bin", "a.bin"])"}, "data.train: names a.bin twice"},
      {{R"(data.train=[{"path": "a.bin", "weight": 1}, {"path": "b.bin", "weight": 0}])"},
       "data.train: needs weights above 0"},
      {{R"(data.train=[{"path": "a.bin", "weight": 1}, {"path": "b.bin", "weight": 1e-5}])"},
       "data.train: needs weights above 0, each of at least 1/65536"},
      {{R"(data.validation=[{"path": "a", "weight": 1}, {"path": "b", "weight": 1}])"},
       "data.validation: is one set without weights"},
      {{"data.eos_token=100"}, "data.eos_token: must be from 0 to below model.vocab_size"},
      {{"run.eval_every=10"}, "run.eval_every: needs data.validation"},
      {{"run.patience=3"}, "run.patience: counts validations, and there are none; set"},
      {{"checkpoint.keep_best=1"}, "checkpoint.keep_best: goes by validation losses, and"},
      {{"checkpoint.keep_best=1", "run.eval_every=20", "data.validation=held-out.bin",
        "checkpoint.every_steps=7"},
       "checkpoint.keep_best: finds no checkpoint before the last"},
      {{"checkpoint.keep_best=1", "run.eval_every=20", "data.validation=held-out.bin"},
       "or milestone_steps, to run.eval_every (20) or a multiple"},
      {{"data.document_mask=true", "data.dtype=u16"}, "data.eos_token: is required where"},
      {{"data.document_mask=true", "data.sequence_length=32", "model.model_type=phi3",
        R"(model.rope_scaling={"rope_type": "longrope", "original_max_position_embeddings": 16,
                               "short_factor": [1, 1, 1, 1], "long_factor": [1, 2, 3, 4]})"},
       "data.document_mask: cannot be true with longrope and rows of more than"},
      {{"data.sequence_length=32", "model.model_type=ministral3", "model.llama_4_scaling_beta=0.1",
        R"(model.rope_scaling={"rope_type": "yarn", "factor": 2,
                               "original_max_position_embeddings": 16})"},
       "data.sequence_length: is above model.rope_scaling.original_max_position_embeddings (16)"},
      {{"data.packing=true"}, "data.packing: needs documents that do not see each other"},
      {{"data.packing=true", "data.document_mask=true", "data.synthetic=true"},
       "data.packing: needs documents, which data.synthetic has none of"},
      {{"data.overlong=split"}, "data.overlong: expected one of"},
      {{"train.objective=kto"}, "train.objective: expected one of"},
      {{"train.objective=dpo"}, "train.objective: compares with the model without adapters"},
      {{"train.reference=stored"}, "train.reference: belongs to train.objective"},
      {{"train.objective=orpo", "train.reference=stored"},
       "train.reference: belongs to train.objective"},
      {{"train.objective=dpo", "train.reference=stored", "model.path="},
       "train.reference: is of the model that the run starts from"},
      {{"train.objective=ipo", "adapter.rank=4", "adapter.path=old", "model.path="},
       "train.objective: would compare with the model without the adapters of adapter.path"},
      {{"train.objective=dpo", R"(adapter.modules_to_save=["lm_head"])"},
       "train.objective: would compare with the model as it was, whose modules of"},
      {{"train.objective=simpo"}, "data.packing: must be true with this train.objective"},
      {{"train.objective=orpo"}, "data.overlong: must be \"drop\" with this train.objective"},
      {{"train.objective=orpo", "data.sequence_length=30"},
       "data.sequence_length: must be a multiple of 4"},
      {{"train.objective=simpo", "data.synthetic=true"}, "data.synthetic: has no pairs of answers"},
      {{"train.beta=0.2"}, "train.beta: belongs to an objective of preferences"},
      {{"train.objective=dpo", "train.beta=0"}, "train.beta: must be in [1e-06, 1000000]"},
      {{"train.objective=ipo", "train.beta=1e-50"}, "train.beta: must be in [1e-06, 1000000]"},
      {{"train.objective=orpo", "train.gamma=1"}, "train.gamma: belongs to train.objective"},
      {{"train.objective=ipo", "train.label_smoothing=0.1"},
       "train.label_smoothing: belongs to train.objective"},
      {{"train.label_smoothing=0.6"}, "train.label_smoothing: must be in [0, 0.5]"},
      {{"run.trace_step=100"}, "run.trace_step: and the step after it are traced"},
      {{"run.trace_step=9223372036854775807"}, "run.trace_step: and the step after it are traced"},
      {{"run.trace_step=0"}, "run.trace_step: must be from 1"},
      {{"run.trace_step=1", "run.eval_every=1"}, "run.trace_step: needs two steps without"},
      {{"run.steps=0"}, "run.steps: must be from 1"},
      {{"run.threads=-1"}, "run.threads: must be from 0"},
      {{"run.fp8_metrics_every=-1"}, "run.fp8_metrics_every: must be from 0"},
      {{"run.output="}, "run.output: names the run folder"},
      {{"schedule.rows=0"}, "schedule.rows: must be from 1"},
      {{"schedule.rows=1e9"}, "schedule.rows: times data.sequence_length must be below 2^31"},
      {{"schedule.passes=65537"}, "schedule.passes: must be from 1 to 65536"},
      {{"schedule.rows=16777216", "schedule.sub_batches=65536", "schedule.passes=65536"},
       "schedule.passes: times rows, schedule.sub_batches and data.sequence_length must be at "
       "most 2^56"},
      {{"model.intermediate_size=9223372036854775807"},
       "schedule.rows: times data.sequence_length, schedule.sub_batches and the model's layers"},
      {{"run.loss_outlier_z=0"}, "run.loss_outlier_z: must be above 0"},
      {{"run.watchdog_s=-1"}, "run.watchdog_s: must be at least 1 s"},
      {{"run.watchdog_s=0.5"}, "run.watchdog_s: must be at least 1 s"},
      {{"run.norm_outlier_z=-1"}, "run.norm_outlier_z: must be above 0"},
      {{"run.on_nonfinite=skip", "optimizer.timing=on_arrival"},
       "run.on_nonfinite: cannot be \"skip\" with optimizer.timing \"on_arrival\""},
      {{"run.on_nonfinite=rollback"}, "run.on_nonfinite: \"rollback\" needs checkpoints"},
      {{"schedule.sub_batches=349526"},  // times 3 boundaries: 2^20 + 2
       "schedule.sub_batches: times (model.num_hidden_layers + 1) must be at most 2^20"},
      {{"schedule.sub_batches=2000000000"},
       "schedule.sub_batches: times (model.num_hidden_layers + 1) must be at most 2^20"},
      {{"model.head_dim=258", "run.backend=cuda"},
       "model.head_dim: is at most 256 on the cuda backend, not 258; set run.backend to \"cpu\""},
      {{"model.hidden_size=1088", "run.backend=cuda"}, "model.head_dim: is at most 256"},
      {{"schedule.weight_slots=0"}, "schedule.weight_slots: must be from 1"},
      {{"schedule.activation_slots=1"}, "schedule.activation_slots: must be from 2"},
      {{"schedule.spill_slots=0"}, "schedule.spill_slots: must be from 1"},
      {{"schedule.spill=off", "memory.spill_limit=1GiB"}, "memory.spill_limit: belongs to"},
      {{"hardware.link_gbs=0"}, "hardware.link_gbs: must be above 0; null: "},
      {{"optimizer.lr=-1"}, "optimizer.lr: must not be negative"},
      {{"optimizer.betas=[0.9, 1]"}, "optimizer.betas: must both be in [0, 1)"},
      {{"optimizer.grad_clip=0"}, "optimizer.grad_clip: must be above 0; null turns clipping off"},
      {{"optimizer.interleave=1.1"}, "optimizer.interleave: must be in [0, 1]"},
      {{"optimizer.interleave=-0.5"}, "optimizer.interleave: must be in [0, 1]"},
      {{"optimizer.lr_schedule=wsd"}, "optimizer.wsd_decay_steps: is required"},
      {{"optimizer.wsd_decay_steps=5"}, "optimizer.wsd_decay_steps: belongs to"},
      {{"optimizer.warmup_steps=-1"}, "optimizer.warmup_steps: must be"},
      {{"optimizer.lr_schedule=wsd", "optimizer.wsd_decay_steps=60", "optimizer.warmup_steps=41"},
       "optimizer.warmup_steps: and wsd_decay_steps together are above run.steps (100)"},
      {{"optimizer.min_lr_ratio=0.1"}, "optimizer.min_lr_ratio: has no effect on a constant"},
      {{"optimizer.master=none", "run.dtype=f32"}, "optimizer.master: \"none\" is for weights in"},
      {{"optimizer.momentum=0.8"}, "optimizer.momentum: belongs to optimizer.kind \"sgd\""},
      {{"optimizer.kind=lion", "optimizer.nesterov=true"}, "optimizer.nesterov: belongs to"},
      {{"optimizer.kind=sgd", "optimizer.momentum=1"}, "optimizer.momentum: must be in [0, 1)"},
      {{"optimizer.kind=sgd", "optimizer.momentum=0", "optimizer.nesterov=true"},
       "optimizer.nesterov: looks ahead by optimizer.momentum"},
      {{"optimizer.kind=sgd", "optimizer.betas=[0.9, 0.99]"}, "optimizer.betas: are not sgd's"},
      {{"optimizer.kind=lion", "optimizer.eps=1e-6"}, "optimizer.eps: belongs to"},
      {{"optimizer.kind=lion", "optimizer.moment_dtype=8bit"}, "optimizer.moment_dtype: 8bit is"},
      {{"optimizer.kind=muon", "optimizer.momentum=0.8"},
       "optimizer.momentum: belongs to optimizer.kind \"sgd\"; set optimizer.muon_momentum"},
      {{"optimizer.muon_momentum=0.9"}, "optimizer.muon_momentum: belongs to"},
      {{"optimizer.kind=muon", "optimizer.muon_momentum=1"},
       "optimizer.muon_momentum: must be in [0, 1)"},
      {{"optimizer.kind=muon", "optimizer.moment_dtype=8bit"}, "optimizer.moment_dtype: 8bit is"},
      {{"optimizer.kind=muon", R"(adapter.targets=["q_proj"])"},
       "optimizer.kind: \"muon\" leaves adapters and adapter.modules_to_save to AdamW"},
      {{"optimizer.kind=muon", "optimizer.timing=on_arrival"},
       "optimizer.timing: must be \"before_use\" with optimizer.kind \"muon\""},
      {{"optimizer.kind=muon", "optimizer.interleave=0.5"}, "optimizer.interleave: must be 0 with"},
      {{"optimizer.kind=muon", "schedule.resident_units=1"},
       "schedule.resident_units: must be 0 with optimizer.kind \"muon\""},
      {{R"(optimizer.lr_factors=["lm_head.weight"])"},
       "optimizer.lr_factors: \"lm_head.weight\" is not a name and its value"},
      {{R"(optimizer.lr_factors=["lm_head.weight=-1"])"}, "is not a name and its value"},
      {{R"(optimizer.weight_decays=["*.k_proj.bias=0"])"},
       "optimizer.weight_decays: \"*.k_proj.bias=0\" matches no tensor that is trained"},
      {{R"(optimizer.weight_decays=["lm_head.weights=0"])"}, "did you mean lm_head.weight?"},
      {{R"(optimizer.lr_factors=["*lora_B*=16"])"}, "matches no tensor that is trained"},
      {{R"(optimizer.lr_factors=["model.embed_tokens.weight=2"])", R"(adapter.targets=["q_proj"])"},
       "matches no tensor that is trained"},
      {{R"(optimizer.lr_factors=["*.k_proj.weight=2"])", "optimizer.moment_dtype=8bit",
        "model.hidden_size=20", "model.head_dim=6"},
       "optimizer.moment_dtype: 8bit shares scales among 64 parameters, of which"},
      {{"memory.device_limit=0"}, "memory.device_limit: must be above 0"},
      {{"hardware.peak_tflops=0"}, "hardware.peak_tflops: must be above 0"},
      {{"hardware.product_tflops=-1"}, "hardware.product_tflops: must be above 0"},
      {{"hardware.host_gbs=0"}, "hardware.host_gbs: must be above 0; null: as measured"},
      {{"hardware.nic_gbs=0"}, "hardware.nic_gbs: must be above 0; null: what hosts of such GPUs"},
      {{"hardware.collective_gbs=-1"}, "hardware.collective_gbs: must be above 0"},
      {{"hardware.disk_gbs=0"}, "hardware.disk_gbs: must be above 0; null: as measured"},
      {{"debug.disk_gbs=0"}, "debug.disk_gbs: must be above 0; null"},
      {{"model.num_key_value_heads=3"}, "model.num_key_value_heads: must divide"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.sets);
    CHECK_THAT(complaint(c.sets), ContainsSubstring(c.expected));
  }
}

TEST_CASE("a key that is gone is refused with the reason and what to do") {
  const std::vector<std::pair<std::string, std::string>> retired{
      {"schedule.direction=fixed", "sub-batches go through every unit in ascending order"},
      {"schedule.layers_per_visit=1", "a pass goes through one layer at a time"}};
  for (const auto& [set, reason] : retired) {
    const std::string key = set.substr(0, set.find('='));
    CHECK_THAT(complaint({set}), ContainsSubstring(key + ": this key is gone: " + reason) &&
                                     ContainsSubstring("; leave it out"));
  }
}

TEST_CASE("names that other trainers have are answered with the key that is meant") {
  const std::vector<std::pair<std::string, std::string>> names{
      {"learning_rate", "optimizer.lr"},
      {"num_train_epochs", "run.epochs"},
      {"max_steps", "run.steps"},
      {"per_device_train_batch_size", "schedule.rows"},
      {"gradient_accumulation_steps", "schedule.sub_batches"},
      {"warmup_ratio", "optimizer.warmup_steps"},
      {"lr_scheduler_type", "optimizer.lr_schedule"},
      {"max_grad_norm", "optimizer.grad_clip"},
      {"save_steps", "checkpoint.every_steps"},
      {"save_total_limit", "checkpoint.keep"},
      {"eval_steps", "run.eval_every"},
      {"logging_steps", "run.log_every"},
      {"max_seq_length", "data.sequence_length"},
      {"output_dir", "run.output"},
      {"model_name_or_path", "model.path"},
      {"overwrite_output_dir", "--overwrite"},
      {"bf16", "run.dtype"}};
  for (const auto& [name, key] : names) {
    CAPTURE(name);
    CHECK_THAT(complaint({name + "=1"}),
               ContainsSubstring(name + ": unknown key; here it is " + key));
    CHECK_THAT(complaint({"optimizer." + name + "=1"}), ContainsSubstring("here it is " + key));
  }
}

TEST_CASE("what a name of another trainer is answered with is a key or an option") {
  RunConfig config;
  const strata::FieldList fields = strata::fields_of(config);
  std::vector<std::string> keys;
  strata::collect_paths(fields, "", keys);
  REQUIRE_FALSE(fields.foreign().empty());
  for (const strata::ForeignName& name : fields.foreign()) {
    CAPTURE(name.name, name.key);
    const bool said_why = name.key.empty() && !name.remark.empty();
    CHECK((said_why || name.key.starts_with("--") || std::ranges::count(keys, name.key) == 1));
    CHECK(std::ranges::count(keys, name.name) == 0);
  }
}

TEST_CASE("a key is given by an assignment to it or to its section") {
  const auto gives_steps = [](const std::string& set) {
    return strata::assigns(std::vector{set}, "run.steps", "a config");
  };
  CHECK(gives_steps("run.steps=3"));
  CHECK(gives_steps(R"(run={"steps": 3})"));
  CHECK_FALSE(gives_steps("run.epochs=3"));
  CHECK_FALSE(gives_steps("data.train=run.steps=3"));
}

TEST_CASE("a run is as long as its steps or its epochs say, and not both") {
  CHECK(minimal({"run.epochs=1.5"}).run.epochs == 1.5);
  CHECK_THAT(complaint({"run.epochs=2", "run.steps=7"}),
             ContainsSubstring("run.epochs: excludes run.steps, which is given as well"));
  CHECK(complaint({"run.epochs=null", "run.steps=7"}) == "no error");
  CHECK_THAT(complaint({"run.epochs=0"}), ContainsSubstring("run.epochs: must be above 0"));
  CHECK_THAT(complaint({"run.epochs=2", "data.train=", "data.synthetic=true"}),
             ContainsSubstring("data.synthetic: has no end"));
  // The command line goes before the file.
  {
    const Folder folder;
    const std::filesystem::path file = folder.path / "config.json";
    const auto length = [&](std::vector<std::string> sets) {
      sets.emplace_back("optimizer.warmup_steps=0");
      const strata::RunSection run = strata::load_run_config(file, sets).run;
      return std::pair(run.epochs, run.steps);
    };
    strata::save_run_config(minimal({"run.steps=7"}), file);
    CHECK(length({"run.epochs=2"}).first == 2);
    strata::save_run_config(minimal({"run.epochs=2"}), file);
    CHECK(length({"run.steps=7"}) == std::pair(std::optional<double>(), std::int64_t{7}));
  }
  // Rules about steps wait until they are known.
  CHECK(complaint({"run.epochs=2", "optimizer.warmup_steps=5000"}) == "no error");
  const Folder folder;
  strata::save_run_config(minimal({"run.epochs=2"}), folder.path / "config.json");
  CHECK(strata::load_run_config(folder.path / "config.json").run.epochs == 2);
}

TEST_CASE("combinations that belong together are accepted") {
  CHECK(complaint({"optimizer.grad_clip=1"}) == "no error");
  CHECK(complaint({"optimizer.timing=on_arrival", "optimizer.deferred_units=2"}) == "no error");
  CHECK(complaint({"optimizer.timing=speculative", "optimizer.grad_clip=1",
                   "optimizer.undo_log=1GiB", "optimizer.deferred_units=2"}) == "no error");
  CHECK(complaint({"run.dtype=f64", "optimizer.gradient_dtype=f32"}) == "no error");
  CHECK(complaint({"run.dtype=f32", "optimizer.moment_dtype=bf16"}) == "no error");
  CHECK(complaint({"run.dtype=f32", "optimizer.moment_dtype=8bit"}) == "no error");
  CHECK(complaint({"optimizer.gradient_ring=4", "optimizer.timing=on_arrival",
                   "optimizer.deferred_units=2"}) == "no error");
  CHECK(complaint({"optimizer.lr_schedule=wsd", "optimizer.wsd_decay_steps=60",
                   "optimizer.warmup_steps=40", "optimizer.min_lr_ratio=0.1"}) == "no error");
  CHECK(complaint({"data.train=", "data.synthetic=true"}) == "no error");
  CHECK(complaint({R"(data.train=[{"path": "a", "weight": 0.9}, {"path": "b", "weight": 0.1}])",
                   R"(data.validation=["c", "d"])"}) == "no error");
  CHECK(complaint({"run.eval_every=10", "data.validation=held-out.bin"}) == "no error");
  for (const char* const saves : {"checkpoint.every_steps=15", "checkpoint.milestone_steps=40"}) {
    CHECK(complaint({"run.eval_every=10", "data.validation=held-out.bin", "run.patience=3",
                     "checkpoint.keep_best=1", saves}) == "no error");
  }
  CHECK(complaint({"run.trace_step=99"}) == "no error");
  CHECK(complaint({"run.on_nonfinite=rollback", "checkpoint.every_minutes=5",
                   "run.loss_outlier_z=6"}) == "no error");
  CHECK(complaint({"run.on_nonfinite=rollback", "checkpoint.milestone_steps=100"}) == "no error");
  CHECK(complaint({"model.head_dim=258", "run.backend=cpu"}) == "no error");
  CHECK(complaint({"model.head_dim=256", "run.backend=cuda"}) == "no error");
  CHECK(complaint({"schedule.passes=65536", "schedule.sub_batches=349525"}) == "no error");
  CHECK(complaint({"run.products=fp8_all", R"(run.products_bf16=["down", "layers.0", "layers.1"])",
                   "run.backend=cuda", "data.sequence_length=60", "schedule.rows=4"}) ==
        "no error");
  CHECK(complaint({"run.products=fp8", "data.sequence_length=59", "run.backend=cuda"}) ==
        "no error");
  CHECK(complaint({"run.products=fp8_all", "data.sequence_length=59", "run.backend=cpu",
                   "model.head_dim=6"}) == "no error");
  CHECK(complaint({"run.products=fp8_all", "adapter.rank=3", "data.sequence_length=59",
                   "run.backend=cuda"}) == "no error");
}

TEST_CASE("a backend that was found is held to its rules") {
  const RunConfig c = minimal({"model.head_dim=258"});
  CHECK_NOTHROW(c.validate_for(strata::BackendChoice::kCpu, "found"));
  CHECK_THROWS_WITH(c.validate_for(strata::BackendChoice::kCuda, "found"),
                    ContainsSubstring("model.head_dim"));
}

TEST_CASE("rules that are broken together are shown together") {
  const std::string text = complaint({"run.steps=0", "schedule.rows=0", "optimizer.eps=0"});
  CHECK_THAT(text, ContainsSubstring("3 problems"));
  CHECK_THAT(text, ContainsSubstring("run.json"));
}

TEST_CASE("a run without training data is synthetic where data is optional") {
  CHECK(minimal({"data.train="}, TrainingData::kOptional).data.synthetic);
  CHECK_FALSE(minimal({}, TrainingData::kOptional).data.synthetic);
}

TEST_CASE("patterns of files are resolved in the order of names") {
  const Folder folder;
  for (const char* name : {"web-10.bin", "web-02.bin", "web-1.bin", "odd[1].bin", "code.bin"}) {
    static_cast<void>(folder.write(name, ""));
  }
  const auto files = [&](const std::string& name) {
    return minimal({"data.train=" + (folder.path / name).string()}).data.train.files();
  };
  const auto in_folder = [&](const char* name) { return (folder.path / name).string(); };
  CHECK(files("web-*.bin") ==
        std::vector{in_folder("web-02.bin"), in_folder("web-1.bin"), in_folder("web-10.bin")});
  CHECK(files("odd[1].bin") == std::vector{in_folder("odd[1].bin")});
  CHECK(files("none-*.bin") == std::vector{in_folder("none-*.bin")});
  CHECK(files("code.bin") == std::vector{in_folder("code.bin")});
}

TEST_CASE("a config that cannot be written whole leaves the one that is there") {
  const Folder folder;
  strata::save_run_config(minimal(), folder.path / "config.json");
  const RunConfig other = minimal({"run.steps=7"});
  const strata::StopSignals signals;  // a limit of file sizes is an error and no signal
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit full = before;
  full.rlim_cur = 20;  // bytes
  REQUIRE(setrlimit(RLIMIT_FSIZE, &full) == 0);
  CHECK_THROWS_WITH(strata::save_run_config(other, folder.path / "config.json"),
                    ContainsSubstring("config.json: cannot be written"));
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(strata::differing_fields(minimal(), strata::load_run_config(folder.path / "config.json"))
            .empty());
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
}

TEST_CASE("a config is saved to no file that a link leads to") {
  const Folder folder;
  std::ofstream(folder.path / "precious") << "text";
  std::filesystem::create_symlink("precious", folder.path / "config.json");
  CHECK_THROWS_WITH(strata::save_run_config(minimal(), folder.path / "config.json"),
                    ContainsSubstring("config.json: is not replaced, since it is a symbolic link"));
  CHECK(std::filesystem::file_size(folder.path / "precious") == 4);
}

TEST_CASE("saving a config leaves other files beside it alone") {
  const Folder folder;
  std::ofstream(folder.path / "config.json.tmp") << "somebody's";
  strata::save_run_config(minimal(), folder.path / "config.json");
  CHECK(std::filesystem::file_size(folder.path / "config.json.tmp") == 10);
}

TEST_CASE("the resolved config reads back to the same values") {
  const Folder folder;
  const RunConfig c = minimal({"memory.device_limit=24GiB", "optimizer.grad_clip=0.7",
                               "model.rope_scaling.rope_type=llama3", "debug.execution=shuffled",
                               "schedule.activations=selective"});
  strata::save_run_config(c, folder.path / "config.json");
  const RunConfig back = strata::load_run_config(folder.path / "config.json");
  CHECK(strata::differing_fields(c, back).empty());
  CHECK(back.memory.device_limit->bytes == std::size_t{24} << 30);
  CHECK(back.optimizer.grad_clip == 0.7);
  CHECK(back.model.llama.rope_scaling->rope_type == strata::RopeType::kLlama3);
  CHECK(back.debug.execution == strata::Execution::kShuffled);
  CHECK(back.schedule.activations == strata::KeepLevel::kSelective);
}

TEST_CASE("the hash tells configs apart and equal ones together") {
  CHECK(strata::config_hash(minimal()) == strata::config_hash(minimal()));
  CHECK(strata::config_hash(minimal()) != strata::config_hash(minimal({"run.seed=2"})));
  CHECK(strata::config_hash(minimal()).size() == 16);
}

TEST_CASE("the architecture comes from model.path and must not be contradicted") {
  const Folder folder;
  const fs::path hf = folder.write("hf/config.json", R"({
    "model_type": "llama", "vocab_size": 100, "hidden_size": 32, "intermediate_size": 48,
    "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6, "rope_theta": 500000})");
  const std::string path = "model.path=" + hf.parent_path().string();
  const fs::path run =
      folder.write("run.json", R"({"data": {"train": "corpus.bin", "sequence_length": 32}})");

  const RunConfig c = strata::load_run_config(run, std::vector{path});
  CHECK(c.model.llama.hidden_size == 32);
  CHECK(c.model.llama.rms_norm_eps == 1e-6);
  CHECK(c.model.llama.rope_theta == 500000.0);

  const std::vector<std::string> agreeing{path, "model.hidden_size=32"};
  CHECK(strata::load_run_config(run, agreeing).model.llama == c.model.llama);
  const std::vector<std::string> contradicting{path, "model.rope_theta=10000"};
  CHECK_THROWS_WITH(strata::load_run_config(run, contradicting),
                    ContainsSubstring("model.rope_theta: differs from"));

  strata::save_run_config(c, folder.path / "resolved.json");
  CHECK(strata::load_run_config(folder.path / "resolved.json").model.llama == c.model.llama);

  // Only for more tokens rows are added.
  const RunConfig larger = strata::load_run_config(run, std::vector{path, "model.vocab_size=102"s});
  CHECK(larger.model.llama.vocab_size == 102);
  strata::save_run_config(larger, folder.path / "larger.json");
  CHECK(strata::load_run_config(folder.path / "larger.json").model.llama == larger.model.llama);
  CHECK_THROWS_WITH(
      strata::load_run_config(run, std::vector{path, "model.vocab_size=99"s}),
      ContainsSubstring("model.vocab_size: is below that of") && ContainsSubstring("100"));
}

TEST_CASE("what adapters are comes from adapter.path and must not be contradicted") {
  const Folder folder;
  const fs::path hf = folder.write("hf/config.json", R"({
    "model_type": "llama", "vocab_size": 100, "hidden_size": 32, "intermediate_size": 48,
    "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64})");
  const fs::path run =
      folder.write("run.json", R"({"data": {"train": "corpus.bin", "sequence_length": 32}})");
  const std::string path = "model.path=" + hf.parent_path().string();
  strata::FoundAdapter found{
      .folder = "run/checkpoints/step-4", .source = "manifest", .config = {}};
  found.config = {.rank = 3, .alpha = 5, .rslora = true, .targets = {"q_proj"}, .layers = {1}};
  const auto load = [&](std::vector<std::string> sets) {
    sets.insert(sets.end(), {path, "adapter.path=run"});
    return strata::load_run_config(run, sets, TrainingData::kRequired,
                                   {.adapter = [&](const RunConfig& read) {
                                     CHECK(read.adapter->path == "run");
                                     return found;
                                   }});
  };
  const strata::AdapterConfig adapter = load({"adapter.rank=3"}).adapter.value();
  CHECK(adapter.path == "run/checkpoints/step-4");
  CHECK(adapter.rank == 3);
  CHECK(adapter.alpha == 5);
  CHECK(adapter.rslora);
  CHECK(adapter.targets == std::vector{"q_proj"s});
  CHECK(adapter.layers == std::vector{1.0});
  CHECK(load({"adapter.base_format=int8"}).adapter->base_format == strata::Form::kInt8);
  found.config.modules_to_save = {"model.norm", "lm_head"};
  const auto modules = [](const std::string& names) {
    return std::vector{"adapter.modules_to_save=" + names};
  };
  CHECK(load({}).adapter->modules_to_save == found.config.modules_to_save);
  CHECK_NOTHROW(load(modules(R"(["lm_head", "norm", "norm"])")));
  CHECK_THROWS_WITH(load(modules(R"(["norm"])")),
                    ContainsSubstring("adapter.modules_to_save: differs from manifest"));
  CHECK_THROWS_WITH(load(modules(R"(["norms"])")),
                    ContainsSubstring("\"norms\" is no module that can be trained whole"));
  CHECK_THROWS_WITH(load({"adapter.rank=4", "adapter.layers=[0]"}),
                    ContainsSubstring("adapter.rank: differs from manifest; leave it out") &&
                        ContainsSubstring("adapter.layers: differs"));
  found.config.targets = {"c_attn"};
  CHECK_THROWS_WITH(load({}), ContainsSubstring("manifest, for the model of model.path") &&
                                  ContainsSubstring("\"c_attn\" is no linear of the model"));
}

TEST_CASE("gradients are as wide as the run computes unless they are named") {
  using strata::DType;
  CHECK(minimal().gradient_dtype() == DType::kBF16);
  CHECK(minimal({"run.dtype=f32"}).gradient_dtype() == DType::kF32);
  CHECK(minimal({"run.dtype=f64"}).gradient_dtype() == DType::kF32);  // stands for f64 there
  CHECK(minimal({"run.dtype=f32", "optimizer.gradient_dtype=bf16"}).gradient_dtype() ==
        DType::kBF16);
}

TEST_CASE("a warm-up may be longer than the few steps that plan and bench look at") {
  const std::vector<std::string> sets{"run.steps=3", "optimizer.warmup_steps=50"};
  CHECK_THAT(complaint(sets), ContainsSubstring("optimizer.warmup_steps"));
  CHECK(minimal(sets, TrainingData::kOptional).optimizer.warmup_steps == 3);
}

TEST_CASE("a config or a model folder that is not there is named") {
  CHECK_THROWS_AS(strata::load_run_config("no/such/run.json"), strata::IoError);
  CHECK_THROWS_AS(minimal({"model.path=no/such/model"}), strata::IoError);
  CHECK_THROWS_WITH(minimal({"model.path=some-lab/model"}),
                    ContainsSubstring("model.path: some-lab/model: there is no such folder; models "
                                      "are not downloaded: hf download some-lab/model "));
  const Folder folder;
  CHECK_THROWS_WITH(minimal({"model.path=" + folder.path.string() + "/model"}),
                    !ContainsSubstring("hf download"));
}

TEST_CASE("a folder where something else has to be named is answered with what to name") {
  const Folder folder;
  static_cast<void>(folder.write("model/config.json", "{}"));
  static_cast<void>(folder.write("run/config.json", "{}"));
  static_cast<void>(folder.write("run/metrics.jsonl", ""));
  fs::create_directories(folder.path / "run/checkpoints");
  fs::create_directories(folder.path / "model/checkpoints");  // which makes it no run
  const std::string run = (folder.path / "run").string();
  const std::string model = (folder.path / "model").string();
  CHECK_THROWS_WITH(strata::load_run_config(folder.path),
                    ContainsSubstring(folder.path.string() + ": is a folder; name a run config"));
  CHECK_THROWS_WITH(strata::load_run_config(run),
                    ContainsSubstring("such as that of this run, " + run + "/config.json"));
  CHECK_THROWS_WITH(strata::load_run_config(model),
                    ContainsSubstring("which names this folder, a model's, by model.path"));
  CHECK_THROWS_WITH(
      minimal({"model.path=" + run}),
      ContainsSubstring("is a run's folder; name the model of one of its checkpoints, " + run +
                        "/checkpoints/step-N/model"));
  CHECK_THAT(complaint({"data.train=" + run}),
             ContainsSubstring("data.train: " + run +
                               " is a folder; name token files in it, as in " + run + "/*.bin"));
}

TEST_CASE("a size without a unit is refused where it cannot be meant") {
  CHECK_THAT(complaint({"memory.device_limit=24"}),
             ContainsSubstring("memory.device_limit: is 24 bytes; write the unit, like \"24GiB\""));
  CHECK_THAT(complaint({"memory.device_limit=\"24\""}),
             ContainsSubstring("memory.device_limit: is 24 bytes; write the unit"));
  // What a run was saved with is read as it was.
  const std::string saved = R"({"memory": {"spill_limit": 24}})";
  CHECK(strata::parse_run_config(saved, "a manifest").memory.spill_limit == strata::ByteSize{24});
  CHECK(minimal({"memory.device_limit=4096"}).memory.device_limit == strata::ByteSize{4096});
}

TEST_CASE("what other trainers set and no key does is answered with where it is") {
  for (const auto& [name, answer] : std::vector<std::pair<std::string, std::string>>{
           {"lora_dropout", "adapter.dropout"},
           {"use_dora", "without it"},
           {"quantization", "what run.dtype says"},
           {"load_in_8bit", "adapter.base_format"},
           {"modules_to_save", "adapter.modules_to_save"},
           {"load_in_4bit", "adapter.base_format"},
           {"chat_template", "--chat-template"},
           {"deepspeed", "sharded over the ranks"},
           {"model_type", "by model.path"}}) {
    CHECK_THAT(complaint({name + "=1"}),
               ContainsSubstring(name + ": unknown key; ") && ContainsSubstring(answer));
  }
}

TEST_CASE("the tiny config that comes with strata trains as it is") {
  const RunConfig c = strata::load_run_config(shipped("tiny-cpu.json"));
  CHECK(c.run.backend == strata::BackendChoice::kCpu);
  CHECK(c.data.synthetic);
}

TEST_CASE("the rows of a step are those of all ranks, or as many as are named") {
  RunConfig config;
  config.schedule.rows = 3;
  config.schedule.sub_batches = 2;
  config.schedule.passes = 5;
  CHECK(config.step_rows(1) == 30);
  CHECK(config.step_rows(4) == 120);
  config.schedule.step_rows = 31;
  CHECK(config.step_rows(4) == 31);
  CHECK(config.step_tokens(2) == 31 * config.data.sequence_length);
  CHECK_THROWS_WITH(config.step_rows(1), ContainsSubstring("schedule.step_rows: 31") &&
                                             ContainsSubstring("more than the 30") &&
                                             ContainsSubstring("schedule.passes to 6"));
}

TEST_CASE("the large configs that come with strata need only a training set") {
  struct Case {
    std::string name;
    std::int64_t parameters;
  };
  const std::vector<Case> cases{{"llama-1.3b.json", 1345423360},
                                {"llama-7b.json", 6738415616},
                                {"llama-13b.json", 13015864320},
                                {"qwen2.5-7b.json", 7615616512},
                                {"qwen3-8b.json", 8190735360}};
  const std::vector<std::string> sets{"data.train=corpus.bin"};
  for (const Case& c : cases) {
    CAPTURE(c.name);
    CHECK_THROWS_WITH(strata::load_run_config(shipped(c.name)), ContainsSubstring("data.train"));
    const RunConfig config = strata::load_run_config(shipped(c.name), sets);
    CHECK(config.model.llama.parameter_count() == c.parameters);
    CHECK(config.step_tokens(1) == 65536);
  }
}
