// A norm is summed as soon as its gradient has arrived and not when the step is decided: the next
// block, or the next step, overwrites the partial sums before that.

#include "strata/optimizer/gradient_norms.h"

namespace strata {

GradientNorms::Memory::Memory(const ModelLayout& layout, const StatePlan& plan, Allocator& memory)
    : partials(memory.tensor(Space::kPageable, "optimizer.norms", DType::kF64,
                             {GradientStore::host_partials(layout, plan)})) {}

GradientNorms::GradientNorms(const TrainingState& state, Kernels& host_kernels, Stream& host,
                             const Memory& memory)
    : state_(state),
      host_kernels_(host_kernels),
      host_(host),
      partials_(memory.partials),
      squared_(state.blocks()) {}

void GradientNorms::measure(Arrival& arrival, const Tag& tag) {
  ConstTensorView partials = arrival.norms;
  if (partials) {
    arrival.norms_lease.use(host_, WaitFor::kArrived);
  } else {
    const std::int64_t count = SquaredNorm::partials(arrival.gradient.elements());
    const TensorView own = partials_.slice_rows(0, count);
    host_kernels_.run(host_, SquaredNorm{.x = arrival.gradient, .partial = own}, tag);
    partials = own;
  }
  double& sum = squared_[arrival.block];
  host_.host_task(
      "sum_norms", [&] { return Accesses({partials.bytes()}, {}); }, tag,
      [partials, &sum] {
        const double* values = partials.as<double>();
        sum = 0;
        for (std::int64_t i = 0; i < partials.elements(); ++i) sum += values[i];
      });
  arrival.norms_lease.end();
}

double GradientNorms::sum() const {
  double sum = 0;
  if (state_.plan().replica > 0) return sum;
  for (const double squared : squared_) sum += squared;
  return sum;
}

}  // namespace strata
