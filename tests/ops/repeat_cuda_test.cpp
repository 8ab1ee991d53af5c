// This file runs the checks of every operator (strata/op_checks/check_list.h) on the cuda backend:
// at the smallest shapes, for compute-sanitizer (scripts/sanitize_cuda.sh), and at those of models
// a hundred times, which must give the same bytes each time.

#include "strata/op_checks/check_list.h"
#include "support/catch.h"
#include "support/without_gpu.h"

namespace strata::test {
namespace {

void run_all(const CheckShapes& shapes, AttentionKernels attention, int runs) {
  if (without_gpu()) return;
  Backend backend =
      make_backend(BackendKind::kCuda, {.device = {}, .threads = 1, .attention = attention});
  OpRunner runner(backend, runs);
  for (const OpCheck& check : op_checks(shapes, BackendKind::kCuda)) {
    INFO(check.name);
    check.run(runner);
  }
}

/// The shapes of attention alone, whose kernels the config chooses.
CheckShapes attention_of(const CheckShapes& shapes) {
  CheckShapes all;
  all.attention = shapes.attention;
  all.decode = shapes.decode;
  all.fused_attend = shapes.fused_attend;
  return all;
}

}  // namespace

TEST_CASE("every operator on cuda writes the same bytes in each of a hundred runs",
          "[cuda][slow]") {
  run_all(model_shapes(), AttentionKernels::kAuto, 100);
}

TEST_CASE("every operator on cuda is right at its smallest shapes", "[cuda][small]") {
  run_all(smallest_shapes(BackendKind::kCuda), AttentionKernels::kAuto, 1);
}

TEST_CASE("portable attention on cuda writes the same bytes in each of a hundred runs", "[cuda]") {
  run_all(attention_of(model_shapes()), AttentionKernels::kPortable, 100);
}

TEST_CASE("portable attention on cuda is right at its smallest shapes", "[cuda][small]") {
  run_all(attention_of(smallest_shapes(BackendKind::kCuda)), AttentionKernels::kPortable, 1);
}

}  // namespace strata::test
