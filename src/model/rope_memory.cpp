// Takes memory for the tables of the rotary embedding, computes them and copies them to the device.

#include "rope_memory.h"

#include <span>
#include <utility>

#include "heads.h"
#include "strata/base/convert.h"
#include "strata/model/rope_table.h"

namespace strata {

RopeMemory::RopeMemory(const RopeSpec& rope, std::int64_t positions, DType dtype,
                       Allocator& memory) {
  const Shape shape{positions, rope.width / 2};
  cos = memory.tensor(Space::kDevice, "rope.cos", dtype, shape);
  sin = memory.tensor(Space::kDevice, "rope.sin", dtype, shape);
  staging = memory.allocate(Space::kPinned, "rope.staging",
                            static_cast<std::size_t>(shape.elements()) * size_of(dtype));
}

void fill_rope_tables(const RopeMemory& memory, const RopeSpec& rope, std::int64_t row_tokens,
                      Device& device) {
  Stream& in = device.stream(Lane::kActivationsIn);
  RopeTable table;
  if (device.info().backend != "dry")
    table = make_rope_table(rope, memory.cos.shape[0], row_tokens);
  for (const auto& [values, view] :
       {std::pair{&table.cos, &memory.cos}, std::pair{&table.sin, &memory.sin}}) {
    const std::size_t bytes = view->bytes().bytes;
    store_as(*values, view->dtype, std::span(memory.staging, bytes));
    in.copy(view->data, memory.staging, bytes, {.phase = "start"});
    device.wait(in.record());
  }
}

Rope rope_of(const AttentionSpec& spec, const TensorView& packed, const RopeMemory& tables,
             const ConstTensorView& positions) {
  return {.x = heads_of(packed, 0, spec.heads + spec.kv_heads, spec.head_size),
          .positions = positions,
          .cos = tables.cos,
          .sin = tables.sin,
          .pairs = spec.rope.pairs};
}

}  // namespace strata
