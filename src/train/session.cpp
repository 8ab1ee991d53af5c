// A run starts stage by stage: machine, data, plans of products, placement, memory, weights. After
// that a session passes steps to the engine, and carries what the host lane reports back to the
// submitting thread.

#include "strata/train/session.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/base/cache_file.h"
#include "strata/base/log.h"
#include "strata/base/narrow.h"
#include "strata/base/process.h"
#include "strata/base/work_meter.h"
#include "strata/comm/core_binding.h"
#include "strata/data/compatible.h"
#include "strata/launch/backend_choice.h"
#include "strata/launch/launch_checks.h"
#include "strata/launch/rank_agreement.h"
#include "strata/model/families.h"
#include "strata/model/safetensors.h"
#include "strata/model/weights_check.h"
#include "strata/plan/budget.h"
#include "strata/plan/sample_setup.h"
#include "strata/predict/stored_rates.h"
#include "strata/train/save_room.h"
#include "strata/train/start_weights.h"
#include "strata/train/training_data.h"
#include "train/matmul_plans.h"

namespace strata {

namespace {

/// Says how many seconds have passed since it was made, or since it was asked last.
class Lap {
 public:
  double operator()() {
    const double begin_s = std::exchange(last_s_, steady_seconds());
    return last_s_ - begin_s;
  }

 private:
  double last_s_ = steady_seconds();
};

constexpr int kConfigExitCode = 2;  // of a ConfigError

std::string joined_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return text;
}

/// Returns the backend that the config asks for or, with "auto", that can run it. Throws
/// ConfigError if "auto" becomes a backend that cannot.
BackendKind choose_backend(const RunConfig& config) {
  const BackendKind kind = backend_of(config.run.backend, config.run.dtype);
  if (config.run.backend == BackendChoice::kAuto && kind == BackendKind::kCuda) {
    config.validate_for(BackendChoice::kCuda, "run.backend \"auto\" found a CUDA device");
  }
  const bool fell_to_cpu = config.run.backend == BackendChoice::kAuto &&
                           kind == BackendKind::kCpu && config.run.dtype != DType::kF64;
  if (fell_to_cpu) say_cpu_instead(cpu_instead_here(), "run.backend");
  return kind;
}

BackendOptions backend_options(const RunConfig& config, const SessionHooks& hooks) {
  BackendOptions options;
  options.threads = narrow<int>(config.run.threads);
  options.attention = config.kernels.attention;
  options.device.execution = config.debug.execution;
  options.device.shuffle_seed = static_cast<std::uint64_t>(config.debug.shuffle_seed);
  options.device.poison_slots = config.debug.poison_slots;
  options.device.synchronize_each = config.debug.synchronize_each;
  options.device.omit_wait = hooks.omit_wait;
  options.device.trace = hooks.trace;
  return options;
}

/// Throws AgreedError if several ranks cannot work together as they were started; tells how they
/// were, gives each a GPU, and cores and threads that no other rank has.
void place_ranks(BackendKind kind, const RunConfig& config, Ranks& ranks, BackendOptions& options) {
  const std::vector<LaunchFacts> facts = gather_launch_facts(kind, ranks);
  if (ranks.size() > 1) {
    const LaunchFindings found = check_launch(facts);
    log::info("{}", map_of_ranks(facts));
    if (!found.errors.empty()) throw AgreedError(joined_lines(found.errors), kConfigExitCode);
    for (const std::string& warning : found.warnings) {
      if (ranks.rank() == 0) log::warn("{}", warning);
    }
  }
  const int rank = ranks.rank();
  const LaunchFacts& own = facts[static_cast<std::size_t>(rank)];
  options.device.device_index = gpu_of_local_rank(local_rank(facts, rank), own.visible_gpus);
  std::vector<RankCores> cores;
  for (const LaunchFacts& other : facts) cores.push_back(other.cores);
  if (config.run.bind == ThreadBinding::kAuto) options.cores = cores_to_bind(cores, rank);
  if (options.threads == 0 && options.cores.empty()) {
    options.threads = own_threads(cores, rank, usable_cores());
  }
  if (config.run.bind == ThreadBinding::kShare) keep_to_own_share(cores, rank);
}

/// Returns the sum of the squared lengths of the segments in the buffers of a pass.
double attended_pairs(const PassBuffers& buffers) {
  constexpr std::size_t kColumns = kSegmentColumns, kLength = 2;  // q_length, see there
  const std::size_t table = buffers.segments.size() / buffers.segment_counts.size();
  double pairs = 0;
  for (std::size_t s = 0; s < buffers.segment_counts.size(); ++s) {
    const auto rows = buffers.segments.subspan(s * table, table);
    for (std::size_t i = 0; i < static_cast<std::size_t>(buffers.segment_counts[s]); ++i) {
      const auto length = static_cast<double>(rows[i * kColumns + kLength]);
      pairs += length * length;
    }
  }
  return pairs;
}

/// Waits for work whose memory goes. An error of that work has been told, or does not count any
/// more.
template <class Wait>
void attempt(const Wait& wait) {
  try {
    wait();
  } catch (const std::exception& error) {
    log::debug("while ending the session: {}", error.what());
  }
}

}  // namespace

Session::Session(const RunConfig& config, Ranks& ranks, const SessionHooks& hooks, Unstarted)
    : config_(config), ranks_(ranks), hooks_(hooks) {}

// Delegates, so that an error below comes after construction and the destructor ends what runs.
Session::Session(const RunConfig& config, Ranks& ranks, const SessionHooks& hooks)
    : Session(config, ranks, hooks, Unstarted()) {
  fail_for_all(ranks, [&] { build(config, ranks, hooks); });
  exceptions_ = std::uncaught_exceptions();
}

void Session::build(const RunConfig& config, Ranks& ranks, const SessionHooks& hooks) {
  if (!hooks_.checkpoints) config_.checkpoint = CheckpointSection::none();
  startup_.program_s = process_age_s();
  WorkProgress work;
  const WorkMeter meter(work);
  work.begin("waiting for all ranks");
  Lap lap;
  fail_together(ranks, [&] { groups_.emplace(ranks, config.run.shard_group); });
  BackendKind kind{};
  fail_together(ranks, [&] { kind = choose_backend(config); });
  if (config.debug.execution == Execution::kShuffled && ranks.size() > 1) {
    throw AgreedError(
        "debug.execution: \"shuffled\" has one thread for all lanes, and several ranks would wait "
        "for each other (start one rank, or set \"threads\" or \"eager\")",
        kConfigExitCode);
  }
  work.begin("starting the device");
  BackendOptions options = backend_options(config, hooks);
  place_ranks(kind, config, ranks, options);
  backend_ = hooks_.make_backend ? hooks_.make_backend(kind, options) : make_backend(kind, options);
  collectives_ = hooks_.make_collectives  // before memory is counted
                     ? hooks_.make_collectives(*groups_, *backend_.device)
                     : make_group_collectives(*groups_, *backend_.device);
  startup_.machine_s = lap();
  work.begin("opening the data");
  fail_together(ranks, [&] {
    if (config_.run.sample_every > 0) samples_.emplace(config_);
    open_data();
    work.begin("looking through the model's folder");
    check_model_folder();
  });
  startup_.data_s = lap();
  may_end();
  plan_products(work);  // both before memory is counted: they load kernels and take workspaces
  work.begin("loading kernels");
  Llama::prepare(*backend_.kernels, spec_of(config_.model.llama), llama_sizes(config_));
  work.begin("planning memory");
  const std::string device = agree_on_device(backend_.device->info().name, ranks_);
  const std::optional<StoredRates> stored = agree_on_stored_rates(config_, device, ranks_);
  const MachineMemory machine = measure_machine(*backend_.device, ranks_);
  const Budget budget = agree_on_budget(make_budget(config_.memory, machine), ranks_);
  fail_together(ranks, [&] {
    Placement placement = choose_placement(
        config_,
        PlannedRank{
            .place = groups_->place(), .budget = budget, .device = device, .stored = stored});
    setup_ = std::move(placement.setup);
    resolved_ = resolve(config_, setup_);
    choices_ = std::move(placement.choices);
  });
  if (const std::string differences = disagreement(facts_of_plan(resolved_), ranks);
      !differences.empty()) {
    throw AgreedError(
        "the ranks' machines let them plan differently, and they could not work together; set "
        "these keys, or give all ranks the same kind of GPU:" +
            differences,
        kConfigExitCode);
  }
  fail_together(ranks, [&] { require_targets(); });  // what takes memory comes after the plan
  for (const std::string& warning : {setup_.host_warning(), setup_.speculation_warning()}) {
    if (!warning.empty()) log::warn("{}", warning);
  }
  work.begin("testing the disk of checkpoints");
  if (setup_.snapshots) {
    const DiskFindings disk = require_disk(*hooks_.checkpoints, resolved_, setup_, ranks);
    write_gbs_ = disk.write_gbs;
    if (!disk.warning.empty()) log::warn("{}", disk.warning);
  }
  startup_.plans_s = lap();
  may_end();
  assemble(work);
}

/// Work in flight refers to members, so it ends before they go, also when an error takes the
/// session down. Then nothing is submitted any more, and other ranks may be in collectives that
/// this one will never come to, while it waits in others for them: they are taken down first.
Session::~Session() {
  if (!backend_.device) return;
  const bool failed = exceptions_ && std::uncaught_exceptions() > *exceptions_;
  if (failed && ranks_.size() > 1) attempt([this] { ranks_.abort(EXIT_FAILURE); });
  if (engine_ && !failed) attempt([this] { synchronize(); });
  attempt(
      [this] { backend_.device->synchronize(); });  // what is being saved, also if a lane failed
}

void Session::may_end() const {
  if (hooks_.may_end) hooks_.may_end();
}

void Session::open_data() {
  BatchOptions options = training_batches(config_, ranks_.rank(), ranks_.size());
  train_set_ = open_training_set(config_);
  const ModelTokenizer tokenizer = tokenizer_of(config_.model);
  for (const auto& source : train_set_.sources) require_tokenizer_of(tokenizer, *source);
  train_ = std::make_unique<BatchLoader>(train_set_.shares(), options, *backend_.pool);
  if (config_.data.validation.empty()) return;
  options.passes = 1;
  options.step_rows.reset();
  options.sample_order = SampleOrder::kOnce;
  validation_source_ = open_validation_set(config_);
  require_tokenizer_of(tokenizer, *validation_source_);
  for (const auto& source : train_set_.sources) {
    require_same_tokenizer(*source, *validation_source_);
  }
  validation_ = std::make_unique<BatchLoader>(*validation_source_, options, *backend_.pool);
}

void Session::require_targets() const {
  train_->require_target(train_->samples());
  if (!validation_) return;
  validation_->require_target(validation_passes() * validation_->samples_per_step());
}

void Session::check_model_folder() const {
  const ModelSection& model = config_.model;
  if (model.path.empty()) return;
  const std::string unused =
      check_weights(SafetensorsDirectory(model.path), make_layout(spec_of(model.llama)));
  if (!unused.empty() && ranks_.rank() == 0) log::warn("{}", unused);
}

void Session::plan_products(WorkProgress& work) {
  work.begin("planning matrix products");
  if (config_.run.sample_every > 0) {
    const SampleLayout largest =
        make_sample_setup(config_, std::numeric_limits<std::size_t>::max());
    LlamaForward::prepare(largest.spec, largest.sizes, *backend_.kernels);
  }
  MatmulTuner* tuner = backend_.kernels->matmul_tuner();
  if (tuner == nullptr || config_.kernels.matmul_tuning == MatmulTuning::kOff) return;
  if (hooks_.checkpoints) restore_plans(*hooks_.checkpoints, ranks_);
  std::vector<MatmulShape> shapes;
  for (const LlamaMatmul& product :
       Llama::matmuls(spec_of(config_.model.llama), llama_sizes(config_))) {
    shapes.push_back(product.shape);
  }
  const std::optional<std::string>& cache = config_.kernels.plan_cache;
  const std::size_t used = backend_.device->device_bytes_in_use();
  std::size_t memory = std::numeric_limits<std::size_t>::max();
  if (const auto& limit = config_.memory.device_limit) memory = limit->bytes;
  const double begin_s = steady_seconds();
  const PlanReport report =
      plan_matmuls(*tuner, shapes,
                   {.run = hooks_.run_folder,
                    .cache = cache ? std::filesystem::path(*cache) : user_cache_folder()},
                   memory - std::min(memory, used), ranks_, &work);
  for (const std::string& warning : report.warnings) log::warn("{}", warning);
  const std::size_t now = backend_.device->device_bytes_in_use();
  log::debug(
      "plans of matrix products: {} of the run folder, {} of the cache, {} measured; {:.1f} s; "
      "loaded kernels took {} of device memory",
      report.from_run, report.from_cache, report.measured, steady_seconds() - begin_s,
      format_bytes(now - std::min(now, used)));
}

void Session::assemble(WorkProgress& work) {
  Lap lap;
  engine_ = std::make_unique<TrainingEngine>(
      setup_, EngineParts{backend_, ranks_, collectives_, &work},
      [this](const StepOutcome& outcome, std::int64_t valid_tokens) {
        step_finished(outcome, valid_tokens);
      });
  for (BatchLoader* loader : {train_.get(), validation_.get()}) {
    if (loader != nullptr) loader->take_memory();
  }
  startup_.device_s = engine_->device_arena_s();
  startup_.pinned_s = engine_->pinned_arena_s();
  startup_.stores_s = lap() - startup_.device_s - startup_.pinned_s;
  may_end();
  set_state(work);
  work.end();
  const Setup& s = setup_;
  // It copies files of the checkpoint that were verified as it was loaded.
  if (s.snapshots)
    checkpoints_.emplace(*hooks_.checkpoints, resolved_, s, write_gbs_, *engine_, *groups_);
  startup_.weights_s = lap();
}

void Session::set_state(WorkProgress& work) {
  const RunConfig& config = resolved_;
  if (hooks_.checkpoints && hooks_.checkpoints->resume) {
    work.begin("verifying the checkpoint");
    load_checkpoint(*hooks_.checkpoints->files, *hooks_.checkpoints->resume, *engine_,
                    *backend_.pool, ranks_, hooks_.may_end, &work);
  } else if (config.model.path.empty()) {
    work.begin("drawing weights", {.total = state().weight_bytes()});
    state().initialize(static_cast<std::uint64_t>(config.run.seed),
                       config.model.llama.initializer_range, *backend_.pool, &work);
  } else {
    work.begin("reading weights", {.total = state().weight_bytes()});
    const StartWeights start = open_start_weights(config.model);
    if (!start.resized.empty() && ranks_.rank() == 0) log::info("{}", start.resized);
    state().load(start.files, *backend_.pool, &work);
  }
}

std::int64_t Session::global_tokens_per_step() const { return config_.step_tokens(ranks_.size()); }

MetricGroup Session::epochs_after(std::int64_t steps) const {
  MetricGroup epochs;
  const SampleMap& map = train_->map();
  for (std::size_t source = 0; source < map.sources().size(); ++source) {
    epochs.emplace_back(map.sources()[source].tokens->name(),
                        map.epochs(source, samples_after(steps)));
  }
  return epochs;
}

std::int64_t Session::samples_after(std::int64_t steps) const {
  const std::int64_t first = hooks_.checkpoints ? hooks_.checkpoints->first_sample() : 0;
  return first + (steps - first_step()) * train_->samples_per_step();
}

SaveKinds Session::submit(std::int64_t step, double lr, const SaveKinds& save) {
  const LinkBytes before = link_bytes();
  submitted_.emplace_back();
  const bool masked = config_.data.document_mask && !hooks_.fill;
  double pairs = 0;
  const auto fill = [&](int pass, const PassBuffers& buffers) {
    const std::int64_t valid = hooks_.fill ? hooks_.fill(step, pass, train_->options(), buffers)
                                           : train_->fill_pass(samples_after(step), pass, buffers);
    if (masked) pairs += attended_pairs(buffers);
    const bool last = pass + 1 == setup_.choices.passes;
    if (last && startup_.begun_s == 0) startup_.begun_s = process_age_s();
    return valid;
  };
  const auto make_saves = [&](const SaveKinds& kinds) {
    return checkpoints_->make_saves(kinds, step + 1, samples_after(step + 1));
  };
  const SaveKinds saves = engine_->submit(step, lr, fill, {.due = save, .make = make_saves});
  submitted_.back().link = link_bytes() - before;
  if (masked) submitted_.back().attended = attended_share(pairs);
  return saves;
}

/// Returns the share of `pairs`, which this rank's documents have, in those of whole rows, over all
/// ranks, which call it together.
double Session::attended_share(double pairs) const {
  const BatchOptions& batches = train_->options();
  const auto tokens = static_cast<double>(batches.shape.tokens);
  const auto rows =
      static_cast<double>(batches.passes * batches.shape.sub_batches * batches.shape.rows);
  std::array<double, 2> sums{pairs, rows * tokens * tokens};
  ranks_.all_reduce_sum(sums, Channel::kSubmit);
  return sums[0] / sums[1];
}

SavePrediction Session::predict_save() const {
  return strata::predict_save(setup_, rated_device(),
                              setup_.hardware.disk_gbs.value_or(write_gbs_));
}

LinkBytes Session::link_bytes() const {
  return {
      .weights_in = weights().loaded_bytes(),
      .activations_in = activations().loaded_bytes() + kept().loaded_bytes(),
      .out = activations().spilled_bytes() + kept().spilled_bytes() + gradients().offloaded_bytes(),
      .state = optimizer().shipped_bytes()};
}

/// Runs on the host lane; take_finished() hands the step to the submitting thread.
void Session::step_finished(const StepOutcome& outcome, std::int64_t valid_tokens) {
  const double busy_s = backend_.device->host_busy_s();
  const double host_s = busy_s - std::exchange(host_counted_s_, busy_s);
  const std::lock_guard lock(finished_mutex_);
  if (first_end_s_ == 0) first_end_s_ = process_age_s();
  finished_.push_back({outcome, valid_tokens, steady_seconds(), host_s});
}

std::vector<FinishedStep> Session::take_finished() {
  std::vector<FinishedStep> finished;
  {
    const std::lock_guard lock(finished_mutex_);
    finished = std::exchange(finished_, {});
    startup_.ended_s = first_end_s_;
  }
  for (FinishedStep& step : finished) {
    step.link = submitted_.front().link;
    step.attended = submitted_.front().attended;
    submitted_.pop_front();
  }
  return finished;
}

std::int64_t Session::validation_passes() const {
  if (hooks_.fill) return 1;
  const std::int64_t rows = validation_->samples_per_step();
  const std::int64_t passes = (validation_->samples() + rows - 1) / rows;
  return config_.run.eval_batches > 0 ? std::min(passes, config_.run.eval_batches) : passes;
}

double Session::evaluate(WorkProgress* work) {
  synchronize();
  const std::int64_t rows = hooks_.fill ? 0 : validation_->samples_per_step();
  const std::int64_t passes = validation_passes();
  // Shared with tasks that may still run when a later pass throws.
  const auto loss_sum = std::make_shared<double>(0.0);
  double valid_sum = 0;
  const auto host_slots = static_cast<std::int64_t>(setup_.batch.host_slots);
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    may_end();
    const int slot = static_cast<int>(pass % host_slots);
    const PassBuffers buffers = engine_->batches().host(slot);
    const std::int64_t valid = hooks_.fill ? hooks_.fill(0, 0, train_->options(), buffers)
                                           : validation_->fill_pass(pass * rows, 0, buffers);
    valid_sum += static_cast<double>(valid);
    engine_->schedule().evaluate(slot, [loss_sum](double loss) { *loss_sum += loss; });
    count_work(work, 1);
  }
  synchronize();
  std::array<double, 2> sums{*loss_sum, valid_sum};
  ranks_.all_reduce_sum(sums, Channel::kSubmit);
  return sums[1] > 0 ? sums[0] / sums[1] : 0.0;
}

std::vector<RunSample> Session::sample(std::int64_t done) {
  synchronize();
  const std::unique_ptr<SampleEngine> engine = engine_->make_samples();
  std::vector<RunSample> samples;
  const auto draw = [&] {
    samples = samples_.value().draw(*engine, done, ranks_.size(), [this] { may_end(); });
  };
  try {
    fail_for_all(ranks_, draw);
  } catch (...) {
    // The lanes may use the engine, which goes.
    attempt([this] { backend_.device->synchronize_but(Lane::kSave); });
    throw;
  }
  synchronize();
  return samples;
}

void Session::observe(UpdateObserver& observer) {
  engine_->optimizer().submit_updates({.phase = "update"});
  engine_->optimizer().observe(observer);
}

void Session::synchronize() {
  engine_->optimizer().submit_updates({.phase = "update"});
  backend_.device->synchronize_but(Lane::kSave);
}

}  // namespace strata
