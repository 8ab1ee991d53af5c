// What nccl_api.h says in words of its own, beside NCCL's header and library where a build has
// them.
#include <nccl.h>

#include <string>
#include <type_traits>

#include "comm/nccl_api.h"
#include "support/catch.h"

namespace strata {

namespace {

template <class Enum>
constexpr int number(Enum value) {
  return static_cast<int>(value);
}

static_assert(number(NcclResult::kSuccess) == number(ncclSuccess));
static_assert(number(NcclResult::kInvalidUsage) == number(ncclInvalidUsage));
static_assert(number(NcclResult::kInProgress) == number(ncclInProgress));
static_assert(number(NcclType::kU8) == number(ncclUint8));
static_assert(number(NcclType::kF32) == number(ncclFloat32));
static_assert(number(NcclType::kF64) == number(ncclFloat64));
static_assert(number(NcclSum::kSum) == number(ncclSum));
static_assert(sizeof(NcclId) == sizeof(ncclUniqueId) && alignof(NcclId) == alignof(ncclUniqueId));
static_assert(sizeof(ncclResult_t) == sizeof(NcclResult));
static_assert(sizeof(ncclDataType_t) == sizeof(NcclType) && sizeof(ncclRedOp_t) == sizeof(NcclSum));

// The functions take what the table's do, in this order.
using Reduction = ncclResult_t (*)(const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t,
                                   ncclComm_t, cudaStream_t);
static_assert(std::is_same_v<decltype(&ncclReduceScatter), Reduction>);
static_assert(std::is_same_v<decltype(&ncclAllReduce), Reduction>);
static_assert(std::is_same_v<decltype(&ncclAllGather),
                             ncclResult_t (*)(const void*, void*, std::size_t, ncclDataType_t,
                                              ncclComm_t, cudaStream_t)>);
static_assert(std::is_same_v<decltype(&ncclCommInitRank),
                             ncclResult_t (*)(ncclComm_t*, int, ncclUniqueId, int)>);
static_assert(
    std::is_same_v<decltype(&ncclCommGetAsyncError), ncclResult_t (*)(ncclComm_t, ncclResult_t*)>);
static_assert(std::is_same_v<decltype(&ncclGetLastError), const char* (*)(ncclComm_t)>);

}  // namespace

TEST_CASE(
    "the library of this build's NCCL has every function, and its version reads as it should") {
  const NcclApi api = load_nccl(STRATA_NCCL_LIBRARY);
  int version = 0;
  REQUIRE(api.get_version(&version) == NcclResult::kSuccess);
  CHECK(nccl_version_text(version).starts_with(std::to_string(NCCL_MAJOR) + "."));
  CHECK(std::string(api.get_error_string(NcclResult::kInvalidUsage)).starts_with("invalid usage"));
}

}  // namespace strata
