// This file makes a Kernels object of the operators of the CPU backend. make_cpu_kernels returns
// it, for the cpu backend and for the host lane of the cuda backend. A launch copies the operator
// into a task of the stream and returns at once, unless the stream runs tasks in the call; views
// must stay valid until the task has run.

#include <memory>
#include <utility>

#include "kernels/cpu/operators.h"
#include "strata/ops/backend.h"

namespace strata {

namespace {

/// Puts every operator on the stream's queue, by value.
class CpuKernels final : public Kernels {
 public:
  explicit CpuKernels(std::shared_ptr<ThreadPool> pool)
      : pool_(std::move(pool)), context_{*pool_, *cpu::usable_simd().back()} {}

 private:
  template <Op O>
  void enqueue(Stream& stream, const O& op) {
    auto task = [this, op] { cpu::execute(context_, op); };
    // The rest of what is planned for a queued submission is its place in the queue.
    static_assert(sizeof(task) <= kQueuedBytes - 128);
    stream.enqueue_host(std::move(task));
  }

#define STRATA_LAUNCH(Operator) \
  void launch(Stream& stream, const Operator& op) override { enqueue(stream, op); }
  STRATA_FOR_EACH_OPERATOR(STRATA_LAUNCH)
#undef STRATA_LAUNCH

  std::shared_ptr<ThreadPool> pool_;  // the backend that owns these kernels shares it
  cpu::Context context_;
};

}  // namespace

std::unique_ptr<Kernels> make_cpu_kernels(std::shared_ptr<ThreadPool> pool) {
  return std::make_unique<CpuKernels>(std::move(pool));
}

}  // namespace strata
