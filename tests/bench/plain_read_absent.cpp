// Stands in for plain reads in a build without CUDA.

#include <stdexcept>

#include "bench/plain_read.h"

namespace strata::bench {

void submit_read(Stream&, const TensorView&, int) {
  throw std::runtime_error("plain reads need a build with CUDA");
}

}  // namespace strata::bench
