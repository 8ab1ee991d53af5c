// Opens the library and looks its functions up. NCCL keeps threads and state of its own, so it is
// never closed.
#include "comm/nccl_api.h"

#include <dlfcn.h>

#include "strata/base/error.h"

namespace strata {

namespace {

/// The first version that releases what it holds for a connection when that is aborted while it
/// waits for other ranks.
constexpr int kOldestVersion = 21800;

/// Up to 2.8 the major version counted thousands.
constexpr int kFirstOfTenThousands = 10000;

constexpr const char* kRemedy =
    ". Several ranks on GPUs need NCCL 2.18 or later: install libnccl2, or set LD_LIBRARY_PATH to "
    "the folder that has libnccl.so.2";

/// Finds a function by its name in NCCL's interface.
template <class Result, class... Arguments>
void find(std::function<Result(Arguments...)>& function, void* handle, const char* name,
          const std::string& library) {
  void* const address = dlsym(handle, name);
  if (address == nullptr) throw BackendError(library + " has no function " + name + kRemedy);
  function = reinterpret_cast<Result (*)(Arguments...)>(address);
}

}  // namespace

NcclApi load_nccl(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = dlerror();
    throw BackendError("cannot load NCCL: " + std::string(why == nullptr ? library : why) +
                       kRemedy);
  }
  NcclApi api;
  find(api.get_version, handle, "ncclGetVersion", library);
  int version = 0;
  if (api.get_version(&version) != NcclResult::kSuccess || version < kOldestVersion) {
    throw BackendError(library + " is NCCL " + nccl_version_text(version) + kRemedy);
  }
  find(api.get_unique_id, handle, "ncclGetUniqueId", library);
  find(api.comm_init_rank, handle, "ncclCommInitRank", library);
  find(api.comm_destroy, handle, "ncclCommDestroy", library);
  find(api.comm_abort, handle, "ncclCommAbort", library);
  find(api.comm_get_async_error, handle, "ncclCommGetAsyncError", library);
  find(api.get_error_string, handle, "ncclGetErrorString", library);
  find(api.get_last_error, handle, "ncclGetLastError", library);
  find(api.all_gather, handle, "ncclAllGather", library);
  find(api.reduce_scatter, handle, "ncclReduceScatter", library);
  find(api.all_reduce, handle, "ncclAllReduce", library);
  return api;
}

void check_nccl(const NcclApi& api, NcclResult result, const std::string& doing, NcclComm comm) {
  if (result == NcclResult::kSuccess) return;
  std::string text = "NCCL could not " + doing + ": " + api.get_error_string(result);
  const char* const last = api.get_last_error(comm);
  if (last != nullptr && *last != '\0') text += std::string(" (") + last + ")";
  throw BackendError(text);
}

std::string nccl_version_text(int version) {
  const int major = version < kFirstOfTenThousands ? 1000 : 10000;
  return std::to_string(version / major) + "." + std::to_string(version % major / 100) + "." +
         std::to_string(version % 100);
}

}  // namespace strata
