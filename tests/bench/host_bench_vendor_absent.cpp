// Stands in for the vendor's allocator in builds without CUDA.

#include "bench/host_bench.h"

namespace strata::bench {

double vendor_pinning_seconds(std::size_t) { return 0; }

}  // namespace strata::bench
