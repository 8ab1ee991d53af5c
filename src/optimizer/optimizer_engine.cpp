#include "strata/optimizer/optimizer_engine.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <new>
#include <string>
#include <utility>

#include "strata/base/log.h"
#include "strata/base/random.h"

namespace strata {

namespace {

/// Random stream of the seeds that round bf16 moments: initial weights and samples draw from
/// others.
constexpr std::uint64_t kRoundingSeeds = 0x6d6f6d656e7473;  // "moments"

/// Of the largest shard that the host measures.
std::int64_t partial_count(const ModelLayout& layout, const StateOptions& options) {
  std::int64_t largest = 0;
  for (int b = 0; b < static_cast<int>(layout.blocks.size()); ++b) {
    if (GradientStore::measures(layout, b, options)) continue;
    const Block& block = layout.blocks[static_cast<std::size_t>(b)];
    largest = std::max(largest, block.shard_elements(options.ranks));
  }
  return SquaredNorm::partials(largest);
}

/// Consecutive elements of a shard with one weight decay.
struct DecayRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool decay = false;
};

/// Cuts a shard at segment borders. Alignment gaps belong to the segment before them: their weights
/// and gradients are zero and stay zero.
std::vector<DecayRange> decay_ranges(const Block& block, std::int64_t begin, std::int64_t end) {
  std::vector<DecayRange> ranges;
  for (std::size_t i = 0; i < block.segments.size(); ++i) {
    const bool last = i + 1 == block.segments.size();
    const std::int64_t from = std::max(begin, block.segments[i].offset);
    const std::int64_t to = last ? end : std::min(end, block.segments[i + 1].offset);
    if (from < to) ranges.push_back({from - begin, to - begin, block.segments[i].decay});
  }
  return ranges;
}

bool any_on_device(const ModelLayout& layout, const StateOptions& options) {
  for (int b = 0; b < static_cast<int>(layout.blocks.size()); ++b) {
    if (options.updated_on_device(b)) return true;
  }
  return false;
}

}  // namespace

void OptimizerEngine::plan(MemoryPlan& plan, const ModelLayout& layout,
                           const StateOptions& options) {
  plan.add(Space::kPageable, "optimizer.norms",
           static_cast<std::size_t>(partial_count(layout, options)) * sizeof(double));
  plan.add(Space::kPageable, "optimizer.nonfinite", sizeof(std::int32_t));
  plan.add(Space::kPinned, "optimizer.scalars", sizeof(AdamWScalars));
  StateShuttle::plan(plan, layout, options);
  if (!any_on_device(layout, options)) return;
  plan.add(Space::kDevice, "optimizer.nonfinite", sizeof(std::int32_t));
  plan.add(Space::kPinned, "optimizer.nonfinite", sizeof(std::int32_t));
}

OptimizerEngine::OptimizerEngine(const OptimizerParts& parts, const OptimizerOptions& options,
                                 std::function<void(const StepOutcome&)> report)
    : state_(parts.state),
      weights_(parts.weights),
      shuttle_(parts.state, parts.arenas.device),
      ranks_(parts.ranks),
      kernels_(parts.kernels),
      host_kernels_(parts.host_kernels),
      host_(parts.arenas.device.device().stream(Lane::kHost)),
      out_(parts.arenas.device.device().stream(Lane::kOut)),
      weights_in_(parts.arenas.device.device().stream(Lane::kWeightsIn)),
      activations_in_(parts.arenas.device.device().stream(Lane::kActivationsIn)),
      options_(options),
      report_(std::move(report)),
      partials_(parts.arenas.pageable.allocate_tensor(
          "optimizer.norms", DType::kF64,
          {partial_count(parts.state.layout(), parts.state.options())})),
      scalars_(new(parts.arenas.pinned.allocate("optimizer.scalars", sizeof(AdamWScalars)))
                   AdamWScalars),
      nonfinite_(parts.arenas.pageable.allocate_tensor("optimizer.nonfinite", DType::kI32, {1})),
      arrivals_(static_cast<std::size_t>(parts.state.blocks())),
      squared_norms_(static_cast<std::size_t>(parts.state.blocks())) {
  *nonfinite_.as<std::int32_t>() = 0;
  if (!options_.speculated_blocks.empty()) {
    undo_ = std::make_unique<UndoLog>(state_, options_.speculated_blocks, parts.arenas.pageable,
                                      parts.pool);
  }
  if (!any_on_device(state_.layout(), state_.options())) return;
  device_nonfinite_ = parts.arenas.device.allocate_tensor("optimizer.nonfinite", DType::kI32, {1});
  landed_nonfinite_ = parts.arenas.pinned.allocate_tensor("optimizer.nonfinite", DType::kI32, {1});
  out_.set(device_nonfinite_.data, 0, sizeof(std::int32_t), {.phase = "initialize"});
}

/// Resident blocks are never deferred on arrival: the device updates them faster than it reads
/// them.
bool OptimizerEngine::deferred(int block) const {
  if (options_.timing != UpdateTiming::kOnArrival) return true;
  return is_deferred(block, options_.deferred_blocks, state_.blocks()) &&
         !state_.options().resident(block);
}

const std::string& OptimizerEngine::block_name(int block) const {
  return state_.layout().blocks[static_cast<std::size_t>(block)].name;
}

Accesses OptimizerEngine::writes_scalars() const {
  return {{}, {{reinterpret_cast<const std::byte*>(scalars_), sizeof(AdamWScalars)}}};
}

void OptimizerEngine::begin_step(const StepPlan& plan, const Tag& tag) {
  const auto accesses = [&] {
    Accesses all;
    if (undo_) all.writes.push_back(undo_->numbers());
    return all;
  };
  host_.host_task("begin_step", accesses, tag, [this, plan] {
    step_ = {.plan = plan};
    if (undo_) undo_->predict(scalars_of(1.0, plan.valid_tokens > 0));
  });
  decided_.reset();
}

std::function<void(double)> OptimizerEngine::loss_receiver() {
  catch_up(1, {.phase = "update"});
  return [this](double sum) {
    step_.loss_sum += sum;
    if (options_.timing == UpdateTiming::kOnArrival && !std::isfinite(sum)) {
      throw NumericalError("step " + std::to_string(step_.plan.step) +
                           ": the loss is not finite; no weight was changed in this step "
                           "(lower optimizer.lr, or check the data)");
    }
  };
}

/// t counts applied updates, and is all that a step's rounding depends on beside the run's seed;
/// the bias corrections are taken in f64 on the host.
AdamWScalars OptimizerEngine::scalars_of(double factor, bool apply) const {
  const std::int64_t update = updates_ + (apply ? 1 : 0);
  const auto t = static_cast<double>(update);
  return {.lr = step_.plan.lr,
          .beta1 = options_.beta1,
          .beta2 = options_.beta2,
          .eps = options_.eps,
          .correction1 = 1.0 - std::pow(options_.beta1, t),
          .correction2 = 1.0 - std::pow(options_.beta2, t),
          .grad_factor = factor,
          .apply = apply ? 1 : 0,
          .rounding_seed =
              random_bits(options_.seed, kRoundingSeeds, static_cast<std::uint64_t>(update))};
}

void OptimizerEngine::set_scalars(double factor, bool apply) {
  *scalars_ = scalars_of(factor, apply);
  if (apply) ++updates_;
}

/// The block's sum is taken now: its partials are the next step's, or block's, before decide().
void OptimizerEngine::measure(Arrival& arrival, const Tag& tag) {
  ConstTensorView partials = arrival.norms;
  if (!partials) {
    const std::int64_t count = SquaredNorm::partials(arrival.gradient.elements());
    const TensorView own = partials_.slice_rows(0, count);
    host_kernels_.run(host_, SquaredNorm{.x = arrival.gradient, .partial = own}, tag);
    partials = own;
  } else {
    arrival.norms_lease.use(host_, WaitFor::kArrived);
  }
  double& sum = squared_norms_[static_cast<std::size_t>(arrival.block)];
  host_.host_task(
      "sum_norms", [&] { return Accesses({partials.bytes()}, {}); }, tag,
      [partials, &sum] {
        const double* values = partials.as<double>();
        sum = 0;
        for (std::int64_t i = 0; i < partials.elements(); ++i) sum += values[i];
      });
}

void OptimizerEngine::require_finite(int block, const Tag& tag) {
  host_.host_task("require_finite", {}, tag, [this, block] {
    if (std::isfinite(squared_norms_[static_cast<std::size_t>(block)])) return;
    throw NumericalError("step " + std::to_string(step_.plan.step) + ": the gradient of " +
                         block_name(block) + " is not finite" +
                         (state_.options().updated_on_device(block) && !deferred(block)
                              ? ""
                              : "; its weights were not changed") +
                         " (lower optimizer.lr, or use optimizer.timing = before_use, which skips "
                         "such steps)");
  });
}

void OptimizerEngine::update(int block, const Tag& tag) {
  const Tag own{tag.phase, tag.pass, block, -1};
  const StateOptions& where = state_.options();
  // Behind what backward reads next on activations_in it would be late; of weights there is a lead.
  if (where.interleaved(block)) return ship(block, weights_in_, decided_.value(), own);
  Arrival& arrival = arrivals_[static_cast<std::size_t>(block)];
  const bool resident = where.resident(block);
  if (resident) out_.wait(decided_.value(), WaitFor::kDecided);
  adamw(state_.block(block), arrival.gradient, block, scalars_,
        resident ? device_nonfinite_ : nonfinite_, own);
  arrival.slot.end();
  if (!resident) check_update(nonfinite_, block_name(block), 0, own);
  weights_.updated(block, (resident ? out_ : host_).record());
}

/// Nobody reads the new weights before confirm() tells the weight store of them.
void OptimizerEngine::update_early(int block, const Tag& tag) {
  undo_->save(block, host_, tag);
  adamw(state_.block(block), arrivals_[static_cast<std::size_t>(block)].gradient, block,
        undo_->early(), undo_->nonfinite(block), tag);
}

/// The early update stands, or the block gets its old state and the update that is due.
void OptimizerEngine::confirm(int block, const Tag& tag) {
  const Tag own{tag.phase, tag.pass, block, -1};
  undo_->restore(block, host_, own);
  adamw(state_.block(block), arrivals_[static_cast<std::size_t>(block)].gradient, block,
        undo_->again(), undo_->nonfinite(block), own);
  check_update(undo_->nonfinite(block), block_name(block), 0, own);
  weights_.updated(block, host_.record());
}

/// An interleaved block. `decided`: decided_ of its step, which may be over.
void OptimizerEngine::ship(int block, Stream& in, Event decided, const Tag& tag) {
  out_.wait(decided, WaitFor::kDecided);
  const Event home = shuttle_.ship(
      block, in,
      [&](const BlockState& part) {
        adamw(part, part.grad, block, scalars_, device_nonfinite_, tag);
      },
      tag);
  weights_.updated(block, home);
}

/// A block or a part of it, on the lane that updates it.
void OptimizerEngine::adamw(const BlockState& part, const ConstTensorView& gradient, int block,
                            const AdamWScalars* scalars, const TensorView& nonfinite,
                            const Tag& tag) {
  const bool on_device = state_.options().updated_on_device(block);
  const Block& layout = state_.layout().blocks[static_cast<std::size_t>(block)];
  const std::int64_t n = part.weight.elements();
  for (const DecayRange& range : decay_ranges(layout, part.begin, part.begin + n)) {
    const std::int64_t count = range.end - range.begin;
    const bool decays = range.decay || options_.decay_norms;
    (on_device ? kernels_ : host_kernels_)
        .run(on_device ? out_ : host_,
             AdamW{.weight = part.weight.slice_rows(range.begin, count),
                   .low = part.low ? part.low.slice_rows(range.begin, count) : TensorView{},
                   .m = part.m.slice_rows(range.begin, count),
                   .v = part.v.slice_rows(range.begin, count),
                   .grad = gradient.slice_rows(range.begin, count),
                   .scalars = scalars,
                   .weight_decay = decays ? options_.weight_decay : 0.0,
                   .rounding_stream = static_cast<std::uint64_t>(block),
                   .rounding_begin = part.begin + range.begin,
                   .nonfinite = nonfinite,
                   .rare = undo_ && scalars == undo_->again()},
             tag);
  }
}

/// `steps_ago`: whose update it was, counted from the step that the host lane is at.
void OptimizerEngine::check_update(const TensorView& nonfinite, const std::string& what,
                                   int steps_ago, const Tag& tag) {
  host_.host_task(
      "check_update", [&] { return Accesses({ConstTensorView(nonfinite).bytes()}, {}); }, tag,
      [this, nonfinite, what, steps_ago] {
        if (*nonfinite.as<std::int32_t>() == 0) return;
        throw NumericalError("step " + std::to_string(step_.plan.step - steps_ago) +
                             ": a weight of " + what +
                             " is not finite after its update (lower optimizer.lr)");
      });
}

/// What the device found, once a step; the host lane then also knows that the scalars were read.
void OptimizerEngine::check_device_updates(int steps_ago, const Tag& tag) {
  if (!device_nonfinite_) return;
  out_.copy(landed_nonfinite_.data, device_nonfinite_.data, sizeof(std::int32_t), tag);
  host_.wait(out_.record(), WaitFor::kArrived);
  check_update(landed_nonfinite_, "the blocks updated on the device", steps_ago, tag);
}

/// Ends what the last step left to loads: the host lane then knows that it was right, and that its
/// scalars were read.
void OptimizerEngine::catch_up(int steps_ago, const Tag& tag) {
  if (!std::exchange(updates_wait_, false)) return;
  weights_.submit_updates();
  check_device_updates(steps_ago, tag);
}

void OptimizerEngine::submit_updates(const Tag& tag) { catch_up(0, tag); }

void OptimizerEngine::arrived(Arrival arrival, const Tag& tag) {
  const int block = arrival.block;
  const Tag own{tag.phase, tag.pass, block, -1};
  // The first arrival comes behind the loss of the last pass.
  if (options_.timing == UpdateTiming::kOnArrival && !decided_) {
    host_.host_task(
        "set_scalars", [&] { return writes_scalars(); }, tag,
        [this] { set_scalars(1.0, step_.plan.valid_tokens > 0); });
    decided_ = host_.record();
  }
  host_.wait(arrival.event, WaitFor::kArrived);
  if (arrival.slot) arrival.slot.use(host_, WaitFor::kArrived);
  measure(arrival, own);
  arrival.norms_lease.end();
  arrivals_[static_cast<std::size_t>(block)] = std::move(arrival);
  if (speculated(block)) update_early(block, own);
  if (options_.timing != UpdateTiming::kOnArrival) return;
  require_finite(block, own);
  if (!deferred(block)) update(block, own);
}

/// Host task: sums over blocks and ranks, and whether and with which factor the step is applied.
void OptimizerEngine::decide() {
  std::array<double, 2> sums{0, step_.loss_sum};
  for (const double sum : squared_norms_) sums[0] += sum;
  ranks_.all_reduce_sum(sums, Channel::kHost);
  StepOutcome outcome{.step = step_.plan.step,
                      .loss = step_.plan.valid_tokens > 0
                                  ? sums[1] / static_cast<double>(step_.plan.valid_tokens)
                                  : 0.0,
                      .grad_norm = std::sqrt(sums[0]),
                      .lr = step_.plan.lr,
                      .applied = true};
  const bool finite = std::isfinite(outcome.loss) && std::isfinite(outcome.grad_norm);
  outcome.applied = finite && step_.plan.valid_tokens > 0;
  if (options_.timing != UpdateTiming::kOnArrival) {
    const bool clips = options_.grad_clip && outcome.grad_norm > *options_.grad_clip;
    const double factor = clips ? *options_.grad_clip / outcome.grad_norm : 1.0;
    set_scalars(factor, outcome.applied);
  }
  if (undo_) outcome.missed = !undo_->settle(*scalars_);
  report_(outcome);
  if (finite) {
    nonfinite_in_a_row_ = 0;
    if (step_.plan.valid_tokens == 0) {
      log::warn("step {}: no token has a target; nothing was updated", step_.plan.step);
    }
    return;
  }
  log::warn("step {}: loss or gradient norm is not finite; the update is skipped", step_.plan.step);
  ++nonfinite_in_a_row_;
}

/// Host task, behind what undoes early updates.
void OptimizerEngine::stop_if_stuck() const {
  if (nonfinite_in_a_row_ == 0 || nonfinite_in_a_row_ < options_.max_nonfinite_steps) return;
  throw NumericalError("step " + std::to_string(step_.plan.step) + ": " +
                       std::to_string(nonfinite_in_a_row_) +
                       " steps in a row were not finite; weights are those before the first of "
                       "them (lower optimizer.lr, or raise run.max_nonfinite_steps)");
}

void OptimizerEngine::finish_step(const Tag& tag) {
  const bool on_arrival = options_.timing == UpdateTiming::kOnArrival;
  const auto accesses = [&] {
    Accesses all = on_arrival ? Accesses{} : writes_scalars();
    if (undo_) all.writes.push_back(undo_->numbers());
    return all;
  };
  host_.host_task("decide", accesses, tag, [this] { decide(); });
  if (!on_arrival) decided_ = host_.record();
  for (int b = 0; b < state_.blocks(); ++b) {
    if (speculated(b)) {
      confirm(b, tag);
    } else if (!deferred(b)) {
      continue;
    } else if (state_.options().interleaved(b)) {
      updates_wait_ = true;
      const Tag own{tag.phase, tag.pass, b, -1};
      // Loads on weights_in wait for the host's updates and for slots, this for loads long before.
      weights_.update_later(b, [this, b, own, decided = *decided_](Event turn) {
        activations_in_.wait(turn, WaitFor::kTurn);
        ship(b, activations_in_, decided, own);
      });
    } else {
      update(b, tag);
    }
  }
  host_.host_task("stop_if_stuck", {}, tag, [this] { stop_if_stuck(); });
  if (!updates_wait_) check_device_updates(0, tag);
}

}  // namespace strata
