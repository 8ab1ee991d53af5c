// A library that says it is a version of NCCL and has nothing else of it: what load_nccl refuses.
namespace strata {
enum class NcclResult : int;  // sanitizers compare the type with the caller's
}

// NOLINTBEGIN(readability-identifier-naming): the name is NCCL's.
extern "C" strata::NcclResult ncclGetVersion(int* version);

extern "C" strata::NcclResult ncclGetVersion(int* version) {
  *version = STRATA_NCCL_VERSION;
  return strata::NcclResult{0};
}
// NOLINTEND(readability-identifier-naming)
