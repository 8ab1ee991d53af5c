// Keeps boundary activations as things of a SpillRing. Here are the keys of cells, the homes of
// their bytes and the form in which they travel. The int8 form is made here of two operators and a
// copy.

#include "strata/store/activation_store.h"

#include <memory>
#include <utility>

#include "strata/base/bytes.h"

namespace strata {

namespace {

/// Says where the parts of a cell in int8 lie, at home and in the buffers on its way: first q, then
/// scales.
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

/// Rounds on the lane that carries the cell away and widens on the one that brings it back, so that
/// compute waits for neither. Each of the two lanes has a buffer of its own, which it uses in
/// order.
class Int8Form final : public HomeForm {
 public:
  Int8Form(const ActivationShape& shape, Kernels& kernels, const ActivationStore::Memory& memory)
      : shape_(shape), kernels_(kernels), out_(memory.int8_out), in_(memory.int8_in) {}

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
                                    const ActivationStore::Memory& memory) {
  if (shape.form == BoundaryForm::kExact) return std::make_unique<ExactForm>();
  return std::make_unique<Int8Form>(shape, kernels, memory);
}

std::vector<SpillRing::Thing> make_things(const ActivationShape& shape,
                                          const ActivationStore::Memory& memory) {
  std::vector<SpillRing::Thing> things(static_cast<std::size_t>(shape.keys()),
                                       {.bytes = shape.cell_bytes()});
  for (std::size_t key = 0; key < memory.homes.size(); ++key) things[key].home = memory.homes[key];
  return things;
}

std::vector<std::byte*> make_homes(const ActivationShape& shape, int slots, Allocator& memory) {
  std::vector<std::byte*> homes;
  memory.repeat(static_cast<std::size_t>(shape.homes(slots)), [&] {
    homes.push_back(memory.allocate(Space::kPinned, "activations.spilled", shape.home_bytes()));
  });
  return homes;
}

std::byte* make_int8_buffer(const ActivationShape& shape, Allocator& memory) {
  if (shape.form == BoundaryForm::kExact) return nullptr;
  return memory.allocate(Space::kDevice, "activations.int8", shape.home_bytes());
}

}  // namespace

std::size_t ActivationShape::home_bytes() const {
  return form == BoundaryForm::kExact ? cell_bytes() : Int8Layout{*this}.bytes();
}

int ActivationShape::homes(int slots) const {
  if (form == BoundaryForm::kInt8) return layers * cells;  // the head reads its input in forward
  return slots < keys() ? keys() : 0;
}

ActivationStore::Memory::Memory(const ActivationShape& shape, int count, Allocator& memory)
    : homes(make_homes(shape, count, memory)),
      int8_out(make_int8_buffer(shape, memory)),
      int8_in(make_int8_buffer(shape, memory)),
      slots(memory, Space::kDevice, "activations.slots", count, shape.cell_bytes()) {}

ActivationStore::ActivationStore(const ActivationShape& shape, int slots, Kernels& kernels,
                                 Arenas& arenas)
    : ActivationStore(shape, Memory(shape, slots, arenas), kernels, arenas.device()) {}

ActivationStore::ActivationStore(const ActivationShape& shape, Memory memory, Kernels& kernels,
                                 Device& device)
    : shape_(shape),
      ring_(device, std::move(memory.slots), make_things(shape, memory), shape.cells,
            SpillRing::Evict::kNeededLast, make_form(shape, kernels, memory)) {}

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
