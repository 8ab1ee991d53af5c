// Finds the segments of a unit's blocks by name, so that the order in which make_layout lists them
// is nobody else's business.

#include "strata/model/unit_views.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>

namespace strata {

namespace {

/// Makes the views of one block that lies at `data`.
class BlockViews {
 public:
  BlockViews(const Block& block, std::byte* data, DType dtype)
      : block_(block), data_(data), dtype_(dtype) {}

  [[nodiscard]] TensorView matrix(std::string_view name) const {
    const Segment& s = segment(name);
    return {address_of(s), dtype_, Shape{s.rows, s.cols}};
  }
  [[nodiscard]] TensorView vector(std::string_view name) const {
    const Segment& s = segment(name);
    return {address_of(s), dtype_, Shape{s.elements()}};
  }

  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }

 private:
  [[nodiscard]] const Segment* find(std::string_view name) const {
    for (const Segment& s : block_.segments) {
      // A segment's name is that of its block, a dot and its own.
      if (std::string_view(s.name).substr(block_.name.size() + 1) == name) return &s;
    }
    return nullptr;
  }
  [[nodiscard]] const Segment& segment(std::string_view name) const {
    const Segment* found = find(name);
    if (found != nullptr) return *found;
    throw std::logic_error("block " + block_.name + " has no segment " + std::string(name));
  }
  [[nodiscard]] std::byte* address_of(const Segment& s) const {
    return data_ + static_cast<std::size_t>(s.offset) * size_of(dtype_);
  }

  const Block& block_;
  std::byte* data_;
  DType dtype_;
};

/// Sets the views of the weights of a layer itself.
template <class View>
void view_layer(const BlockViews& own, LayerViews<View>& views) {
  for (const EnumName<LinearId>& row : kLinearNames) {
    if (own.has(row.name)) views[row.value] = own.matrix(row.name);
  }
  for (const EnumName<LinearId>& row : kBiasNames) {
    if (own.has(row.name)) views.bias(row.value) = own.vector(row.name);
  }
  for (const EnumName<NormId>& row : kNormNames) {
    if (own.has(row.name)) views[row.value] = own.vector(row.name);
  }
}

/// Sets the views of a layer's adapters.
template <class View>
void view_adapters(const BlockViews& own, LayerViews<View>& views) {
  for (const EnumName<LinearId>& row : kLinearNames) {
    AdapterViews<View>& of = views.adapter(row.value);
    if (!own.has(adapter_segment_a(row.value))) continue;
    of.a = own.matrix(adapter_segment_a(row.value));
    for (std::size_t source = 0; source < of.b.size(); ++source) {
      const std::string b = adapter_segment_b(row.value, source);
      if (own.has(b)) of.b.at(source) = own.matrix(b);
    }
  }
}

/// Sets the views of what one of the head's blocks holds. An embedding in it is the projection.
template <class View>
void view_head(const BlockViews& own, HeadViews<View>& views) {
  if (own.has("norm")) views.norm = own.vector("norm");
  if (own.has("projection")) views.projection = own.matrix("projection");
  if (own.has("table")) views.projection = own.matrix("table");
}

}  // namespace

template <class View>
UnitViews<View> unit_views(const ModelLayout& layout, const Unit& unit,
                           std::span<std::byte* const> blocks, DType dtype) {
  UnitViews<View> views;
  for (std::size_t i = 0; i < unit.blocks.size(); ++i) {
    if (blocks[i] == nullptr) continue;
    const Block& block = layout.blocks[unit.blocks[i]];
    const BlockViews own(block, blocks[i], dtype);
    if (block.adapter) {
      view_adapters(own, views.layer);
    } else if (unit.kind == UnitKind::kLayer) {
      view_layer(own, views.layer);
    } else if (unit.kind == UnitKind::kEmbedding) {
      views.embedding.table = own.matrix("table");
    } else {
      view_head(own, views.head);
    }
  }
  const bool all = std::ranges::find(blocks, nullptr) == blocks.end();
  if (unit.kind == UnitKind::kHead && all && !views.head.norm) {
    throw std::logic_error("no block of the head has a norm");
  }
  return views;
}

template UnitWeights unit_views(const ModelLayout&, const Unit&, std::span<std::byte* const>,
                                DType);
template UnitGradients unit_views(const ModelLayout&, const Unit&, std::span<std::byte* const>,
                                  DType);

}  // namespace strata
