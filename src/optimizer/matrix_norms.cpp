// What a rank says of a matrix is the partial sums of the blocks that it has whole, and then room
// for a block of elements at each end of its part: what it has of blocks that are cut there. A rank
// puts together what all have said: all partial sums, each in its place, and then the blocks that
// are cut, whose sums it takes. What nobody says stays undefined.

#include "optimizer/matrix_norms.h"

#include <algorithm>

namespace strata {

namespace {

constexpr std::int64_t kNormBlock = SquaredNorm::kBlock;

/// Returns the most partial sums that a rank says of a matrix.
std::int64_t most_sums(const DealtMatrix& matrix) {
  return SquaredNorm::partials(std::min(matrix.elements(), matrix.shard_elements));
}

/// Calls `visit(edge, at)` for the elements of a rank, which may be none, in the block that is cut
/// at each end of its part; `at` is where they are in what it says of the matrix.
template <class Visit>
void for_each_edge(const DealtMatrix& matrix, int rank, const Visit& visit) {
  const MatrixRange part = matrix.part(rank);
  const MatrixRange whole = matrix.whole_blocks(rank);
  const std::int64_t at = most_sums(matrix);
  visit(MatrixRange{part.begin, std::min(whole.begin * kNormBlock, part.end)}, at);
  visit(MatrixRange{std::min(whole.end * kNormBlock, part.end), part.end}, at + kNormBlock);
}

template <class A>
void show_edges(const DealtMatrix& matrix, int rank, const A* u, double* said) {
  const std::int64_t begin = matrix.part(rank).begin;
  for_each_edge(matrix, rank, [&](const MatrixRange& edge, std::int64_t at) {
    for (std::int64_t i = 0; i < edge.count(); ++i) said[at + i] = u[edge.begin - begin + i];
  });
}

/// Adds what a rank has said of a matrix to what is known of the whole.
void take_over(const DealtMatrix& matrix, int rank, const double* said, double* known) {
  const MatrixRange sums = matrix.whole_blocks(rank);
  std::copy(said, said + sums.count(), known + sums.begin);
  double* const cut = known + SquaredNorm::partials(matrix.elements());
  for_each_edge(matrix, rank, [&](const MatrixRange& edge, std::int64_t at) {
    if (edge.count() == 0) return;
    const auto block = std::ranges::lower_bound(matrix.cut_blocks, edge.begin / kNormBlock);
    const std::int64_t place = block - matrix.cut_blocks.begin();
    std::copy(said + at, said + at + edge.count(),
              cut + place * kNormBlock + edge.begin % kNormBlock);
  });
}

}  // namespace

std::int64_t MatrixNorms::said_values(const DealtMatrix& matrix) {
  return most_sums(matrix) + 2 * kNormBlock;
}

std::int64_t MatrixNorms::known_values(const DealtMatrix& matrix) {
  return SquaredNorm::partials(matrix.elements()) + std::ssize(matrix.cut_blocks) * kNormBlock;
}

MatrixNorms::MatrixNorms(const UpdaterParts& parts, const TensorView& at_home,
                         const TensorView& on_device, const TensorView& known)
    : p_(parts),
      rank_(parts.state.plan().rank),
      ranks_(parts.state.plan().ranks),
      at_home_(at_home),
      on_device_(on_device),
      known_(known) {}

/// Returns the part of a place that has what a rank says of the matrix.
TensorView MatrixNorms::said_by(const DealtMatrix& matrix, int rank,
                                const TensorView& place) const {
  const std::int64_t values = said_values(matrix);
  return place.slice_rows(rank * values, values);
}

ConstTensorView MatrixNorms::measure(const DealtMatrix& matrix, const TensorView& u,
                                     const Tag& tag) {
  if (u) measure_own(matrix, u, tag);
  const std::int64_t sums = SquaredNorm::partials(matrix.elements());
  if (!matrix.is_cut()) return said_by(matrix, rank_, at_home_).slice_rows(0, sums);
  exchange(matrix, tag);
  if (u) complete(matrix, tag);
  return known_.slice_rows(0, sums);
}

void MatrixNorms::measure_own(const DealtMatrix& matrix, const TensorView& u,
                              const Tag& tag) const {
  Stream& host = p_.device.stream(Lane::kHost);
  const TensorView own = said_by(matrix, rank_, at_home_);
  const MatrixRange sums = matrix.whole_blocks(rank_);
  if (sums.count() > 0) {
    const std::int64_t begin = matrix.block(sums.begin).begin;
    const std::int64_t count = matrix.block(sums.end - 1).end - begin;
    p_.host_kernels.run(host,
                        SquaredNorm{.x = u.slice_rows(begin - matrix.part(rank_).begin, count),
                                    .partial = own.slice_rows(0, sums.count())},
                        tag);
  }
  if (matrix.cut_blocks.empty()) return;
  host.host_task(
      "show_edges", [&] { return Accesses({u.bytes()}, {own.bytes()}); }, tag,
      [&matrix, rank = rank_, u, own] {
        auto* const said = own.as<double>();
        if (u.dtype == DType::kF64) return show_edges(matrix, rank, u.as<double>(), said);
        show_edges(matrix, rank, u.as<float>(), said);
      });
}

/// Submits what brings to this rank's home what all ranks say of a matrix, if it has a part of it.
void MatrixNorms::exchange(const DealtMatrix& matrix, const Tag& tag) {
  const bool has_part = matrix.part(rank_).count() > 0;
  const TensorView home = at_home_.slice_rows(0, ranks_ * said_values(matrix));
  const TensorView there = on_device_.slice_rows(0, home.elements());
  Stream& in = p_.device.stream(Lane::kActivationsIn);
  Stream& comm = p_.device.stream(Lane::kComm);
  if (has_part) {
    const TensorView own = said_by(matrix, rank_, at_home_);
    in.wait(gathered_, WaitFor::kReuse);
    in.wait(p_.device.stream(Lane::kHost).record(), WaitFor::kFilled);
    in.copy(said_by(matrix, rank_, on_device_).data, own.data, own.bytes().bytes, tag);
    comm.wait(in.record(), WaitFor::kGathered);
  }
  comm.wait(read_, WaitFor::kReuse);
  p_.collectives.all_gather(comm, there, tag);
  gathered_ = comm.record();
  if (!has_part) return;
  Stream& out = p_.device.stream(Lane::kOut);
  out.wait(gathered_, WaitFor::kFilled);
  out.copy(home.data, there.data, home.bytes().bytes, tag);
  read_ = out.record();
  p_.device.stream(Lane::kHost).wait(read_, WaitFor::kArrived);
}

/// Submits what completes the partial sums by what all ranks have said.
void MatrixNorms::complete(const DealtMatrix& matrix, const Tag& tag) const {
  Stream& host = p_.device.stream(Lane::kHost);
  const TensorView home = at_home_.slice_rows(0, ranks_ * said_values(matrix));
  const TensorView known = known_.slice_rows(0, known_values(matrix));
  host.host_task(
      "merge_norms", [&] { return Accesses({home.bytes()}, {known.bytes()}); }, tag,
      [&matrix, home, known] {
        const int last = matrix.rank_of(matrix.elements() - 1);
        for (int r = matrix.rank_of(0); r <= last; ++r) {
          take_over(matrix, r, home.as<double>() + r * said_values(matrix), known.as<double>());
        }
      });
  std::int64_t at = SquaredNorm::partials(matrix.elements());
  for (const std::int64_t index : matrix.cut_blocks) {
    p_.host_kernels.run(host,
                        SquaredNorm{.x = known.slice_rows(at, matrix.block(index).count()),
                                    .partial = known.slice_rows(index, 1)},
                        tag);
    at += kNormBlock;
  }
}

}  // namespace strata
