// Checks and handles of MPI, and the gather of shards.
#include "comm/mpi_calls.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "strata/base/error.h"
#include "strata/base/start_thread.h"

namespace strata {

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw ConnectionError(std::string(call) + " failed with code " + std::to_string(code) + ": " +
                        std::string(text.data(), static_cast<std::size_t>(length)) +
                        "; another rank may have died");
}

MpiLibrary::MpiLibrary() {
  int initialized = 0;
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Initialized(&initialized), "MPI_Initialized");
  if (initialized == 0) {
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
    owned_ = true;
  } else {
    check_mpi(MPI_Query_thread(&provided), "MPI_Query_thread");
  }
  if (provided < MPI_THREAD_MULTIPLE) {
    if (owned_) MPI_Finalize();
    throw BackendError(
        "MPI_Init_thread: this MPI does not offer MPI_THREAD_MULTIPLE, which the lanes need. "
        "Use one that was built with thread support");
  }
}

MpiLibrary::~MpiLibrary() {
  if (owned_ && !finalized()) MPI_Finalize();
}

bool MpiLibrary::finalized() {
  int finalized = 0;
  return MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0;
}

MpiGroup::MpiGroup(MPI_Comm from, int part) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(from, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_split(from, part, rank, &comm_), "MPI_Comm_split");
  check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

MpiGroup::~MpiGroup() {
  if (!MpiLibrary::finalized()) MPI_Comm_free(&comm_);
}

MpiShardPiece::MpiShardPiece(std::size_t bytes, std::size_t shard_bytes) {
  MPI_Datatype piece = MPI_DATATYPE_NULL;
  check_mpi(MPI_Type_contiguous(static_cast<int>(bytes), MPI_BYTE, &piece), "MPI_Type_contiguous");
  const int resized = MPI_Type_create_resized(piece, 0, static_cast<MPI_Aint>(shard_bytes), &type_);
  MPI_Type_free(&piece);
  check_mpi(resized, "MPI_Type_create_resized");
  check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
}

MpiShardPiece::~MpiShardPiece() { MPI_Type_free(&type_); }

void end_job(int code) {
  // MPI_Abort waits for an answer, which does not come through a cable that is cut.
  static constexpr std::chrono::seconds kPatience{2};
  try {
    start_thread("abort", [code] {
      std::this_thread::sleep_for(kPatience);
      std::_Exit(code);
    }).detach();
  } catch (const OutOfThreads&) {
    // Then MPI's own patience counts.
  }
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

void meet(MPI_Comm comm) {
  constexpr std::chrono::microseconds kLongestSleep{200};
  MPI_Request barrier = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(comm, &barrier), "MPI_Ibarrier");
  for (std::chrono::microseconds sleep{1};; sleep = std::min(2 * sleep, kLongestSleep)) {
    int passed = 0;
    check_mpi(MPI_Test(&barrier, &passed, MPI_STATUS_IGNORE), "MPI_Test");
    if (passed != 0) return;
    std::this_thread::sleep_for(sleep);
  }
}

void gather_in_place(MPI_Comm comm, const Shards& full) {
  meet(comm);
  for (std::size_t begin = 0; begin < full.shard_bytes; begin += kMpiCallBytes) {
    const MpiShardPiece piece(std::min(kMpiCallBytes, full.shard_bytes - begin), full.shard_bytes);
    check_mpi(
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, full.data + begin, 1, piece.get(), comm),
        "MPI_Allgather");
  }
}

}  // namespace strata
