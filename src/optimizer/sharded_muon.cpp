// A block is updated in one go: the host lane makes all directions of this rank's shard while the
// first ones travel, and waits then for what all ranks make of them. Gathers are of whole blocks,
// because shards cut blocks into equal parts, and matrices into any.

#include "strata/optimizer/sharded_muon.h"

#include <algorithm>

#include "optimizer/matrix_deal.h"
#include "optimizer/matrix_norms.h"

namespace strata {

namespace {

/// The sizes of the largest blocks and matrices.
struct MuonSizes {
  std::int64_t part = 0;      ///< elements of a matrix that a rank has
  std::int64_t norms = 0;     ///< values that a rank says of a matrix
  std::int64_t known = 0;     ///< values that it knows then
  std::int64_t shard = 0;     ///< elements of a shard
  std::int64_t work = 0;      ///< elements that a rank orthogonalises in a block
  std::int64_t elements = 0;  ///< of a matrix
  std::int64_t square = 0;    ///< elements of a Gram matrix
};

MuonSizes sizes_of(const ModelLayout& layout, const StatePlan& plan) {
  MuonSizes most;
  OptimizerOptions options;
  options.kind = OptimizerKind::kMuon;
  const PerBlock<std::vector<ParameterRun>> runs = parameter_runs(layout, options);
  for (const BlockId b : layout.blocks.ids()) {
    if (plan.blocks[b].updated_by != UpdatedBy::kMuon) continue;
    const std::int64_t shard = layout.blocks[b].shard_elements(plan.ranks);
    const MatrixDeal deal(runs[b], shard, plan.ranks);
    most.shard = std::max(most.shard, shard);
    most.work = std::max(most.work, deal.work_elements);
    for (const DealtMatrix& matrix : deal.matrices) {
      const std::int64_t smaller = std::min(matrix.run->rows, matrix.run->segment->cols);
      most.part = std::max(most.part, std::min(matrix.elements(), shard));
      most.norms = std::max(most.norms, MatrixNorms::said_values(matrix));
      most.known = std::max(most.known, MatrixNorms::known_values(matrix));
      most.elements = std::max(most.elements, matrix.elements());
      most.square = std::max(most.square, smaller * smaller);
    }
  }
  return most;
}

/// Returns elements of a view, from `begin` on, as a matrix.
TensorView matrix_in(const TensorView& view, std::int64_t begin, std::int64_t rows,
                     std::int64_t columns) {
  return {view.slice_rows(begin, rows * columns).data, view.dtype, {rows, columns}};
}

class ShardedMuonUpdater final : public Updater {
 public:
  ShardedMuonUpdater(const UpdaterParts& parts, const ShardedMuonMemory& memory, double momentum,
                     ThreadPool& pool)
      : Updater(parts),
        rank_(parts.state.plan().rank),
        memory_(memory),
        passes_(parts, memory.passes, momentum, pool),
        norms_(parts, memory.norms, memory.gathered_norms, memory.known_norms) {
    const StatePlan& plan = parts.state.plan();
    for (const BlockId b : parts.state.ids()) {
      const std::int64_t shard = parts.state.layout().blocks[b].shard_elements(plan.ranks);
      deals_.push_back(MatrixDeal(parts.rule.runs(b), shard, plan.ranks));
    }
  }

  void before_load(BlockId block, Event decided, const Tag& tag) override;
  [[nodiscard]] bool settle(const AdamWScalars& actual) override {
    passes_.settle(actual);
    return true;
  }
  [[nodiscard]] std::optional<ByteRange> numbers() const override { return passes_.numbers(); }

 private:
  [[nodiscard]] TensorView part_at_home(BlockId block, const DealtMatrix& matrix) const;
  void send(BlockId block, const DealtMatrix& matrix, const Tag& tag);
  void gather(Lane after, const TensorView& full, const Tag& tag);
  void orthogonalise(const DealtMatrix& matrix, const TensorView& results, const Tag& tag) const;
  void apply(BlockId block, const DealtMatrix& matrix, const TensorView& results,
             const Tag& tag) const;

  int rank_;
  ShardedMuonMemory memory_;
  MuonPasses passes_;
  MatrixNorms norms_;
  PerBlock<MatrixDeal> deals_;
  Event gathered_;  ///< the last gather
  Event read_;      ///< the last results are home
};

// The host lane needs no wait: the decision was taken on it. Copies wait for the turn of the block.
void ShardedMuonUpdater::before_load(BlockId block, Event /*decided*/, const Tag& tag) {
  Stream& host = lane(Lane::kHost);
  begin(block, host);
  const BlockState& state = p_.state.block(block);
  p_.rule.submit(p_.host_kernels, host, block, state, state.grad,
                 {.scalars = p_.scalars, .nonfinite = p_.nonfinite}, tag);
  Stream& in = lane(Lane::kActivationsIn);
  in.wait(p_.weights.turn(), WaitFor::kTurn);
  in.wait(gathered_, WaitFor::kReuse);
  const MatrixDeal& deal = deals_[block];
  const std::int64_t ranks = p_.state.plan().ranks;
  const TensorView directions = memory_.directions.slice_rows(0, ranks * state.weight.elements());
  const TensorView results = memory_.results.slice_rows(0, ranks * deal.work_elements);
  for (const DealtMatrix& matrix : deal.matrices) send(block, matrix, tag);
  gather(Lane::kActivationsIn, directions, tag);
  for (const DealtMatrix& matrix : deal.matrices) {
    if (matrix.worker == rank_) orthogonalise(matrix, results, tag);
  }
  gather(Lane::kCompute, results, tag);
  for (const DealtMatrix& matrix : deal.matrices) apply(block, matrix, results, tag);
  read_ = lane(Lane::kOut).record();
  check_update(p_.nonfinite, block, tag);
  end(block, host.record());
}

/// Returns where x and o of this rank's part of a matrix are at home.
TensorView ShardedMuonUpdater::part_at_home(BlockId block, const DealtMatrix& matrix) const {
  const MatrixRange part = matrix.part(rank_);
  return memory_.at_home.slice_rows(matrix.run->begin + part.begin - p_.state.block(block).begin,
                                    part.count());
}

/// Submits what makes this rank's part of the direction of a matrix, and its way to the device.
void ShardedMuonUpdater::send(BlockId block, const DealtMatrix& matrix, const Tag& tag) {
  const MatrixRange part = matrix.part(rank_);
  const std::int64_t begin = matrix.run->begin + part.begin;
  if (part.count() == 0) {
    norms_.measure(matrix, {}, tag);
    return;
  }
  const TensorView u = passes_.make_direction(block, begin, part.count(), tag);
  const ConstTensorView partials = norms_.measure(matrix, u, tag);
  const TensorView x = part_at_home(block, matrix);
  passes_.normalize(u, partials, x, tag);
  Stream& in = lane(Lane::kActivationsIn);
  in.wait(lane(Lane::kHost).record(), WaitFor::kFilled);
  in.copy(memory_.directions.slice_rows(begin, part.count()).data, x.data, x.bytes().bytes, tag);
}

/// Submits the gather of what a lane has made of this rank's part of `full`.
void ShardedMuonUpdater::gather(Lane after, const TensorView& full, const Tag& tag) {
  Stream& comm = lane(Lane::kComm);
  comm.wait(lane(after).record(), WaitFor::kGathered);
  comm.wait(read_, WaitFor::kReuse);
  p_.collectives.all_gather(comm, full, tag);
  gathered_ = comm.record();
}

/// Submits the steps of a matrix that this rank works on.
void ShardedMuonUpdater::orthogonalise(const DealtMatrix& matrix, const TensorView& results,
                                       const Tag& tag) const {
  const std::int64_t rows = matrix.run->rows;
  const std::int64_t columns = matrix.run->segment->cols;
  const std::int64_t own = results.elements() / p_.state.plan().ranks * rank_;
  const TensorView from = matrix_in(memory_.directions, matrix.run->begin, rows, columns);
  const TensorView x = matrix_in(results, own + matrix.place, rows, columns);
  Stream& compute = lane(Lane::kCompute);
  compute.wait(gathered_, WaitFor::kFilled);
  compute.copy(x.data, from.data, x.bytes().bytes, tag);
  submit_newton_schulz(p_.kernels, compute, x, memory_.scratch, tag);
}

/// Submits the way home of this rank's part of a matrix, and the step along it.
void ShardedMuonUpdater::apply(BlockId block, const DealtMatrix& matrix, const TensorView& results,
                               const Tag& tag) const {
  const MatrixRange part = matrix.part(rank_);
  if (part.count() == 0) return;
  const std::int64_t work = results.elements() / p_.state.plan().ranks;
  const TensorView from =
      results.slice_rows(matrix.worker * work + matrix.place + part.begin, part.count());
  const TensorView o = part_at_home(block, matrix);
  Stream& out = lane(Lane::kOut);
  out.wait(gathered_, WaitFor::kFilled);
  out.copy(o.data, from.data, o.bytes().bytes, tag);
  lane(Lane::kHost).wait(out.record(), WaitFor::kArrived);
  passes_.apply(block, *matrix.run, matrix.run->begin + part.begin, o, tag);
}

}  // namespace

ShardedMuonMemory::ShardedMuonMemory(const ModelLayout& layout, const StatePlan& plan,
                                     Allocator& memory) {
  const MuonSizes most = sizes_of(layout, plan);
  const auto take = [&](Space space, DType dtype, std::int64_t elements) {
    return memory.tensor(space, "optimizer.muon", dtype, {elements});
  };
  passes = {plan.compute, most.part, memory};
  norms = take(Space::kPinned, DType::kF64, plan.ranks * most.norms);
  gathered_norms = take(Space::kDevice, DType::kF64, plan.ranks * most.norms);
  known_norms = take(Space::kPageable, DType::kF64, most.known);
  at_home = take(Space::kPinned, plan.compute, most.shard);
  directions = take(Space::kDevice, plan.compute, plan.ranks * most.shard);
  results = take(Space::kDevice, plan.compute, plan.ranks * most.work);
  scratch.gram = take(Space::kDevice, plan.compute, most.square);
  scratch.polynomial = take(Space::kDevice, plan.compute, most.square);
  scratch.copy = take(Space::kDevice, plan.compute, most.elements);
}

std::unique_ptr<Updater> make_sharded_muon_updater(const UpdaterParts& parts,
                                                   const ShardedMuonMemory& memory, double momentum,
                                                   ThreadPool& pool) {
  return std::make_unique<ShardedMuonUpdater>(parts, memory, momentum, pool);
}

}  // namespace strata
