// Takes memory for the tables of the rotary embedding, computes them and copies them to the device.

#include "rope_memory.h"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "heads.h"
#include "strata/base/convert.h"
#include "strata/model/rope_table.h"

namespace strata {

RopeMemory::RopeMemory(const RopeSpec& of, const std::string& name, std::int64_t positions,
                       DType dtype, Allocator& memory)
    : rope(of) {
  const Shape shape{positions, rope.width / 2};
  cos = memory.tensor(Space::kDevice, name + ".cos", dtype, shape);
  sin = memory.tensor(Space::kDevice, name + ".sin", dtype, shape);
  staging = memory.allocate(Space::kPinned, name + ".staging",
                            static_cast<std::size_t>(shape.elements()) * size_of(dtype));
}

RopeTables::RopeTables(const ModelSpec& spec, std::int64_t positions, DType dtype,
                       Allocator& memory) {
  for (const LayerSpec& kind : spec.kinds) {
    const RopeSpec& rope = kind.attention.rope;
    if (std::ranges::find(tables_, rope, &RopeMemory::rope) != tables_.end()) continue;
    const std::string name = tables_.empty() ? "rope" : "rope." + std::to_string(tables_.size());
    tables_.emplace_back(rope, name, positions, dtype, memory);
  }
}

const RopeMemory& RopeTables::of(const RopeSpec& rope) const {
  const auto found = std::ranges::find(tables_, rope, &RopeMemory::rope);
  if (found == tables_.end()) throw std::logic_error("no layer of the model rotates in this way");
  return *found;
}

namespace {

void fill(const RopeMemory& memory, std::int64_t row_tokens, Device& device) {
  Stream& in = device.stream(Lane::kActivationsIn);
  RopeTable table;
  if (device.info().backend != "dry") {
    table = make_rope_table(memory.rope, memory.cos.shape[0], row_tokens);
  }
  for (const auto& [values, view] :
       {std::pair{&table.cos, &memory.cos}, std::pair{&table.sin, &memory.sin}}) {
    const std::size_t bytes = view->bytes().bytes;
    store_as(*values, view->dtype, std::span(memory.staging, bytes));
    in.copy(view->data, memory.staging, bytes, {.phase = "start"});
    device.wait(in.record());
  }
}

}  // namespace

void fill_rope_tables(const RopeTables& tables, std::int64_t row_tokens, Device& device) {
  for (const RopeMemory& memory : tables.all()) fill(memory, row_tokens, device);
}

Rope rope_of(const AttentionSpec& spec, const TensorView& packed, const RopeTables& tables,
             const ConstTensorView& positions) {
  const RopeMemory& own = tables.of(spec.rope);
  return {.x = heads_of(packed, 0, spec.heads + spec.kv_heads, spec.head_size),
          .positions = positions,
          .cos = own.cos,
          .sin = own.sin,
          .pairs = spec.rope.pairs};
}

}  // namespace strata
