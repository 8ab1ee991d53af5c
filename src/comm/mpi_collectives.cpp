// Gathers and sums shards in host memory through MPI. A gather is MPI's own. A sum is not: every
// rank sends the shards to their owners, piece by piece, and the owner adds what it has received in
// the order of ranks, because MPI_Reduce_scatter may add in another order from run to run.
#include "comm/mpi_collectives.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "comm/mpi_calls.h"
#include "comm/rank_sum.h"
#include "strata/base/bytes.h"

namespace strata {

namespace {

/// What reduce_scatter receives before it adds, all ranks together.
constexpr std::size_t kScratchBytes = 8 * kMiB;
constexpr std::size_t kPieceAlignment = 64;

class MpiCollectives final : public Collectives {
 public:
  MpiCollectives(MPI_Comm lane, int rank, int ranks)
      : Collectives(rank, ranks), lane_(lane), parts_(static_cast<std::size_t>(ranks)) {
    piece_bytes_ = std::max(kPieceAlignment,
                            kScratchBytes / parts_.size() / kPieceAlignment * kPieceAlignment);
    scratch_.resize(parts_.size() * piece_bytes_);
  }

 private:
  void enqueue_all_gather(Stream& comm, const Shards& full) override {
    comm.enqueue_host([this, full] { gather_in_place(lane_, full); });
  }
  void enqueue_reduce_scatter(Stream& comm, const Shards& full) override {
    comm.enqueue_host([this, full] { reduce_scatter_now(full); });
  }
  void enqueue_all_reduce(Stream& comm, const Shards& values) override {
    comm.enqueue_host([this, values] { all_reduce_now(values); });
  }

  /// Runs on the comm lane.
  void reduce_scatter_now(const Shards& full) {
    meet(lane_);
    for (std::size_t begin = 0; begin < full.shard_bytes; begin += piece_bytes_) {
      const std::size_t bytes = std::min(piece_bytes_, full.shard_bytes - begin);
      const MpiShardPiece piece(bytes, full.shard_bytes);
      check_mpi(MPI_Alltoall(full.data + begin, 1, piece.get(), scratch_.data(),
                             static_cast<int>(bytes), MPI_BYTE, lane_),
                "MPI_Alltoall");
      for (std::size_t r = 0; r < parts_.size(); ++r) parts_[r] = scratch_.data() + r * bytes;
      sum_in_rank_order(full.dtype, parts_, bytes, full.at(rank()) + begin);
    }
  }

  /// Runs on the comm lane: every rank receives what all of them have, piece by piece, and adds it
  /// in the same order.
  void all_reduce_now(const Shards& values) {
    for (std::size_t begin = 0; begin < values.shard_bytes; begin += piece_bytes_) {
      const std::size_t bytes = std::min(piece_bytes_, values.shard_bytes - begin);
      check_mpi(MPI_Allgather(values.data + begin, static_cast<int>(bytes), MPI_BYTE,
                              scratch_.data(), static_cast<int>(bytes), MPI_BYTE, lane_),
                "MPI_Allgather");
      for (std::size_t r = 0; r < parts_.size(); ++r) parts_[r] = scratch_.data() + r * bytes;
      sum_in_rank_order(values.dtype, parts_, bytes, values.data + begin);
    }
  }

  MPI_Comm lane_;
  std::vector<const std::byte*> parts_;  ///< of a piece, by rank; the comm lane's
  std::vector<std::byte> scratch_;       ///< [ranks, piece_bytes_]; the comm lane's
  std::size_t piece_bytes_ = 0;          ///< of this rank's shard, received and added at a time
};

}  // namespace

std::unique_ptr<Collectives> make_mpi_collectives(MPI_Comm lane, int rank, int ranks) {
  return std::make_unique<MpiCollectives>(lane, rank, ranks);
}

}  // namespace strata
