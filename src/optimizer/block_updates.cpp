// Makes one updater for all rows of a kind, and calls it at the moments that rows name. The table
// is read here alone; the updaters are told what to do.

#include "strata/optimizer/block_updates.h"

#include <algorithm>
#include <stdexcept>

namespace strata {

namespace {

bool any_on_device(const StatePlan& plan) {
  return std::any_of(plan.blocks.begin(), plan.blocks.end(),
                     [](const BlockPlan& row) { return row.updated_on_device(); });
}

bool any_updated_by(const StatePlan& plan, UpdatedBy who) {
  return std::any_of(plan.blocks.begin(), plan.blocks.end(),
                     [&](const BlockPlan& row) { return row.updated_by == who; });
}

bool any_updated(const StatePlan& plan, UpdateTime when) {
  return std::any_of(plan.blocks.begin(), plan.blocks.end(),
                     [&](const BlockPlan& row) { return row.updated == when; });
}

}  // namespace

BlockUpdates::Memory::Memory(const ModelLayout& layout, const StatePlan& plan, Allocator& memory)
    : shuttle(layout, plan, memory, plan.chunk_factor * StateShuttle::kChunk),
      nonfinite(memory.tensor(Space::kPageable, "optimizer.nonfinite", DType::kI32, {1})) {
  if (any_updated(plan, UpdateTime::kSpeculated)) undo.emplace(layout, plan, memory);
  if (any_updated_by(plan, UpdatedBy::kMuon)) {
    if (plan.ranks > 1) {
      sharded_muon.emplace(layout, plan, memory);
    } else {
      muon.emplace(layout, plan, memory);
    }
  }
  if (!any_on_device(plan)) return;
  device_nonfinite = memory.tensor(Space::kDevice, "optimizer.nonfinite", DType::kI32, {1});
  landed_nonfinite = memory.tensor(Space::kPinned, "optimizer.nonfinite", DType::kI32, {1});
}

BlockUpdates::BlockUpdates(const OptimizerParts& parts, const UpdateSources& sources, Memory memory)
    : state_(parts.state),
      weights_(parts.weights),
      judge_(sources.judge),
      host_(parts.arenas.device().stream(Lane::kHost)),
      out_(parts.arenas.device().stream(Lane::kOut)),
      memory_(std::move(memory)),
      muon_momentum_(sources.muon_momentum),
      updater_of_(parts.state.blocks()),
      arrivals_(parts.state.blocks()),
      waits_(parts.state.blocks()) {
  *memory_.nonfinite.as<std::int32_t>() = 0;
  if (memory_.device_nonfinite) {
    out_.set(memory_.device_nonfinite.data, 0, sizeof(std::int32_t), {.phase = "initialize"});
  }
  const UpdaterParts shared{.state = state_,
                            .weights = weights_,
                            .collectives = parts.collectives,
                            .device = parts.arenas.device(),
                            .kernels = parts.kernels,
                            .host_kernels = parts.host_kernels,
                            .rule = sources.rule,
                            .scalars = sources.scalars,
                            .nonfinite = memory_.nonfinite,
                            .device_nonfinite = memory_.device_nonfinite,
                            .step = step_,
                            .judge = judge_,
                            .observers = observers_};
  for (const BlockId b : state_.ids()) {
    const BlockPlan& row = state_.plan(b);
    if (!row.is_trained()) continue;
    auto& updater = updaters_[{row.updated_by, row.updated == UpdateTime::kSpeculated}];
    if (updater == nullptr) updater = make_updater(row, shared, parts.pool);
    updater_of_[b] = updater.get();
  }
  weights_.observe(*this);
}

/// Makes the updater of a row's kind. It is called once for each kind that the table has.
std::unique_ptr<Updater> BlockUpdates::make_updater(const BlockPlan& row, const UpdaterParts& parts,
                                                    ThreadPool& pool) {
  switch (row.updated_by) {
    case UpdatedBy::kNobody: break;
    case UpdatedBy::kHost:
      if (row.updated != UpdateTime::kSpeculated) return make_host_updater(parts);
      return std::make_unique<SpeculativeUpdater>(parts,
                                                  UndoLog(state_, memory_.undo.value(), pool));
    case UpdatedBy::kResident: return make_resident_updater(parts);
    case UpdatedBy::kShuttle: {
      auto made = std::make_unique<ShuttleUpdater>(
          parts, StateShuttle(state_, std::move(memory_.shuttle), parts.device,
                              state_.plan().chunk_factor * StateShuttle::kChunk));
      shuttle_ = made.get();
      return made;
    }
    case UpdatedBy::kMuon:
      if (memory_.sharded_muon) {
        return make_sharded_muon_updater(parts, *memory_.sharded_muon, muon_momentum_, pool);
      }
      return std::make_unique<MuonUpdater>(parts, memory_.muon.value(), muon_momentum_, pool);
  }
  throw std::logic_error("a block that nobody updates has no updater");
}

/// Returns the tag of what is submitted for a block: its unit stands in it.
Tag BlockUpdates::tag_of(BlockId block, const Tag& tag) const {
  return {tag.phase, tag.pass, state_.layout().blocks[block].unit.value(), -1};
}

void BlockUpdates::arrived(Arrival arrival, std::optional<Event> decided, const Tag& tag) {
  const BlockId block = arrival.block;
  arrivals_[block] = std::move(arrival);
  const UpdateTime when = state_.plan(block).updated;
  if (when == UpdateTime::kOnArrival || when == UpdateTime::kSpeculated) {
    updater_of_[block]->arrived(block, arrivals_[block], decided, tag_of(block, tag));
  }
}

void BlockUpdates::decided(Event decided, const Tag& tag) {
  for (const BlockId b : state_.ids()) {
    const UpdateTime when = state_.plan(b).updated;
    if (when == UpdateTime::kDecided || when == UpdateTime::kSpeculated) {
      updater_of_[b]->decided(b, arrivals_[b], decided, tag_of(b, tag));
    } else if (when == UpdateTime::kBeforeLoad) {
      waiting_ = {.step_number = step_.number(), .decided = decided, .tag = tag};
      waits_[b] = 1;
      weights_.will_update(b);
    }
  }
}

void BlockUpdates::end_step(const Tag& tag) {
  if (!waiting_) check_device_updates(step_.number(), tag);
}

void BlockUpdates::submit_waiting(const Tag& tag) {
  if (!waiting_) return;
  for (const BlockId b : state_.ids()) before_load(b);
  check_device_updates(waiting_->step_number, tag);
  waiting_.reset();
}

void BlockUpdates::before_load(BlockId block) {
  if (std::exchange(waits_[block], std::uint8_t{0}) == 0) return;
  const Waiting& waiting = waiting_.value();
  updater_of_[block]->before_load(block, waiting.decided, tag_of(block, waiting.tag));
}

/// Submits, once a step, a check of what updates on the device found. After it the host lane knows
/// that the device has read the scalars.
void BlockUpdates::check_device_updates(std::int64_t step_number, const Tag& tag) {
  if (!memory_.device_nonfinite) return;
  out_.copy(memory_.landed_nonfinite.data, memory_.device_nonfinite.data, sizeof(std::int32_t),
            tag);
  host_.wait(out_.record(), WaitFor::kArrived);
  submit_update_check(
      host_, memory_.landed_nonfinite,
      {.step_number = step_number, .what = "the blocks updated on the device", .judge = judge_},
      tag);
}

void BlockUpdates::expect(const AdamWScalars& guess) {
  for (const auto& [kind, updater] : updaters_) updater->expect(guess);
}

bool BlockUpdates::settle(const AdamWScalars& actual) {
  bool held = true;
  for (const auto& [kind, updater] : updaters_) held = updater->settle(actual) && held;
  return held;
}

void BlockUpdates::add_numbers(Accesses& accesses) const {
  for (const auto& [kind, updater] : updaters_) {
    if (const auto numbers = updater->numbers()) accesses.writes.push_back(*numbers);
  }
}

}  // namespace strata
