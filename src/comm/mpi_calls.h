// MPI as the other mpi_ files see it: every call checked, every handle owned, and the one movement
// of shards that both the control plane and the collectives need. Ranks of MPI are made from these
// parts (mpi_ranks.cpp), and their collectives as well (mpi_collectives.cpp).
#pragma once

#include <mpi.h>

#include <cstddef>

#include "strata/base/bytes.h"
#include "strata/comm/collectives.h"

namespace strata {

/// Throws ConnectionError with the name of the call and MPI's own words if it did not succeed.
void check_mpi(int code, const char* call);

/// MPI between initialisation and finalisation. The constructor takes part in an MPI that somebody
/// else has initialised, which is then not finalised here, and throws BackendError if threads may
/// not call MPI at the same time.
class MpiLibrary {
 public:
  MpiLibrary();
  ~MpiLibrary();
  MpiLibrary(const MpiLibrary&) = delete;
  MpiLibrary& operator=(const MpiLibrary&) = delete;

  /// Returns true after finalisation, when handles can no longer be freed.
  [[nodiscard]] static bool finalized();

 private:
  bool owned_ = false;
};

/// Ranks in a context of their own: their messages never meet those of another group.
class MpiGroup {
 public:
  /// The ranks of `from` that pass the same `part`, in the order that they have there. All ranks of
  /// `from` construct it.
  explicit MpiGroup(MPI_Comm from, int part = 0);
  ~MpiGroup();
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;
  [[nodiscard]] MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// The datatype of `bytes` bytes at the same place in every shard: element r of it lies in shard r.
class MpiShardPiece {
 public:
  MpiShardPiece(std::size_t bytes, std::size_t shard_bytes);
  ~MpiShardPiece();
  MpiShardPiece(const MpiShardPiece&) = delete;
  MpiShardPiece& operator=(const MpiShardPiece&) = delete;
  [[nodiscard]] MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

/// Bytes that one rank contributes to one MPI call, far below the 2^31 of MPI's counts.
inline constexpr std::size_t kMpiCallBytes = 256 * kMiB;

/// Takes all ranks of the job down; `code` becomes its exit code. Where the launcher is out of
/// reach this process ends by itself some seconds later.
[[noreturn]] void end_job(int code);

/// Blocks until every rank of the group has called it, asleep rather than polling: ranks may be
/// seconds apart, and MPI's own calls keep a core busy while they wait.
void meet(MPI_Comm comm);

/// Blocks until every shard of `full` holds what its rank has there.
void gather_in_place(MPI_Comm comm, const Shards& full);

}  // namespace strata
