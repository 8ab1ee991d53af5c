// Kernels around those of the cpu backend, for tests that plant a defect into one operator, or look
// at each on its way.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "strata/ops/backend.h"

namespace strata::test {

/// Kernels that hand every operator on to others. A derived class overrides the launch of its
/// operator.
class PassedOnKernels : public Kernels {
 public:
  PassedOnKernels(std::unique_ptr<Kernels> kernels, std::unique_ptr<Device> dry)
      : kernels_(std::move(kernels)), dry_(std::move(dry)) {}

 protected:
  /// Puts the operator on the stream, with `before` and `after` around it, as one submission.
  template <Op O>
  void pass_on(Stream& stream, const O& op, std::function<void()> after = nullptr,
               std::function<void()> before = nullptr) {
    Tasks tasks(*dry_, stream.lane());
    if (before) tasks.enqueue_host(std::move(before));
    kernels_->run(tasks, op, {});
    if (after) tasks.enqueue_host(std::move(after));
    stream.enqueue_host([all = std::move(tasks.all)] {
      for (const auto& task : all) task();
    });
  }

#define STRATA_PASS_ON(Operator) \
  void launch(Stream& stream, const Operator& op) override { pass_on(stream, op); }
  STRATA_FOR_EACH_OPERATOR(STRATA_PASS_ON)
#undef STRATA_PASS_ON

 private:
  /// Collects tasks instead of running them; a dry device counts nothing and traces nothing.
  class Tasks final : public Stream {
   public:
    using Stream::Stream;
    void enqueue_host(std::function<void()> task) override { all.push_back(std::move(task)); }
    std::vector<std::function<void()>> all;

   protected:
    void do_record(std::uint64_t) override {}
    void do_wait(Event) override {}
    void do_copy(void*, const void*, std::size_t) override {}
    void do_set(void*, std::uint8_t, std::size_t) override {}
    void do_begin(std::uint64_t) override {}
    void do_end(std::uint64_t) override {}
  };

  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<Device> dry_;
};

/// Returns a maker of backends with `Passed`, a class derived from PassedOnKernels, around their
/// kernels.
template <class Passed>
[[nodiscard]] auto with_kernels() {
  return [](BackendKind kind, const BackendOptions& options) {
    Backend backend = make_backend(kind, options);
    Backend dry = make_backend(BackendKind::kDry, {});
    backend.kernels = std::make_unique<Passed>(std::move(backend.kernels), std::move(dry.device));
    return backend;
  };
}

}  // namespace strata::test
