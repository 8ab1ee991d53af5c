// Everything a run can be told: the sections of a run config, their keys and defaults, and how a
// config is loaded, checked and saved. Commands load one, the planner resolves what it leaves open,
// and everything below is told by it. Whatever is wrong is reported at once, by key and remedy.

#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/dtype.h"
#include "strata/base/field_types.h"
#include "strata/base/file_sources.h"
#include "strata/comm/shard_group.h"
#include "strata/config/folder_finders.h"
#include "strata/config/named_choices.h"
#include "strata/data/overlong.h"
#include "strata/device/execution.h"
#include "strata/model/adapters.h"
#include "strata/model/config.h"
#include "strata/model/kept_activations.h"
#include "strata/model/products.h"
#include "strata/ops/attention_kernels.h"
#include "strata/ops/preference_rule.h"
#include "strata/optimizer/bad_steps.h"
#include "strata/optimizer/optimizer_kind.h"
#include "strata/optimizer/timing.h"
#include "strata/store/boundary_form.h"

// Defaults are the members' initial values; names and help texts are in config_fields.cpp,
// cross-field rules in config_rules.cpp. std::optional: null in JSON, chosen by the planner or off.

namespace strata {

struct RunSection {
  std::int64_t seed = 1;
  std::int64_t steps = 100;
  std::optional<double> epochs;  ///< in place of steps, until they are worked out of it
  BackendChoice backend = BackendChoice::kAuto;
  DType dtype = DType::kBF16;  ///< of weights and activations in compute: bf16, f32 or f64
  Products products = Products::kPlain;    ///< what products of layers multiply
  std::vector<std::string> products_bf16;  ///< linears and layers that are left out of that
  std::int64_t fp8_metrics_every = 100;    ///< steps between counts of what e4m3 loses; 0: never
  std::string output = "runs/default";
  std::optional<std::int64_t> trace_step;   ///< step, from 1, whose trace is written
  std::int64_t eval_every = 0;              ///< steps between validations; 0: never
  std::int64_t patience = 0;                ///< validations without gain that end it; 0: none do
  std::int64_t eval_batches = 0;            ///< passes of a validation; 0: the whole validation set
  std::int64_t sample_every = 0;            ///< steps between samples; 0: never
  std::vector<std::string> sample_prompts;  ///< empty: one sample from the beginning of a text
  std::int64_t sample_tokens = 64;          ///< drawn after a prompt
  std::int64_t log_every = 1;
  bool tensorboard = false;  ///< event files are written beside the metrics
  std::int64_t threads = 0;  ///< 0: one per usable core
  ThreadBinding bind = ThreadBinding::kShare;
  ShardGroup shard_group = ShardGroup::kAll;
  std::optional<OnBadStep> on_nonfinite;
  std::int64_t max_nonfinite_steps = 3;
  OutlierLimits outliers;
  std::optional<double> wall_limit;        ///< minutes
  std::optional<double> watchdog_s = 300;  ///< 0, too: nothing is watched
  void fields(FieldList& f);
};

struct ModelSection {
  std::string path;       ///< Hugging Face directory with config and weights; empty: random weights
  std::string tokenizer;  ///< file or folder; empty: that of `path`, or bytes
  LlamaConfig llama;      ///< after load_run_config also filled where `path` is given
  void fields(FieldList& f);
};

struct DataSection {
  FileSources train;
  FileSources validation;  ///< one source
  std::int64_t sequence_length = 0;
  TokenFormat dtype = TokenFormat::kAuto;
  std::optional<std::int64_t> eos_token;
  std::optional<bool> document_begins;  ///< eos_token is the first token of a document
  bool document_mask = false;
  bool packing = false;
  Overlong overlong = Overlong::kCut;  ///< of data.packing
  bool shuffle = true;
  bool synthetic = false;
  void fields(FieldList& f);
};

struct TrainSection {
  std::optional<Preference> objective;  ///< absent: the loss of every token
  ReferenceFrom reference = ReferenceFrom::kBase;
  std::optional<double> beta;
  std::optional<double> gamma;
  double label_smoothing = 0;
  void fields(FieldList& f);
  /// Returns the rule of the objective, with the numbers that are usual for what is open; nothing
  /// where every token has a loss of its own.
  [[nodiscard]] std::optional<PreferenceRule> rule() const;
};

struct ScheduleSection {
  std::int64_t rows = 1;
  std::int64_t sub_batches = 1;
  std::int64_t passes = 1;
  std::optional<std::int64_t> step_rows;  ///< of all ranks; absent: all that they take
  std::optional<std::int64_t> weight_slots;
  std::optional<std::int64_t> activation_slots;
  std::optional<KeepLevel> activations;  ///< of every cell
  std::optional<KeepLevel> spill;        ///< of every cell; kRecompute: none
  BoundaryForm spill_dtype = BoundaryForm::kExact;
  std::int64_t spill_slots = 3;
  std::int64_t gradient_slots = 2;
  std::optional<std::int64_t> resident_units;
  GradientSums gradient_sums = GradientSums::kAuto;  ///< where contributions of a step are added
  std::optional<std::int64_t> head_chunk_tokens;
  void fields(FieldList& f);
};

struct OptimizerSection {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double lr = 3e-4;
  std::array<double, 2> betas{0.9, 0.95};
  double momentum = 0.9;  ///< of kSgd, and so is the next one
  bool nesterov = false;
  double muon_momentum = 0.95;  ///< of kMuon
  double eps = 1e-8;
  double weight_decay = 0.1;
  bool decay_norms = false;
  std::vector<std::string> lr_factors;     ///< "lm_head.weight=0.5": of tensors; the first wins
  std::vector<std::string> weight_decays;  ///< likewise
  std::optional<double> grad_clip;
  UpdateTiming timing = UpdateTiming::kBeforeUse;
  std::optional<std::int64_t> deferred_units;
  std::optional<ByteSize> undo_log;
  std::optional<DType> gradient_dtype;  ///< bf16 or f32; f32 stands for f64 if run.dtype is f64
  DType moment_dtype = DType::kF32;     ///< f32 stands for f64 if run.dtype is f64
  MasterWeights master = MasterWeights::kSplit;
  std::optional<std::int64_t> gradient_ring;
  std::optional<double> interleave;  ///< share of the layers on the host that the device updates
  LrSchedule lr_schedule = LrSchedule::kConstant;
  std::int64_t warmup_steps = 0;
  double min_lr_ratio = 0.0;
  std::int64_t wsd_decay_steps = 0;
  void fields(FieldList& f);
};

struct CheckpointSection {
  std::optional<std::int64_t> every_steps;
  std::optional<double> every_minutes;
  bool at_end = true;  ///< of the run, and when a signal ends it
  std::int64_t keep = 2;
  std::int64_t keep_best = 0;                       ///< by validation loss, beside those
  std::optional<std::int64_t> milestone_steps;      ///< between checkpoints that stay
  std::optional<std::int64_t> weights_every_steps;  ///< between saves of weights alone
  std::optional<std::int64_t> weights_keep;         ///< of those; all if absent
  std::optional<ByteSize> staging;
  std::int64_t writers = 4;
  void fields(FieldList& f);

  /// Returns whether the run may save checkpoints, or weights alone.
  [[nodiscard]] bool enabled() const {
    return every_steps || every_minutes || milestone_steps || weights_every_steps || at_end;
  }
  /// Returns the section of a run that saves none.
  [[nodiscard]] static CheckpointSection none() {
    CheckpointSection section;
    section.at_end = false;
    return section;
  }
};

struct MemorySection {
  std::optional<ByteSize> device_limit;
  std::optional<ByteSize> host_limit;
  std::optional<ByteSize> spill_limit;
  void fields(FieldList& f);
};

struct HardwareSection {
  std::optional<double> peak_tflops;
  std::optional<double> link_gbs;  ///< each way, both at once
  std::optional<double> product_tflops;
  std::optional<double> attention_forward_tflops;
  std::optional<double> attention_backward_tflops;
  std::optional<double> device_gbs;
  std::optional<double> host_gbs;
  std::optional<double> disk_gbs;        ///< of all writers, fsync included
  std::optional<double> collective_gbs;  ///< bus bandwidth between the GPUs of a host
  std::optional<double> nic_gbs;         ///< each way, of all NICs of a host
  bool stored_rates = true;              ///< those that `tune --measure` left are used
  void fields(FieldList& f);
};

struct KernelsSection {
  MatmulTuning matmul_tuning = MatmulTuning::kAuto;
  std::optional<std::string> plan_cache;
  AttentionKernels attention = AttentionKernels::kAuto;
  AttentionBackwardMode attention_backward = AttentionBackwardMode::kDeterministic;
  void fields(FieldList& f);
};

struct DebugSection {
  Execution execution = Execution::kThreads;
  std::int64_t shuffle_seed = 0;
  bool poison_slots = false;
  bool synchronize_each = false;
  std::optional<double> disk_gbs;
  void fields(FieldList& f);
};

struct RunConfig {
  RunSection run;
  ModelSection model;
  std::optional<AdapterConfig> adapter;  ///< absent: all weights are trained
  DataSection data;
  TrainSection train;
  ScheduleSection schedule;
  OptimizerSection optimizer;
  CheckpointSection checkpoint;
  MemorySection memory;
  HardwareSection hardware;
  KernelsSection kernels;
  DebugSection debug;
  void fields(FieldList& f);

  /// Cross-field rules. Throws one ConfigError that lists everything that is wrong by key and
  /// remedy; `source` names the config.
  void validate(std::string_view source) const;
  /// The rules of a backend alone, for where run.backend is "auto" and this one was found.
  void validate_for(BackendChoice backend, std::string_view source) const;
  /// Returns the spec that the run trains. Throws ConfigError if adapters do not fit to the model.
  [[nodiscard]] ModelSpec spec() const;
  /// What run.on_nonfinite stands for where it is open.
  [[nodiscard]] OnBadStep on_bad_step() const {
    return run.on_nonfinite.value_or(
        optimizer.timing == UpdateTiming::kOnArrival ? OnBadStep::kStop : OnBadStep::kSkip);
  }
  /// What optimizer.gradient_dtype stands for where it is open.
  [[nodiscard]] DType gradient_dtype() const {
    return optimizer.gradient_dtype.value_or(run.dtype == DType::kBF16 ? DType::kBF16
                                                                       : DType::kF32);
  }
  /// Rows that `ranks` ranks train on in a step. Throws ConfigError if schedule.step_rows are more
  /// than they take.
  [[nodiscard]] std::int64_t step_rows(int ranks) const;
  /// Tokens of those rows.
  [[nodiscard]] std::int64_t step_tokens(int ranks) const {
    return step_rows(ranks) * data.sequence_length;
  }
};

/// kOptional: a config that names no training set stands for one that trains on synthetic tokens.
enum class TrainingData : std::uint8_t { kRequired, kOptional };

/// Reads `file`, applies the "a.b=value" assignments, reads the architecture of `model.path` and
/// what the adapters of `adapter.path` are, if they are given (keys that say the same must agree
/// with them), and validates. Throws IoError if a file cannot be read, or the system does not tell
/// whether the folder of `model.path` is there; ConfigError for everything else, and what the
/// finders throw.
[[nodiscard]] RunConfig load_run_config(const std::filesystem::path& file,
                                        std::span<const std::string> sets = {},
                                        TrainingData training_data = TrainingData::kRequired,
                                        const FolderFinders& find = {});
/// Returns the config that write_fields() has written: a resolved one, whose model stands in it.
/// Throws ConfigError that names `source`.
[[nodiscard]] RunConfig parse_run_config(std::string_view text, std::string_view source);
/// Writes the config as JSON that load_run_config reads back to the same values. It goes
/// through an OutputFile, and throws as that does.
void save_run_config(const RunConfig& config, const std::filesystem::path& file);
/// The command that makes docs/config.md.
inline constexpr std::string_view kConfigReferenceCommand =
    "strata config-help --markdown > docs/config.md";
/// The page that describes every key: docs/config.md, in Markdown.
[[nodiscard]] std::string config_reference();
/// The JSON Schema of a run config, for editors.
[[nodiscard]] std::string config_schema();
/// 16 hexadecimal digits that tell two configs apart.
[[nodiscard]] std::string config_hash(const RunConfig& config);

}  // namespace strata
