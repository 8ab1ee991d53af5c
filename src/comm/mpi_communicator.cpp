#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <string>

#include "comm/collective.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/comm/communicator.h"

namespace strata {

namespace {

/// Bytes that one rank contributes to one MPI call: far below the 2^31 of MPI's counts.
constexpr std::size_t kCallBytes = 256 * kMiB;
/// What reduce_scatter receives before it adds, all ranks together.
constexpr std::size_t kScratchBytes = 8 * kMiB;
constexpr std::size_t kPieceAlignment = 64;

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw BackendError(std::string(call) + " failed with code " + std::to_string(code) + ": " +
                     std::string(text.data(), static_cast<std::size_t>(length)));
}

/// MPI between initialisation and finalisation.
class Session {
 public:
  Session() {
    int initialized = 0;
    int provided = MPI_THREAD_SINGLE;
    check(MPI_Initialized(&initialized), "MPI_Initialized");
    if (initialized == 0) {
      check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
      owned_ = true;
    } else {
      check(MPI_Query_thread(&provided), "MPI_Query_thread");
    }
    if (provided < MPI_THREAD_MULTIPLE) {
      if (owned_) MPI_Finalize();
      throw BackendError(
          "MPI_Init_thread: this MPI does not offer MPI_THREAD_MULTIPLE, which the lanes need. "
          "Use one that was built with thread support");
    }
  }
  ~Session() {
    if (owned_ && !finalized()) MPI_Finalize();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] static bool finalized() {
    int finalized = 0;
    return MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0;
  }

 private:
  bool owned_ = false;
};

/// All ranks, in a context of its own: its messages never meet those of another Group.
class Group {
 public:
  Group() {
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
  ~Group() {
    if (!Session::finalized()) MPI_Comm_free(&comm_);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  [[nodiscard]] MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// `bytes` bytes in each shard, at the same place: element r of this type is the one in shard r.
class ShardPiece {
 public:
  ShardPiece(std::size_t bytes, std::size_t shard_bytes) {
    MPI_Datatype piece = MPI_DATATYPE_NULL;
    check(MPI_Type_contiguous(static_cast<int>(bytes), MPI_BYTE, &piece), "MPI_Type_contiguous");
    const int resized =
        MPI_Type_create_resized(piece, 0, static_cast<MPI_Aint>(shard_bytes), &type_);
    MPI_Type_free(&piece);
    check(resized, "MPI_Type_create_resized");
    check(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  ~ShardPiece() { MPI_Type_free(&type_); }
  ShardPiece(const ShardPiece&) = delete;
  ShardPiece& operator=(const ShardPiece&) = delete;
  [[nodiscard]] MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

void gather_in_place(MPI_Comm comm, const Shards& full) {
  for (std::size_t begin = 0; begin < full.shard_bytes; begin += kCallBytes) {
    const ShardPiece piece(std::min(kCallBytes, full.shard_bytes - begin), full.shard_bytes);
    check(
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, full.data + begin, 1, piece.get(), comm),
        "MPI_Allgather");
  }
}

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator() {
    check(MPI_Comm_rank(lane_.get(), &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(lane_.get(), &size_), "MPI_Comm_size");
    const auto ranks = static_cast<std::size_t>(size_);
    piece_bytes_ =
        std::max(kPieceAlignment, kScratchBytes / ranks / kPieceAlignment * kPieceAlignment);
    scratch_.resize(ranks * piece_bytes_);
  }
  ~MpiCommunicator() override {
    // An exception is passing by: the others may wait for this rank, and MPI_Finalize for them.
    if (std::uncaught_exceptions() > exceptions_ && size_ > 1) {
      log::error("rank {} ends with an exception and takes the other ranks down", rank_);
      MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::string_view name() const override { return "mpi"; }

  void all_gather(Stream& comm, const TensorView& full, const Tag& tag) override {
    const Shards shards = shards_of(kAllGather, full, size_);
    submit_all_gather(comm, shards, rank_, tag, [&] {
      comm.enqueue_host([this, shards] { gather_in_place(lane_.get(), shards); });
    });
  }
  void reduce_scatter(Stream& comm, const TensorView& full, const Tag& tag) override {
    const Shards shards = summable_shards_of(full, size_);
    submit_reduce_scatter(comm, shards, tag, [&] {
      comm.enqueue_host([this, shards] { reduce_scatter_now(shards); });
    });
  }

  void barrier(Channel channel) override { check(MPI_Barrier(group(channel)), "MPI_Barrier"); }
  void all_reduce_sum(std::span<double> values, Channel channel) override;
  void broadcast(std::span<std::byte> bytes, int root, Channel channel) override;
  [[nodiscard]] std::vector<std::byte> all_gather_host(std::span<const std::byte> bytes,
                                                       Channel channel) override;
  [[noreturn]] void abort(int code) override {
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }

 private:
  [[nodiscard]] MPI_Comm group(Channel channel) const {
    return channels_[static_cast<std::size_t>(channel)].get();
  }
  void reduce_scatter_now(const Shards& full);

  int exceptions_ = std::uncaught_exceptions();
  Session session_;
  Group lane_;
  std::array<Group, kChannelCount> channels_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<std::byte> scratch_;  ///< [R, piece_bytes_] of the comm lane
  std::size_t piece_bytes_ = 0;     ///< of this rank's shard, received and added at a time
};

void MpiCommunicator::reduce_scatter_now(const Shards& full) {
  // MPI_Reduce_scatter may add in any order; here every rank sends the shards to their owners, who
  // add them in rank order.
  std::vector<const std::byte*> parts(static_cast<std::size_t>(size_));
  for (std::size_t begin = 0; begin < full.shard_bytes; begin += piece_bytes_) {
    const std::size_t bytes = std::min(piece_bytes_, full.shard_bytes - begin);
    const ShardPiece piece(bytes, full.shard_bytes);
    check(MPI_Alltoall(full.data + begin, 1, piece.get(), scratch_.data(), static_cast<int>(bytes),
                       MPI_BYTE, lane_.get()),
          "MPI_Alltoall");
    for (std::size_t r = 0; r < parts.size(); ++r) parts[r] = scratch_.data() + r * bytes;
    sum_in_rank_order(full.dtype, parts, bytes, full.at(rank_) + begin);
  }
}

void MpiCommunicator::all_reduce_sum(std::span<double> values, Channel channel) {
  const std::vector<std::byte> all = all_gather_host(std::as_bytes(values), channel);
  std::vector<const std::byte*> parts(static_cast<std::size_t>(size_));
  for (std::size_t r = 0; r < parts.size(); ++r) parts[r] = all.data() + r * values.size_bytes();
  sum_in_rank_order(DType::kF64, parts, values.size_bytes(), std::as_writable_bytes(values).data());
}

void MpiCommunicator::broadcast(std::span<std::byte> bytes, int root, Channel channel) {
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), kCallBytes);
    check(MPI_Bcast(bytes.data(), static_cast<int>(count), MPI_BYTE, root, group(channel)),
          "MPI_Bcast");
    bytes = bytes.subspan(count);
  }
}

std::vector<std::byte> MpiCommunicator::all_gather_host(std::span<const std::byte> bytes,
                                                        Channel channel) {
  std::vector<std::byte> all(bytes.size() * static_cast<std::size_t>(size_));
  const Shards shards{.data = all.data(), .shard_bytes = bytes.size(), .ranks = size_};
  std::copy(bytes.begin(), bytes.end(), shards.at(rank_));
  gather_in_place(group(channel), shards);
  return all;
}

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator() {
  return std::make_unique<MpiCommunicator>();
}

}  // namespace strata
