// The functions of NCCL that strata calls, in one table. The library is loaded when several ranks
// meet on GPUs, so a program that was built with no NCCL has collectives wherever it runs with one,
// and tests put a table of their own in its place. Types are those of NCCL's interface in plain
// words; they have not changed since NCCL 2.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace strata {

/// What NCCL's functions return; other numbers are errors that error_text() names.
enum class NcclResult : int { kSuccess = 0, kInvalidUsage = 5, kInProgress = 7 };
/// The types of elements that are sent: ncclDataType_t.
enum class NcclType : int { kU8 = 1, kF32 = 7, kF64 = 8 };
/// Operations that are taken over ranks: ncclRedOp_t.
enum class NcclSum : int { kSum = 0 };
/// A connection between GPUs: ncclComm_t.
using NcclComm = void*;
/// A queue of work: cudaStream_t.
using NcclStream = void*;
/// What rank 0 gives the others so that they find each other.
struct NcclId {
  std::array<char, 128> bytes;
};

/// NCCL's functions, with its arguments and results (NCCL's User Guide, "API"). Counts are
/// elements; of a shard in all_gather and reduce_scatter.
struct NcclApi {
  std::function<NcclResult(int* version)> get_version{};  ///< 22803 is 2.28.3
  std::function<NcclResult(NcclId* id)> get_unique_id{};
  std::function<NcclResult(NcclComm* comm, int ranks, NcclId id, int rank)> comm_init_rank{};
  std::function<NcclResult(NcclComm comm)> comm_destroy{};
  std::function<NcclResult(NcclComm comm)> comm_abort{};
  std::function<NcclResult(NcclComm comm, NcclResult* error)> comm_get_async_error{};
  std::function<const char*(NcclResult result)> get_error_string{};
  std::function<const char*(NcclComm comm)> get_last_error{};  ///< null: the newest of this process
  std::function<NcclResult(const void* from, void* to, std::size_t count, NcclType type,
                           NcclComm comm, NcclStream stream)>
      all_gather{};
  std::function<NcclResult(const void* from, void* to, std::size_t count, NcclType type,
                           NcclSum operation, NcclComm comm, NcclStream stream)>
      reduce_scatter{};
  std::function<NcclResult(const void* from, void* to, std::size_t count, NcclType type,
                           NcclSum operation, NcclComm comm, NcclStream stream)>
      all_reduce{};
};

/// The name under which systems have NCCL.
inline constexpr const char* kNcclLibrary = "libnccl.so.2";

/// Loads NCCL; it stays until the process ends. Throws BackendError, with the remedy, if there is
/// no such library, if it lacks a function, or if it is older than 2.18.
[[nodiscard]] NcclApi load_nccl(const std::string& library = kNcclLibrary);

/// Throws BackendError with `doing`, as in "connect rank 1 of 2", and what NCCL says of it, unless
/// the result is kSuccess. `comm` may be null.
void check_nccl(const NcclApi& api, NcclResult result, const std::string& doing, NcclComm comm);

/// Returns a version as NCCL counts it as text: "2.28.3".
[[nodiscard]] std::string nccl_version_text(int version);

}  // namespace strata
