// Tests norms of gradients, taken by the host and on the way, against sums in f64.

#include "strata/optimizer/gradient_norms.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "strata/base/bytes.h"
#include "strata/base/random.h"
#include "strata/device/slot_ring.h"
#include "strata/engine/state_choices.h"
#include "strata/model/families.h"
#include "strata/ops/backend.h"
#include "support/catch.h"
#include "support/tiny_model.h"

namespace strata::test {
namespace {

/// The state of a tiny model on a cpu machine, and norms of its gradients.
struct Machine {
  explicit Machine(int replica)
      : plan(plan_state(layout, {.compute = DType::kF32,
                                 .gradient = DType::kF32,
                                 .passes = 2,  // so that the host measures gradients
                                 .replica = replica,
                                 .replicas = 2})),
        state(layout, plan, arenas),
        norms(state, *backend.kernels, backend.device->stream(Lane::kHost),
              GradientNorms::Memory(layout, plan, arenas)) {}

  /// Has the norm of a block taken, whose gradient is made of random numbers. Returns what the
  /// squares of the numbers add up to.
  double measure(BlockId block) {
    const TensorView& grad = state.block(block).grad;
    double squares = 0;
    for (std::int64_t i = 0; i < grad.elements(); ++i) {
      const auto value =
          static_cast<float>(random_normal(1, block.index(), static_cast<std::uint64_t>(i)));
      grad.as<float>()[i] = value;
      squares += std::pow(static_cast<double>(value), 2);
    }
    Arrival arrival;
    arrival.block = block;
    arrival.gradient = grad;
    norms.measure(arrival, {});
    backend.device->synchronize();
    return squares;
  }

  ModelLayout layout = make_layout(spec_of(tiny_model()));
  Backend backend = make_backend(BackendKind::kCpu, {});
  Arena device{*backend.device, Space::kDevice, 16 * kMiB, "device"};
  Arena pinned{*backend.device, Space::kPinned, 16 * kMiB, "pinned"};
  Arena pageable{*backend.device, Space::kPageable, 16 * kMiB, "pageable"};
  Arenas arenas{device, pinned, pageable};
  StatePlan plan;
  TrainingState state;
  GradientNorms norms;
};

}  // namespace

TEST_CASE("the host takes the squared norm of each gradient that nobody has measured") {
  Machine machine(0);
  double all = 0;
  for (const BlockId b : machine.state.ids()) {
    const double squares = machine.measure(b);
    CHECK(machine.norms.squared(b) == Approx(squares).epsilon(1e-6));
    all += squares;
  }
  CHECK(machine.norms.sum() == Approx(all).epsilon(1e-6));
}

TEST_CASE("a norm that was taken on the way is the sum of its parts") {
  Machine machine(0);
  const std::array<double, 3> parts{1, 0.5, 0.25};
  SlotRing slots(machine.pinned, "norms", 1, sizeof(parts));
  Arrival arrival;
  arrival.block = BlockId(2);
  arrival.norms_lease = slots.fill(slots.oldest(), 0, machine.backend.device->stream(Lane::kOut));
  std::memcpy(arrival.norms_lease.data(), parts.data(), sizeof(parts));
  arrival.norms_lease.filled();
  arrival.norms = ConstTensorView(arrival.norms_lease.data(), DType::kF64, Shape{3});
  machine.norms.measure(arrival, {});
  CHECK(!slots.open(0));
  machine.backend.device->synchronize();
  CHECK(machine.norms.squared(BlockId(2)) == 1.75);
  CHECK(machine.norms.sum() == 1.75);
}

TEST_CASE("a replica other than the first adds nothing to the norm of all ranks") {
  Machine machine(1);
  machine.measure(BlockId(1));
  CHECK(machine.norms.squared(BlockId(1)) > 0);
  CHECK(machine.norms.sum() == 0);
}

}  // namespace strata::test
