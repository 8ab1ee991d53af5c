#include "strata/store/activation_store.h"

#include <memory>
#include <utility>

#include "strata/base/bytes.h"

namespace strata {

namespace {

/// A cell in int8 as it lies at home and, on its way, on the device: q, then the scales.
struct Int8Layout {
  const ActivationShape& shape;

  [[nodiscard]] std::size_t scale_offset() const {
    return round_up(static_cast<std::size_t>(shape.cell_tokens * shape.hidden), Arena::kAlignment);
  }
  [[nodiscard]] std::size_t bytes() const {
    return scale_offset() + static_cast<std::size_t>(shape.cell_tokens) * sizeof(float);
  }
  [[nodiscard]] TensorView q(std::byte* at) const {
    return {at, DType::kI8, Shape{shape.cell_tokens, shape.hidden}};
  }
  [[nodiscard]] TensorView scale(std::byte* at) const {
    return {at + scale_offset(), DType::kF32, Shape{shape.cell_tokens}};
  }
};

/// Rounds on the lane that carries the cell away and widens on the one that brings it back, so
/// compute does not wait for either. Each lane has a buffer of its own, used in order.
class Int8Form final : public HomeForm {
 public:
  Int8Form(const ActivationShape& shape, Kernels& kernels, Arena& device_arena)
      : shape_(shape),
        kernels_(kernels),
        out_(device_arena.allocate("activations.int8", Int8Layout{shape_}.bytes())),
        in_(device_arena.allocate("activations.int8", Int8Layout{shape_}.bytes())) {}

  std::size_t send(Stream& out, std::byte* home, const std::byte* slot, std::size_t /*bytes*/,
                   const Tag& tag) override {
    const Int8Layout layout{shape_};
    const ConstTensorView x(slot, shape_.dtype, Shape{shape_.cell_tokens, shape_.hidden});
    kernels_.run(out, QuantizeRows{.x = x, .q = layout.q(out_), .scale = layout.scale(out_)}, tag);
    out.copy(home, out_, layout.bytes(), tag);
    return layout.bytes();
  }

  std::size_t fetch(Stream& in, std::byte* slot, const std::byte* home, std::size_t /*bytes*/,
                    const Tag& tag) override {
    const Int8Layout layout{shape_};
    in.copy(in_, home, layout.bytes(), tag);
    const TensorView x(slot, shape_.dtype, Shape{shape_.cell_tokens, shape_.hidden});
    kernels_.run(in, DequantizeRows{.q = layout.q(in_), .scale = layout.scale(in_), .x = x}, tag);
    return layout.bytes();
  }

  [[nodiscard]] bool lossy() const override { return true; }

 private:
  ActivationShape shape_;
  Kernels& kernels_;
  std::byte* out_;
  std::byte* in_;
};

std::unique_ptr<HomeForm> make_form(const ActivationShape& shape, Kernels& kernels,
                                    Arena& device_arena) {
  if (shape.form == BoundaryForm::kExact) return std::make_unique<ExactForm>();
  return std::make_unique<Int8Form>(shape, kernels, device_arena);
}

std::vector<SpillRing::Thing> make_things(const ActivationShape& shape, int slots,
                                          Arena& pinned_arena) {
  std::vector<SpillRing::Thing> things(static_cast<std::size_t>(shape.keys()),
                                       {.bytes = shape.cell_bytes()});
  for (int key = 0; key < shape.homes(slots); ++key) {
    things[static_cast<std::size_t>(key)].home =
        pinned_arena.allocate("activations.spilled", shape.home_bytes());
  }
  return things;
}

}  // namespace

std::size_t ActivationShape::home_bytes() const {
  return form == BoundaryForm::kExact ? cell_bytes() : Int8Layout{*this}.bytes();
}

int ActivationShape::homes(int slots) const {
  if (form == BoundaryForm::kInt8) return layers * cells;  // the head reads its input in forward
  return slots < keys() ? keys() : 0;
}

void ActivationStore::plan(MemoryPlan& plan, const ActivationShape& shape, int slots) {
  plan.add_slots(Space::kDevice, "activations.slots", static_cast<std::size_t>(slots),
                 shape.cell_bytes());
  if (shape.form == BoundaryForm::kInt8) {
    plan.add_slots(Space::kDevice, "activations.int8", 2, shape.home_bytes());
  }
  if (shape.homes(slots) == 0) return;
  plan.add_slots(Space::kPinned, "activations.spilled",
                 static_cast<std::size_t>(shape.homes(slots)), shape.home_bytes());
}

ActivationStore::ActivationStore(const ActivationShape& shape, int slots, Kernels& kernels,
                                 Arena& device_arena, Arena& pinned_arena)
    : shape_(shape),
      ring_(device_arena, "activations.slots", slots, shape.cell_bytes(),
            make_things(shape, slots, pinned_arena), shape.cells, SpillRing::Evict::kNeededLast,
            make_form(shape, kernels, device_arena)) {}

void ActivationStore::begin_pass(const std::vector<Read>& reads) {
  std::vector<std::int64_t> keys;
  keys.reserve(reads.size());
  for (const Read& read : reads) keys.push_back(key_of(read.boundary, read.cell));
  ring_.begin_pass(keys);
}

ActivationLease ActivationStore::view(Lease lease, int boundary, int cell) const {
  const TensorView x(lease.data(), shape_.dtype, Shape{shape_.cell_tokens, shape_.hidden});
  return {std::move(lease), x, boundary, cell};
}

ActivationLease ActivationStore::produce(int boundary, int cell, Stream& compute) {
  return view(ring_.produce(key_of(boundary, cell), compute), boundary, cell);
}

void ActivationStore::keep(ActivationLease lease, const Tag& tag) {
  ring_.keep(std::move(lease.lease), key_of(lease.boundary, lease.cell), tag);
}

ActivationLease ActivationStore::acquire(int boundary, int cell, Stream& compute, const Tag& tag) {
  return view(ring_.acquire(key_of(boundary, cell), compute, tag), boundary, cell);
}

}  // namespace strata
