// Submits the writes of saves, in the order in which blocks become final, and staged ones last:
// nobody waits for those. All of them are tasks of one lane, so a save is written front to back,
// and its commit comes after all of them.

#include "strata/checkpoint/state_saver.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/store/chunks.h"
#include "strata/store/take_for_blocks.h"

namespace strata {

namespace {

bool on_device(const BlockPlan& row) { return row.weight == Home::kDevice; }

/// Returns the bytes of a block's shard in a save.
std::size_t shard_bytes(const ModelLayout& layout, const StatePlan& plan, BlockId block) {
  return static_cast<std::size_t>(layout.blocks[block].shard_elements(plan.ranks)) *
         plan.updated_bytes();
}

/// Returns the blocks that have memory of their own to be copied to, as many as `staging` holds:
/// first those on the device, whose copies the out lane would wait for, and from the one that is
/// updated last on, since those in front are written soonest.
PerBlock<std::uint8_t> staged_blocks(const ModelLayout& layout, const StatePlan& plan,
                                     std::size_t staging) {
  PerBlock<std::uint8_t> staged(layout.blocks.size());
  if (plan.replica > 0) return staged;
  std::vector<BlockId> last_first = update_order(plan);
  std::ranges::reverse(last_first);
  bool full = false;
  for (const bool device : {true, false}) {
    for (const BlockId b : last_first) {
      if (on_device(plan.blocks[b]) != device) continue;
      const std::size_t bytes = shard_bytes(layout, plan, b);
      full = full || bytes > staging;
      if (full) continue;
      staging -= bytes;
      staged[b] = 1;
    }
  }
  return staged;
}

/// Returns the bytes of pinned memory through which blocks on the device pass one after the other:
/// those of the largest.
std::size_t passage_bytes(const ModelLayout& layout, const StatePlan& plan) {
  std::size_t most = 0;
  if (plan.replica > 0) return most;
  for (const BlockId b : layout.blocks.ids()) {
    if (on_device(plan.blocks[b])) most = std::max(most, shard_bytes(layout, plan, b));
  }
  return most;
}

/// Returns the bytes of a buffer for any window of the files of this model, without making them:
/// a plan is made too often for that.
std::size_t window_bytes(const ModelLayout& layout, const CheckpointTypes& types) {
  constexpr std::size_t kHeaders = 64 * kKiB;  // and the ends of flat tensors
  std::int64_t most = 0;
  for (const Block& block : layout.blocks) most = std::max(most, block.elements);
  const std::size_t each =
      std::max(types.bytes_of(StatePart::kWeight), types.bytes_of(StatePart::kLow) +
                                                       types.bytes_of(StatePart::kM) +
                                                       types.bytes_of(StatePart::kV));
  return round_up(std::min(static_cast<std::size_t>(kHashWindow),
                           kHeaders + static_cast<std::size_t>(most) * each),
                  kFileAlignment);
}

/// Returns views of a block's shard in the passage.
BlockState in_passage(const ModelLayout& layout, const StatePlan& plan, BlockId block,
                      std::byte* passage) {
  const Shape shape{layout.blocks[block].shard_elements(plan.ranks)};
  const auto next = [&](DType dtype) {
    const TensorView view(passage, dtype, shape);
    passage += static_cast<std::size_t>(shape[0]) * size_of(dtype);
    return view;
  };
  BlockState copy;
  copy.begin = shape[0] * plan.rank;
  copy.m = next(plan.moment);  // the widest first: all are aligned then
  copy.v = next(plan.moment);
  copy.weight = next(plan.compute);
  if (plan.compute == DType::kBF16) copy.low = next(DType::kI16);
  return copy;
}

/// Takes memory for the copy of a block's shard.
BlockState take_copy(const ModelLayout& layout, const StatePlan& plan, BlockId block,
                     Allocator& memory) {
  const Space space = on_device(plan.blocks[block]) ? Space::kPinned : Space::kPageable;
  const Shape shape{layout.blocks[block].shard_elements(plan.ranks)};
  BlockState copy;
  copy.begin = shape[0] * plan.rank;
  copy.weight = memory.tensor(space, "checkpoint.staging", plan.compute, shape);
  if (plan.compute == DType::kBF16) {
    copy.low = memory.tensor(space, "checkpoint.staging", DType::kI16, shape);
  }
  copy.m = memory.tensor(space, "checkpoint.staging", plan.moment, shape);
  copy.v = memory.tensor(space, "checkpoint.staging", plan.moment, shape);
  return copy;
}

}  // namespace

CheckpointTypes checkpoint_types(const StatePlan& plan) {
  return {.weight = plan.compute, .moment = plan.moment};
}

std::vector<BlockId> update_order(const StatePlan& plan) {
  std::vector<BlockId> on_arrival, decided, before_load;
  for (const BlockId b : plan.blocks.ids()) {
    switch (plan.blocks[b].updated) {
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

StateSaver::Memory::Memory(const ModelLayout& layout, const StatePlan& plan, const SavePlan& saves,
                           Allocator& memory) {
  buffer_bytes = window_bytes(layout, saves.types) + kFileAlignment;
  buffers_bytes = static_cast<std::size_t>(saves.writers) * buffer_bytes + kFileAlignment;
  buffers = memory.allocate(Space::kPageable, "checkpoint.buffers", buffers_bytes);
  const PerBlock<std::uint8_t> copied = staged_blocks(layout, plan, saves.staging);
  passage = memory.allocate(Space::kPinned, "checkpoint.passage", passage_bytes(layout, plan));
  const auto take = [&](BlockId b) {
    staged.push_back(copied[b] != 0 ? take_copy(layout, plan, b, memory) : BlockState{});
    const bool passes = copied[b] == 0 && on_device(plan.blocks[b]) && passage != nullptr;
    passing.push_back(passes ? in_passage(layout, plan, b, passage) : BlockState{});
  };
  take_for_blocks(layout, plan, memory, take, copied);
}

void StateSaver::Memory::add_staging(const ModelLayout& layout, const StatePlan& plan,
                                     std::size_t staging, Allocator& memory) {
  const PerBlock<std::uint8_t> copied = staged_blocks(layout, plan, staging);
  const auto take = [&](BlockId b) {
    if (copied[b] != 0) static_cast<void>(take_copy(layout, plan, b, memory));
  };
  take_for_blocks(layout, plan, memory, take, copied);
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
  std::ranges::fill(wanted_, std::uint8_t{1});
  left_ = wanted_.size();
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
  const bool device = on_device(state_.plan(block));
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
