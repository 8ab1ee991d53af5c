// A library that says it is a version of NCCL and has nothing else of it: what load_nccl refuses.
extern "C" int ncclGetVersion(int* version);

extern "C" int ncclGetVersion(int* version) {
  *version = STRATA_NCCL_VERSION;
  return 0;
}
