// A session starts part by part, each of which is a file of its own: machine, data, kernels, plan,
// memory, state. After that it passes steps to the engine, and carries what the host lane reports
// back to the submitting thread. session.h is the contract.

#include "strata/train/session.h"

#include <cstdlib>
#include <exception>
#include <utility>

#include "strata/base/log.h"
#include "strata/base/process.h"
#include "strata/base/work_meter.h"
#include "strata/launch/rank_agreement.h"
#include "strata/train/save_room.h"
#include "train/attended_share.h"
#include "train/rank_machine.h"
#include "train/session_data.h"
#include "train/session_kernels.h"
#include "train/session_plan.h"
#include "train/start_state.h"
#include "train/validation_loss.h"

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
  fail_for_all(ranks, [&] { build(); });
  exceptions_ = std::uncaught_exceptions();
}

void Session::build() {
  if (!hooks_.checkpoints) config_.checkpoint = CheckpointSection::none();
  startup_.program_s = process_age_s();
  WorkProgress work;
  const WorkMeter meter(work);
  Lap lap;
  start_machine(work);
  startup_.machine_s = lap();
  const ModelSpec spec = config_.spec();
  open_data(spec, work);
  startup_.data_s = lap();
  may_end();
  plan(spec, work);
  startup_.plans_s = lap();
  may_end();
  assemble(work);
}

void Session::start_machine(WorkProgress& work) {
  work.begin("waiting for all ranks");
  fail_together(ranks_, [&] { groups_.emplace(ranks_, config_.run.shard_group); });
  RankMachine machine = strata::start_machine(config_, hooks_, *groups_, ranks_, work);
  backend_ = std::move(machine.backend);
  collectives_ = std::move(machine.collectives);
}

void Session::open_data(const ModelSpec& spec, WorkProgress& work) {
  work.begin("opening the data");
  fail_together(ranks_, [&] {
    if (config_.run.sample_every > 0) samples_.emplace(config_);
    std::optional<BaseWeights> started_from;
    // Adapters need their model still, and its hash there depends on the form of its weights.
    if (hooks_.checkpoints && hooks_.checkpoints->resume && !config_.adapter) {
      started_from = hooks_.checkpoints->resume->manifest.base;
    }
    data_ = std::make_unique<SessionData>(config_,
                                          training_batches(config_, ranks_.rank(), ranks_.size()),
                                          reference_wish(config_, started_from), *backend_.pool);
    work.begin("looking through the model's folder");
    check_start_weights(config_, hooks_, spec, ranks_);
  });
}

/// Plans the memory of the run. What takes memory outside of the plan comes before, so that it is
/// counted, and what is planned is taken after.
void Session::plan(const ModelSpec& spec, WorkProgress& work) {
  prepare_kernels(config_, spec, hooks_, backend_, ranks_, work);
  work.begin("planning memory");
  SessionPlan planned = plan_session(config_, *backend_.device, *groups_, ranks_);
  setup_ = std::move(planned.setup);
  resolved_ = std::move(planned.resolved);
  choices_ = std::move(planned.choices);
  fail_together(ranks_, [&] { data_->require_targets(); });
  for (const std::string& warning : {setup_.host_warning(), setup_.speculation_warning()}) {
    if (!warning.empty()) log::warn("{}", warning);
  }
  work.begin("testing the disk of checkpoints");
  if (!setup_.saves) return;
  const DiskFindings disk = require_disk(*hooks_.checkpoints, resolved_, setup_, ranks_);
  write_gbs_ = disk.write_gbs;
  if (!disk.warning.empty()) log::warn("{}", disk.warning);
}

/// Takes the memory that is planned, and sets the state in it.
void Session::assemble(WorkProgress& work) {
  Lap lap;
  engine_ = std::make_unique<TrainingEngine>(
      setup_, EngineParts{backend_, ranks_, collectives_, &work},
      [this](const StepOutcome& outcome, std::int64_t valid_tokens) {
        step_finished(outcome, valid_tokens);
      });
  data_->take_memory();
  startup_.device_s = engine_->taken_s(Space::kDevice);
  startup_.pinned_s = engine_->taken_s(Space::kPinned);
  startup_.stores_s = lap() - startup_.device_s - startup_.pinned_s;
  may_end();
  set_start_state(resolved_, hooks_, *engine_, *backend_.pool, ranks_, work);
  work.end();
  // It copies files of the checkpoint that were verified as it was loaded.
  if (setup_.saves) {
    checkpoints_.emplace(*hooks_.checkpoints, resolved_, setup_, write_gbs_, *engine_, *groups_);
  }
  startup_.weights_s = lap();
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

bool Session::has_validation() const { return data_->has_validation(); }

const TrainingSet& Session::training_set() const { return data_->training_set(); }

std::int64_t Session::global_tokens_per_step() const { return config_.step_tokens(ranks_.size()); }

MetricGroup Session::epochs_after(std::int64_t steps) const {
  MetricGroup epochs;
  const SampleMap& map = data_->training().map();
  for (std::size_t source = 0; source < map.sources().size(); ++source) {
    epochs.emplace_back(map.sources()[source].tokens->name(),
                        map.epochs(source, samples_after(steps)));
  }
  return epochs;
}

std::int64_t Session::samples_after(std::int64_t steps) const {
  const std::int64_t first = hooks_.checkpoints ? hooks_.checkpoints->first_sample() : 0;
  return first + (steps - first_step()) * data_->training().samples_per_step();
}

SaveKinds Session::submit(std::int64_t step, double lr, const SaveKinds& save) {
  const LinkBytes before = link_bytes();
  submitted_.emplace_back();
  BatchLoader& batches = data_->training();
  const bool masked = config_.data.document_mask && !hooks_.fill;
  double pairs = 0;
  const auto fill = [&](int pass, const PassBuffers& buffers) {
    const std::int64_t valid = hooks_.fill ? hooks_.fill(step, pass, batches.options(), buffers)
                                           : batches.fill_pass(samples_after(step), pass, buffers);
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
  if (masked) submitted_.back().attended = attended_share(pairs, batches.options(), ranks_);
  return saves;
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
  return hooks_.fill ? 1 : data_->validation_passes();
}

double Session::evaluate(WorkProgress* work) {
  const auto fill = [this](std::int64_t pass, const PassBuffers& buffers) {
    if (hooks_.fill) return hooks_.fill(0, 0, data_->training().options(), buffers);
    BatchLoader& batches = *data_->validation();
    return batches.fill_pass(pass * batches.samples_per_step(), 0, buffers);
  };
  synchronize();
  ValidationLoss loss;
  loss.submit(
      *engine_, validation_passes(), static_cast<std::int64_t>(setup_.batch.host_slots), fill,
      [this] { may_end(); }, work);
  synchronize();
  return loss.mean(ranks_);
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
