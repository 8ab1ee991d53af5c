// What an operator writes beside its outputs is found, wherever it stands: kernels are planted that
// change a byte of their own.

#include <cstddef>
#include <memory>
#include <vector>

#include "strata/op_checks/op_runner.h"
#include "support/catch.h"
#include "support/passed_on_kernels.h"

namespace strata::test {
namespace {

/// Dropout that also flips a bit of the byte so many behind the begin of its output.
template <std::ptrdiff_t kOffset>
class FlipsBit final : public PassedOnKernels {
 public:
  using PassedOnKernels::PassedOnKernels;

 protected:
  void launch(Stream& stream, const Dropout& op) override {
    std::byte* const at = static_cast<std::byte*>(op.y.data) + kOffset;
    pass_on(stream, op, [at] { *at ^= std::byte{1}; });
  }
};

/// Drops elements of 3 rows of 7, which are 9 apart: 28 bytes of every 36, 100 from begin to end.
template <std::ptrdiff_t kOffset>
void run_and_flip() {
  Backend backend = with_kernels<FlipsBit<kOffset>>()(BackendKind::kCpu, {});
  OpRunner runner(backend);
  const Shape shape{3, 7};
  const TensorView x = runner.upload(std::vector<double>(21, 1), DType::kF32, shape);
  const TensorView y = runner.output(DType::kF32, shape, 9);
  runner.run(Dropout{.x = x, .y = y, .mask = {.rate = 0.5, .seed = 1}});
}

}  // namespace

TEST_CASE("what an operator writes before, between and behind its rows is found", "[ops]") {
  const auto found = ContainsSubstring("wrote beside its outputs");
  CHECK_NOTHROW(run_and_flip<0>());
  CHECK_NOTHROW(run_and_flip<99>());
  CHECK_THROWS_WITH(run_and_flip<-1>(), found);
  CHECK_THROWS_WITH(run_and_flip<28>(), found);
  CHECK_THROWS_WITH(run_and_flip<71>(), found);
  CHECK_THROWS_WITH(run_and_flip<100>(), found);
  CHECK_THROWS_WITH(run_and_flip<355>(), found);
}

}  // namespace strata::test
