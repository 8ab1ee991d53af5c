// Which products of a model multiply codes in e4m3. A spec says it of each linear; a run says it of
// the whole model, and names what is left out.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "strata/model/spec.h"

namespace strata {

/// What run.products says.
inline constexpr EnumName<Products> kProductsNames[] = {
    {Products::kPlain, "bf16"}, {Products::kFp8, "fp8"}, {Products::kFp8All, "fp8_all"}};

/// Returns the first name that is neither that of a linear ("down") nor of a layer of so many
/// ("layers.3"), or null.
[[nodiscard]] const std::string* unknown_products(std::span<const std::string> names,
                                                  std::int64_t layers);

/// Returns the spec with these products in all layers but for `plain`: linears of all layers, and
/// all linears of layers. Layers of one kind become two where some of them are left out. Where
/// adapters are trained, kFp8All is kFp8: nobody makes gradients of the weights that codes are of.
/// Throws std::invalid_argument for an unknown name.
[[nodiscard]] ModelSpec with_products(ModelSpec spec, Products products,
                                      std::span<const std::string> plain);

}  // namespace strata
