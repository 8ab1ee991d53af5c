// Submits the writes of saves, in the order in which blocks become final, and staged ones last:
// nobody waits for those. All of them are tasks of one lane, so a save is written front to back,
// and its commit comes after all of them. saver_memory.cpp takes the memory for it.

#include "strata/checkpoint/state_saver.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/store/chunks.h"

namespace strata {

CheckpointTypes checkpoint_types(const StatePlan& plan) {
  return {
      .weight = plan.compute, .moment = plan.moment, .moments = plan.moments, .split = plan.split};
}

std::vector<BlockId> update_order(const StatePlan& plan) {
  std::vector<BlockId> on_arrival, decided, before_load;
  for (const BlockId b : plan.blocks.ids()) {
    switch (plan.blocks[b].updated) {
      case UpdateTime::kNever: break;
      case UpdateTime::kOnArrival: on_arrival.push_back(b); break;
      case UpdateTime::kBeforeLoad: before_load.push_back(b); break;
      default: decided.push_back(b);
    }
  }
  std::vector<BlockId> order(on_arrival.rbegin(), on_arrival.rend());  // from the head on
  order.insert(order.end(), decided.begin(), decided.end());
  order.insert(order.end(), before_load.begin(), before_load.end());
  return order;
}

StateSaver::StateSaver(TrainingState& state, Arenas& arenas, ThreadPool& pool, const SavePlan& plan)
    : state_(state),
      device_(arenas.device()),
      pool_(pool),
      layout_(make_checkpoint_layout(state.layout(), plan.types)),
      memory_(state.layout(), state.plan(), plan, arenas),
      writers_(plan.writers),
      buffers_({memory_.buffers, memory_.buffers_bytes}, memory_.buffer_bytes),
      lane_(device_.stream(Lane::kSave)),
      wanted_(state.blocks()),
      taken_(state.blocks()),
      updates_(state.blocks()) {
  // The first save would wait for the system to find memory for the copies.
  lane_.host_task(
      "touch_staging", [this] { return staging(); }, {.phase = "initialize"},
      [this] { touch_staging(); });
  last_ = lane_.record();
}

/// Returns that everything is written into which state is copied.
Accesses StateSaver::staging() const {
  Accesses all;
  for (const BlockState& to : memory_.staged) {
    for (const auto tensor : kUpdatedTensors) {
      if (to.*tensor) all.writes.push_back((to.*tensor).bytes());
    }
  }
  return all;
}

void StateSaver::touch_staging() {
  constexpr std::size_t kPage = 4096;
  const std::vector<ByteRange> ranges = staging().writes;
  writers_.parallel_for(static_cast<std::int64_t>(ranges.size()), 1,
                        [&](std::int64_t begin, std::int64_t end) {
                          for (auto i = begin; i < end; ++i) {
                            const ByteRange& range = ranges[static_cast<std::size_t>(i)];
                            auto* data = const_cast<std::byte*>(range.begin);
                            for (std::size_t at = 0; at < range.bytes; at += kPage) {
                              data[at] = std::byte{0};
                            }
                          }
                        });
}

std::size_t StateSaver::staged_bytes() const {
  std::size_t bytes = 0;
  for (const BlockState& to : memory_.staged) {
    for (const auto tensor : kUpdatedTensors) {
      if (to.*tensor) bytes += (to.*tensor).bytes().bytes;
    }
  }
  return bytes;
}

/// Returns the tensors of a block that the saves under way need.
std::vector<StateSaver::Tensor> StateSaver::wanted_tensors(const BlockState& block) const {
  if (weights_alone_) return {&BlockState::weight};
  std::vector<Tensor> wanted;
  std::ranges::copy_if(kUpdatedTensors, std::back_inserter(wanted),
                       [&](Tensor tensor) { return static_cast<bool>(block.*tensor); });
  return wanted;
}

void StateSaver::begin(Saves saves) {
  saves_ = std::move(saves);
  weights_alone_ =
      std::ranges::all_of(saves_, [](const auto& save) { return save->weights_alone(); });
  left_ = 0;
  for (const BlockId b : state_.ids()) {
    wanted_[b] = state_.plan(b).is_trained() ? 1 : 0;
    left_ += wanted_[b];
  }
  wanted_update_ = steps_ + 1;
  later_.clear();
  told_.reset();
  if (committed_) last_ = *std::exchange(committed_, std::nullopt);
  {
    const std::lock_guard lock(mutex_);
    listeners_ = saves_;
    ended_ = false;
  }
  lane_.host_task("begin_saves", {}, {.phase = "save"}, [saves = saves_] {
    for (const auto& save : saves) save->prepare();
  });
}

void StateSaver::tell(const StepOutcome& outcome) {
  const std::lock_guard lock(mutex_);
  last_facts_ = {.history = outcome.history, .loss = outcome.loss, .grad_norm = outcome.grad_norm};
  for (const auto& save : listeners_) {
    if (save->step() == outcome.step + 1) save->tell(*last_facts_);
  }
}

void StateSaver::before_update(BlockId block, Stream& lane) {
  if (taken_[block].ticket != 0) lane.wait(taken_[block], WaitFor::kSaved);
}

void StateSaver::after_update(BlockId block, Event done) {
  if (++updates_[block] == wanted_update_) take(block, done);
}

/// Takes the state of a block, which is final after `done`, into the saves under way.
void StateSaver::take(BlockId block, Event done) {
  if (wanted_[block] == 0) return;
  wanted_[block] = 0;
  --left_;
  if (state_.plan().replica > 0) return finish_blocks();  // another rank writes the same
  if (memory_.staged[block].weight) {
    stage(block, memory_.staged[block], done, last_);
    later_.push_back(block);
  } else if (memory_.passing[block].weight) {
    stage(block, memory_.passing[block], done, passed_);
    lane_.wait(taken_[block], WaitFor::kArrived);
    write(block, memory_.passing[block]);
    passed_ = lane_.record();
  } else {
    lane_.wait(done, WaitFor::kUpdated);
    write(block, state_.block(block));
    taken_[block] = lane_.record();
  }
  finish_blocks();
}

/// Submits the copy of a block, whose state is final after `done`, to where nobody reads any more
/// after `free`.
void StateSaver::stage(BlockId block, const BlockState& to, Event done, Event free) {
  const BlockState& home = state_.block(block);
  const bool device = state_.plan(block).weight == Home::kDevice;
  Stream& lane = device_.stream(device ? Lane::kOut : Lane::kHost);
  lane.wait(done, WaitFor::kUpdated);
  lane.wait(free, WaitFor::kReuse);
  for (const Tensor tensor : wanted_tensors(home)) {
    const TensorView& from = home.*tensor;
    const std::size_t bytes = from.bytes().bytes;
    auto* target = static_cast<std::byte*>((to.*tensor).data);
    const auto* source = static_cast<const std::byte*>(from.data);
    if (device) {
      copy_in_chunks(lane, target, source, bytes, tag_of(block));
      continue;
    }
    lane.host_task(
        "stage_state", [&] { return Accesses({from.bytes()}, {(to.*tensor).bytes()}); },
        tag_of(block),
        [this, target, source, bytes] {
          constexpr std::size_t kPiece = kMiB;
          pool_.parallel_for(static_cast<std::int64_t>((bytes + kPiece - 1) / kPiece), 1,
                             [&](std::int64_t begin, std::int64_t end) {
                               const std::size_t first = static_cast<std::size_t>(begin) * kPiece;
                               const std::size_t last = static_cast<std::size_t>(end) * kPiece;
                               std::memcpy(target + first, source + first,
                                           std::min(last, bytes) - first);
                             });
        },
        {.kind = CostKind::kPooled});
  }
  taken_[block] = lane.record();
}

/// Submits the write of a block from where it lies now.
void StateSaver::write(BlockId block, const BlockState& from) {
  const auto accesses = [&] {
    Accesses all;
    for (const Tensor tensor : wanted_tensors(from)) all.reads.push_back((from.*tensor).bytes());
    return all;
  };
  lane_.host_task("write_state", accesses, tag_of(block), [saves = saves_, block, from] {
    for (const auto& save : saves) save->write(block, from);
  });
}

/// Submits what comes after the last block's update.
void StateSaver::finish_blocks() {
  if (left_ > 0 || !told_ || committed_) return;
  for (const BlockId b : std::exchange(later_, {})) {
    lane_.wait(taken_[b], WaitFor::kArrived);
    write(b, memory_.staged[b]);
  }
  if (std::ranges::any_of(saves_, [](const auto& save) { return save->awaits_validation(); })) {
    return;
  }
  lane_.wait(*told_, WaitFor::kDecided);
  lane_.host_task("commit_saves", {}, {.phase = "save"}, [this, saves = saves_] {
    for (const auto& save : saves) save->commit();
    const std::lock_guard lock(mutex_);
    ended_ = true;
    end_.notify_all();
  });
  committed_ = lane_.record();
}

void StateSaver::end_step(Event told) {
  ++steps_;
  if (saves_.empty() || told_) return;
  told_ = told;
  finish_blocks();
}

void StateSaver::validated(const Validations& validations) {
  bool awaited = false;
  for (const auto& save : saves_) {
    if (!save->awaits_validation()) continue;
    save->tell(validations);
    awaited = true;
  }
  if (awaited) finish_blocks();
}

void StateSaver::write_now(Saves saves) {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& save : saves) save->tell(last_facts_.value());
  }
  begin(std::move(saves));
  told_ = device_.stream(Lane::kHost).record();
  for (const BlockId b : state_.ids()) take(b, *told_);
}

std::vector<SaveReport> StateSaver::take_reports() {
  const std::lock_guard lock(mutex_);
  std::vector<SaveReport> reports;
  if (saves_.empty() || !ended_) return reports;
  for (const auto& save : saves_) reports.push_back(save->report());
  listeners_.clear();
  saves_.clear();
  return reports;
}

void StateSaver::wait(const std::function<void()>& meanwhile) {
  if (!committed_) return;
  const auto ended = [&] {
    std::unique_lock lock(mutex_);
    return end_.wait_for(lock, std::chrono::milliseconds(100), [this] { return ended_; });
  };
  while (meanwhile && !ended()) {
    device_.throw_if_failed();  // a lane that has failed ends no save
    meanwhile();
  }
  device_.wait(*committed_);
}

}  // namespace strata
