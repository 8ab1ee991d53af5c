// Makes an engine as the start of a session does, without data files, tuned products and what is
// logged. That both submit the same is tested in tests/train.

#include "support/tiny_engine.h"

#include <array>
#include <exception>
#include <utility>

#include "strata/base/narrow.h"
#include "strata/model/families.h"
#include "strata/plan/budget.h"
#include "strata/plan/choose_placement.h"

namespace strata::test {

namespace {

Backend backend_of(const RunConfig& config, const TinyHooks& hooks) {
  BackendOptions options;
  options.threads = narrow<int>(config.run.threads);
  options.attention = config.kernels.attention;
  options.device = {.execution = config.debug.execution,
                    .shuffle_seed = static_cast<std::uint64_t>(config.debug.shuffle_seed),
                    .poison_slots = config.debug.poison_slots,
                    .synchronize_each = config.debug.synchronize_each,
                    .omit_wait = hooks.omit_wait,
                    .trace = hooks.trace};
  const bool gpu = config.run.backend == BackendChoice::kCuda;
  const BackendKind kind = gpu ? BackendKind::kCuda : BackendKind::kCpu;
  return hooks.make_backend ? hooks.make_backend(kind, options) : make_backend(kind, options);
}

SyntheticTokens tokens_of(const RunConfig& config) {
  constexpr std::int64_t kTokens = std::int64_t{1} << 40;  // as many as a session's
  return {kTokens, config.model.llama.vocab_size, static_cast<std::uint64_t>(config.run.seed)};
}

BatchOptions batch_of(const RunConfig& config, const Ranks& ranks) {
  BatchOptions options;
  options.shape = {.rows = config.schedule.rows,
                   .tokens = config.data.sequence_length,
                   .sub_batches = config.schedule.sub_batches};
  options.passes = narrow<int>(config.schedule.passes);
  options.rank = ranks.rank();
  options.ranks = ranks.size();
  options.mask = config.data.document_mask ? DocumentMask::kOn : DocumentMask::kOff;
  options.seed = static_cast<std::uint64_t>(config.run.seed);
  options.vocabulary = config.model.llama.vocab_size;
  return options;
}

Setup setup_of(const RunConfig& config, Backend& backend, RankGroups& groups) {
  Llama::prepare(*backend.kernels, spec_of(config.model.llama), llama_sizes(config));
  const MachineMemory memory = measure_machine(*backend.device, groups.world());
  return choose_placement(config, PlannedRank{.place = groups.place(),
                                              .budget = make_budget(config.memory, memory),
                                              .device = memory.device.name})
      .setup;
}

}  // namespace

TinyEngine::TinyEngine(const RunConfig& config, Ranks& ranks, const TinyHooks& hooks)
    : config_(config),
      ranks_(ranks),
      hooks_(hooks),
      groups_(ranks, config.run.shard_group),
      backend_(backend_of(config, hooks)),
      collectives_(make_group_collectives(groups_, *backend_.device)),
      tokens_(tokens_of(config)),
      loader_(tokens_, batch_of(config, ranks), *backend_.pool),
      setup_(setup_of(config, backend_, groups_)) {
  engine_ = std::make_unique<TrainingEngine>(
      setup_, EngineParts{backend_, ranks_, collectives_},
      [this](const StepOutcome& outcome, std::int64_t) { outcomes_.push_back(outcome); });
  state().initialize(static_cast<std::uint64_t>(config.run.seed),
                     config.model.llama.initializer_range, *backend_.pool);
}

TinyEngine::~TinyEngine() {
  try {
    synchronize();
  } catch (const std::exception&) {  // a test that wants to see it waits itself
  }
}

std::int64_t TinyEngine::fill(std::int64_t step, int pass, const PassBuffers& buffers) {
  if (hooks_.fill) return hooks_.fill(step, pass, loader_.options(), buffers);
  return loader_.fill_pass(step * loader_.samples_per_step(), pass, buffers);
}

void TinyEngine::submit(std::int64_t step, double lr) {
  engine_->submit(step, lr,
                  [&](int pass, const PassBuffers& buffers) { return fill(step, pass, buffers); });
}

void TinyEngine::submit_steps(std::int64_t begin, std::int64_t end) {
  for (std::int64_t step = begin; step < end; ++step) submit(step, config_.optimizer.lr);
}

void TinyEngine::synchronize() {
  engine_->optimizer().submit_updates({.phase = "update"});
  backend_.device->synchronize();
}

std::vector<StepOutcome> TinyEngine::take_outcomes() { return std::exchange(outcomes_, {}); }

double TinyEngine::evaluate() {
  synchronize();
  const auto loss_sum = std::make_shared<double>(0.0);  // the task outlives a throw
  const auto valid = static_cast<double>(fill(0, 0, engine_->batches().host(0)));
  engine_->schedule().evaluate(0, [loss_sum](const LossSums& sums) { *loss_sum += sums.loss; });
  synchronize();
  std::array<double, 2> sums{*loss_sum, valid};
  ranks_.all_reduce_sum(sums, Channel::kSubmit);
  return sums[1] > 0 ? sums[0] / sums[1] : 0.0;
}

void TinyEngine::observe(UpdateObserver& observer) {
  engine_->optimizer().submit_updates({.phase = "update"});
  engine_->optimizer().observe(observer);
}

}  // namespace strata::test
