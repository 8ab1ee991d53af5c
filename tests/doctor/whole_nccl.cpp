// A library that has all functions of NCCL by name and says that it is a version of it: what
// load_nccl accepts. None of them does anything.
namespace strata {
enum class NcclResult : int;  // sanitizers compare the type with the caller's
}

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's.
extern "C" {
strata::NcclResult ncclGetVersion(int* version);
int ncclGetUniqueId();
int ncclCommInitRank();
int ncclCommDestroy();
int ncclCommAbort();
int ncclCommGetAsyncError();
const char* ncclGetErrorString();
const char* ncclGetLastError();
int ncclAllGather();
int ncclReduceScatter();
int ncclAllReduce();

strata::NcclResult ncclGetVersion(int* version) {
  *version = 22803;
  return strata::NcclResult{0};
}
int ncclGetUniqueId() { return 0; }
int ncclCommInitRank() { return 0; }
int ncclCommDestroy() { return 0; }
int ncclCommAbort() { return 0; }
int ncclCommGetAsyncError() { return 0; }
const char* ncclGetErrorString() { return ""; }
const char* ncclGetLastError() { return ""; }
int ncclAllGather() { return 0; }
int ncclReduceScatter() { return 0; }
int ncclAllReduce() { return 0; }
}
// NOLINTEND(readability-identifier-naming)
