// The parameters of a unit as named tensors. The stores make them of the blocks that they hand out,
// for weights and for gradients alike, and Llama computes with them, so a block's bytes are
// interpreted in one place. Views own nothing: they are good for as long as the lease they come
// with.

#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "strata/base/tensor.h"
#include "strata/model/layout.h"

namespace strata {

template <class View>
struct EmbeddingViews {
  View table;  ///< [V, C]
};

/// The adapters of a linear. Those of its sources read the same x.
template <class View>
struct AdapterViews {
  View a;                                    ///< [R, in]: A of each, one below the other; or absent
  std::array<View, Linear::kMostSources> b;  ///< by source, [its rows, its rank] each; or absent
};

template <class View>
struct LayerViews {
  std::array<View, kLinears> linears;  ///< [out, in] each, by LinearId; absent: the layer has none
  std::array<View, kLinears> biases;   ///< [out] each, by LinearId, or absent
  std::array<View, kNorms> norms;      ///< [C] or [D] each, by NormId, or absent
  std::array<AdapterViews<View>, kLinears> adapters;  ///< by LinearId

  [[nodiscard]] const View& operator[](LinearId id) const {
    return linears[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] View& operator[](LinearId id) { return linears[static_cast<std::size_t>(id)]; }
  [[nodiscard]] const View& bias(LinearId id) const { return biases[static_cast<std::size_t>(id)]; }
  [[nodiscard]] View& bias(LinearId id) { return biases[static_cast<std::size_t>(id)]; }
  [[nodiscard]] const AdapterViews<View>& adapter(LinearId id) const {
    return adapters[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] AdapterViews<View>& adapter(LinearId id) {
    return adapters[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] const View& operator[](NormId id) const {
    return norms[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] View& operator[](NormId id) { return norms[static_cast<std::size_t>(id)]; }
};

template <class View>
struct HeadViews {
  View norm;        ///< [C]
  View projection;  ///< [V, C], the embedding's table if embeddings are tied
};

/// The views of one unit. Only the member that is of the unit's kind is set; the views of the other
/// two are absent.
template <class View>
struct UnitViews {
  EmbeddingViews<View> embedding;
  LayerViews<View> layer;
  HeadViews<View> head;
};

/// Weights are X, the compute dtype, and only read.
using EmbeddingWeights = EmbeddingViews<ConstTensorView>;
using LayerWeights = LayerViews<ConstTensorView>;
using HeadWeights = HeadViews<ConstTensorView>;
using UnitWeights = UnitViews<ConstTensorView>;

/// Gradients are A, accumulator_of(X), and added to.
using EmbeddingGradients = EmbeddingViews<TensorView>;
using LayerGradients = LayerViews<TensorView>;
using HeadGradients = HeadViews<TensorView>;
using UnitGradients = UnitViews<TensorView>;

/// Returns the views of a unit of `layout`. `blocks` are the first bytes of the unit's blocks, in
/// the order of Unit::blocks, each whole and of this dtype; null for a block whose views are to be
/// absent. Throws std::logic_error if they lack a segment that every unit of the kind has.
template <class View>
[[nodiscard]] UnitViews<View> unit_views(const ModelLayout& layout, const Unit& unit,
                                         std::span<std::byte* const> blocks, DType dtype);

extern template UnitWeights unit_views(const ModelLayout&, const Unit&, std::span<std::byte* const>,
                                       DType);
extern template UnitGradients unit_views(const ModelLayout&, const Unit&,
                                         std::span<std::byte* const>, DType);

}  // namespace strata
