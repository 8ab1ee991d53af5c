// What a rank says of a matrix is its partial sums, each in the place that it has in the whole, and
// then a block of elements for each block that is cut, each element in its place in the block. What
// it does not have stays undefined. A rank puts together what all have said, and then takes the
// sums of the blocks that are cut.

#include "optimizer/matrix_norms.h"

#include <algorithm>

namespace strata {

namespace {

constexpr std::int64_t kNormBlock = SquaredNorm::kBlock;

MatrixRange common(const MatrixRange& a, const MatrixRange& b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

/// Calls `visit(range, at)` for the elements of a rank in each block that is cut; `at` is where
/// they begin in what it says of the matrix.
template <class Visit>
void for_each_edge(const DealtMatrix& matrix, int rank, const Visit& visit) {
  std::int64_t at = SquaredNorm::partials(matrix.elements());
  for (const std::int64_t index : matrix.cut_blocks) {
    const MatrixRange block = matrix.block(index);
    const MatrixRange edge = common(block, matrix.part(rank));
    if (edge.count() > 0) visit(edge, at + edge.begin - block.begin);
    at += kNormBlock;
  }
}

template <class A>
void show_edges(const DealtMatrix& matrix, int rank, const A* u, double* said) {
  const std::int64_t begin = matrix.part(rank).begin;
  for_each_edge(matrix, rank, [&](const MatrixRange& edge, std::int64_t at) {
    for (std::int64_t i = 0; i < edge.count(); ++i) said[at + i] = u[edge.begin - begin + i];
  });
}

/// Adds what a rank has said of a matrix to what another one knows.
void take_over(const DealtMatrix& matrix, int rank, const double* said, double* known) {
  const MatrixRange sums = matrix.whole_blocks(rank);
  std::copy(said + sums.begin, said + sums.end, known + sums.begin);
  for_each_edge(matrix, rank, [&](const MatrixRange& edge, std::int64_t at) {
    std::copy(said + at, said + at + edge.count(), known + at);
  });
}

}  // namespace

std::int64_t MatrixNorms::values_of(const DealtMatrix& matrix) {
  return SquaredNorm::partials(matrix.elements()) + std::ssize(matrix.cut_blocks) * kNormBlock;
}

MatrixNorms::MatrixNorms(const UpdaterParts& parts, const TensorView& at_home,
                         const TensorView& on_device)
    : p_(parts),
      rank_(parts.state.plan().rank),
      ranks_(parts.state.plan().ranks),
      at_home_(at_home),
      on_device_(on_device) {}

/// Returns the part of a place that has what a rank says of the matrix.
TensorView MatrixNorms::said_by(const DealtMatrix& matrix, int rank,
                                const TensorView& place) const {
  const std::int64_t values = values_of(matrix);
  return place.slice_rows(rank * values, values);
}

ConstTensorView MatrixNorms::measure(const DealtMatrix& matrix, const TensorView& u,
                                     const Tag& tag) {
  if (u) measure_own(matrix, u, tag);
  if (matrix.is_cut()) {
    exchange(matrix, tag);
    if (u) complete(matrix, tag);
  }
  return said_by(matrix, rank_, at_home_).slice_rows(0, SquaredNorm::partials(matrix.elements()));
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
                                    .partial = own.slice_rows(sums.begin, sums.count())},
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
  const TensorView home = at_home_.slice_rows(0, ranks_ * values_of(matrix));
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

/// Submits what completes this rank's partial sums by what the others have said.
void MatrixNorms::complete(const DealtMatrix& matrix, const Tag& tag) const {
  Stream& host = p_.device.stream(Lane::kHost);
  const TensorView home = at_home_.slice_rows(0, ranks_ * values_of(matrix));
  const TensorView own = said_by(matrix, rank_, at_home_);
  host.host_task(
      "merge_norms", [&] { return Accesses({home.bytes()}, {own.bytes()}); }, tag,
      [&matrix, home, own, rank = rank_] {
        const int last = matrix.rank_of(matrix.elements() - 1);
        for (int r = matrix.rank_of(0); r <= last; ++r) {
          if (r == rank) continue;
          take_over(matrix, r, home.as<double>() + r * own.elements(), own.as<double>());
        }
      });
  std::int64_t at = SquaredNorm::partials(matrix.elements());
  for (const std::int64_t index : matrix.cut_blocks) {
    p_.host_kernels.run(host,
                        SquaredNorm{.x = own.slice_rows(at, matrix.block(index).count()),
                                    .partial = own.slice_rows(index, 1)},
                        tag);
    at += kNormBlock;
  }
}

}  // namespace strata
