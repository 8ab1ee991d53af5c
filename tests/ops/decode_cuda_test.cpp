// Tests attention of single queries over a cache on a GPU, with the kernels for this device and
// with the portable ones.

#include <array>

#include "support/catch.h"
#include "support/op_cases.h"
#include "support/without_gpu.h"

namespace strata::test {

TEST_CASE("single queries over a cache on cuda follow the formula", "[cuda]") {
  if (without_gpu()) return;
  for (const AttentionKernels kernels : {AttentionKernels::kAuto, AttentionKernels::kPortable}) {
    Backend backend =
        make_backend(BackendKind::kCuda, {.device = {}, .threads = 1, .attention = kernels});
    OpRunner runner(backend);
    for (const AttentionCase& c : decode_cases()) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        const Outputs first = check_attention_forward(runner, dtype, c, dtype);
        CHECK(check_attention_forward(runner, dtype, c, dtype) == first);
        // How many parts there may be changes nothing.
        AttentionCase longer = c;
        longer.parts += 3;
        CHECK(check_attention_forward(runner, dtype, longer, dtype) == first);
      }
    }
  }
}

}  // namespace strata::test
