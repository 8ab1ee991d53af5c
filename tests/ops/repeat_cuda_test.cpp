// This file runs the checks of every operator (strata/op_checks/check_list.h) on the cuda backend:
// at the smallest shapes, for compute-sanitizer (scripts/sanitize_cuda.sh), and at those of models
// a hundred times, which must give the same bytes each time.

#include <cstddef>
#include <vector>

#include "strata/op_checks/check_list.h"
#include "support/catch.h"
#include "support/without_gpu.h"

namespace strata::test {
namespace {

/// Which checks of a list run: every `stride`-th from `first` on.
struct Part {
  std::size_t first = 0;
  std::size_t stride = 1;
};

void run_checks(const CheckShapes& shapes, AttentionKernels attention, int runs, Part part = {}) {
  if (without_gpu()) return;
  Backend backend =
      make_backend(BackendKind::kCuda, {.device = {}, .threads = 1, .attention = attention});
  OpRunner runner(backend, runs);
  const std::vector<OpCheck> checks = op_checks(shapes, BackendKind::kCuda);
  for (std::size_t i = part.first; i < checks.size(); i += part.stride) {
    INFO(checks[i].name);
    checks[i].run(runner);
  }
}

/// Runs a quarter of the list. The quarters run side by side (scripts/test_gpu.py), since the
/// whole takes minutes.
void repeat_quarter(std::size_t first) {
  run_checks(model_shapes(), AttentionKernels::kAuto, 100, {.first = first, .stride = 4});
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

TEST_CASE("operators on cuda write the same bytes in each of a hundred runs, first quarter",
          "[cuda][slow]") {
  repeat_quarter(0);
}

TEST_CASE("operators on cuda write the same bytes in each of a hundred runs, second quarter",
          "[cuda][slow]") {
  repeat_quarter(1);
}

TEST_CASE("operators on cuda write the same bytes in each of a hundred runs, third quarter",
          "[cuda][slow]") {
  repeat_quarter(2);
}

TEST_CASE("operators on cuda write the same bytes in each of a hundred runs, last quarter",
          "[cuda][slow]") {
  repeat_quarter(3);
}

TEST_CASE("every operator on cuda is right at its smallest shapes", "[cuda][small]") {
  run_checks(smallest_shapes(BackendKind::kCuda), AttentionKernels::kAuto, 1);
}

TEST_CASE("portable attention on cuda writes the same bytes in each of a hundred runs",
          "[cuda][slow]") {
  run_checks(attention_of(model_shapes()), AttentionKernels::kPortable, 100);
}

TEST_CASE("portable attention on cuda is right at its smallest shapes", "[cuda][small]") {
  run_checks(attention_of(smallest_shapes(BackendKind::kCuda)), AttentionKernels::kPortable, 1);
}

}  // namespace strata::test
