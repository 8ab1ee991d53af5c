// A library that has all functions of NCCL by name and says that it is a version of it: what
// load_nccl accepts. None of them does anything.
extern "C" {
int ncclGetVersion(int* version);
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

int ncclGetVersion(int* version) {
  *version = 22803;
  return 0;
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
