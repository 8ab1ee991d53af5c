// Makes a training engine's stores, which take from the arenas what they listed in the plan, and
// submits steps pass by pass, at most one step ahead of the one that runs.

#include "strata/engine/training_engine.h"

#include <cstring>
#include <utility>

#include "engine/training_memory.h"
#include "strata/base/random.h"

namespace strata {

namespace {

/// The seeds of dropout come from this random stream.
constexpr std::uint64_t kDropoutSeeds = 0x64726f706f7574;  // "dropout"

}  // namespace

TrainingEngine::TrainingEngine(const TrainingLayout& s, const EngineParts& parts, Report report)
    : Engine(s, *parts.backend.device, *parts.backend.kernels, *parts.collectives.shard,
             parts.work),
      layout_(s),
      device_(*parts.backend.device),
      kernels_(*parts.backend.kernels),
      world_(parts.world),
      report_(std::move(report)),
      gradients_(state_, parts.collectives, *parts.backend.kernels, parts.backend.host_kernels(),
                 arenas_, s.gradient_slots),
      batches_(s.batch, arenas_),
      losses_(s.batch.batch.pass_tokens(), accumulator_of(s.sizes.compute), arenas_,
              s.sizes.preference ? LossKind::kPairs : LossKind::kTokens),
      preference_(take_preference(s, arenas_)),
      optimizer_({state_, weights_, parts.world, *parts.collectives.shard, *parts.backend.kernels,
                  parts.backend.host_kernels(), arenas_, *parts.backend.pool},
                 s.optimizer,
                 [this](const StepOutcome& outcome) {
                   if (saver_) saver_->tell(outcome);
                   report_(outcome, step_tokens_[static_cast<std::size_t>(outcome.step % 2)]);
                 }),
      idle_begin_(arenas_.arena(Space::kDevice).used()),
      activations_(s.activations, s.activation_slots, *parts.backend.kernels, arenas_),
      kept_(s.kept_tensors(), s.kept, arenas_),
      boundary_gradients_(take_boundary_gradients(s.activations, arenas_)),
      model_(s.spec, s.sizes, *parts.backend.kernels, arenas_),
      samples_begin_(arenas_.arena(Space::kPinned).used()),
      schedule_({model_, batches_, weights_, gradients_, activations_, kept_, losses_, optimizer_},
                s.walk, device_.stream(Lane::kCompute), boundary_gradients_, preference_) {
  static_cast<void>(take_sample_memory(s, arenas_));
  if (s.fp8_metrics_every > 0) fp8_counts_.emplace(fp8_count_rows(s.walk.layers), arenas_);
  draws_.reserve(static_cast<std::size_t>(s.batch.batch.sub_batches));
  if (!s.saves) return;
  saver_.emplace(state_, arenas_, *parts.backend.pool, *s.saves);
  optimizer_.observe(*saver_);
}

TrainingEngine::Agreed TrainingEngine::agree(std::int64_t valid, const SaveKinds& due) {
  const bool busy = saver_ && saver_->busy();
  const auto one_if = [](bool yes) { return yes ? 1.0 : 0.0; };
  std::array<double, 4> sums{static_cast<double>(valid),  // exact below 2^53
                             one_if(busy), one_if(due.whole), one_if(due.weights)};
  world_.all_reduce_sum(sums, Channel::kSubmit);
  Agreed agreed{.valid = static_cast<std::int64_t>(sums[0]), .saves = {}};
  if (saver_ && sums[1] == 0) agreed.saves = {.whole = sums[2] > 0, .weights = sums[3] > 0};
  return agreed;
}

std::unique_ptr<SampleEngine> TrainingEngine::make_samples() {
  const SamplePlaces places{
      .arenas = arenas_, .device_begin = idle_begin_, .pinned_begin = samples_begin_};
  return std::make_unique<SampleEngine>(layout_.samples.value(), places, kernels_, weights_);
}

/// Submits a step that counts what rounding to e4m3 loses.
void TrainingEngine::submit_counted(const StepPlan& plan, const std::vector<int>& slots) {
  const Tag tag{.phase = "count"};
  Fp8CountStore::CountLease lease = fp8_counts_->acquire(device_.stream(Lane::kCompute), tag);
  model_.count_fp8(lease.counts);
  schedule_.step(plan, slots);
  model_.count_fp8({});
  fp8_counts_->deliver(std::move(lease), tag,
                       [this, step = plan.step](auto own) { receive_counts(step, own); });
}

/// Runs on the host lane of every rank.
void TrainingEngine::receive_counts(std::int64_t step, std::span<const double> own) {
  const std::vector<std::byte> bytes = world_.all_gather_host(std::as_bytes(own), Channel::kHost);
  std::vector<double> all(bytes.size() / sizeof(double));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  Fp8StepCounts counted{.step = step, .counts = std::vector<double>(own.size())};
  for (std::size_t at = 0; at < all.size(); at += own.size()) {
    counted.add(std::span(all).subspan(at, own.size()));
  }
  const std::lock_guard lock(counted_mutex_);
  counted_.push_back(std::move(counted));
}

std::vector<Fp8StepCounts> TrainingEngine::take_fp8_counts() {
  const std::lock_guard lock(counted_mutex_);
  return std::exchange(counted_, {});
}

/// Gives each token of the step draws of its own, wherever it is computed.
void TrainingEngine::set_draws(std::int64_t step, const std::vector<int>& slots) {
  const BatchShape& shape = layout_.batch.batch;
  const BatchOptions place{.shape = shape, .rank = world_.rank(), .ranks = world_.size()};
  const std::uint64_t seed =
      random_bits(layout_.optimizer.seed, kDropoutSeeds, static_cast<std::uint64_t>(step));
  for (int pass = 0; pass < static_cast<int>(slots.size()); ++pass) {
    draws_.clear();
    for (std::int64_t s = 0; s < shape.sub_batches; ++s) {
      draws_.push_back({.seed = seed, .first = first_sample_of(place, pass, s) * shape.tokens});
    }
    batches_.set_draws(slots[static_cast<std::size_t>(pass)], draws_);
  }
}

SaveKinds TrainingEngine::submit(std::int64_t step, double lr, const Fill& fill,
                                 const SaveWish& wish) {
  const auto parity = static_cast<std::size_t>(step % 2);
  device_.wait(step_ends_[parity]);  // at most one step ahead
  device_.throw_if_failed();
  const int passes = layout_.choices.passes;
  std::vector<int> slots;
  std::int64_t valid = 0;
  for (int pass = 0; pass < passes; ++pass) {
    slots.push_back(static_cast<int>(parity) * passes + pass);
    valid += fill(pass, batches_.host(slots.back()));
  }
  const Agreed agreed = agree(valid, wish.due);
  valid = agreed.valid;
  for (const int slot : slots) {
    batches_.set_grad_scale(slot, valid > 0 ? 1.0 / static_cast<double>(valid) : 0.0);
  }
  if (layout_.spec.adapter_dropout > 0) set_draws(step, slots);
  step_tokens_[parity] = valid;
  if (agreed.saves.any()) saver_->begin(wish.make(agreed.saves));
  const StepPlan plan{.step = step, .lr = lr, .valid_tokens = valid};
  if (fp8_counts_ && plan.number() % layout_.fp8_metrics_every == 0) {
    submit_counted(plan, slots);
  } else {
    schedule_.step(plan, slots);
  }
  step_ends_[parity] = device_.stream(Lane::kHost).record();
  if (saver_) saver_->end_step(step_ends_[parity]);
  return agreed.saves;
}

}  // namespace strata
