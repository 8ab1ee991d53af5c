// Marks the linears of a spec with what their products multiply.

#include "strata/model/products.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace strata {

namespace {

constexpr std::string_view kLayerPrefix = "layers.";

std::optional<LinearId> linear_named(std::string_view name) {
  const auto* const row = std::ranges::find(kLinearNames, name, &EnumName<LinearId>::name);
  if (row == std::end(kLinearNames)) return std::nullopt;
  return row->value;
}

/// Returns the number in "layers.3" if there is such a layer. It is written in one way only.
std::optional<std::int64_t> layer_named(std::string_view name, std::int64_t layers) {
  if (!name.starts_with(kLayerPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kLayerPrefix.size());
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || digits != std::to_string(number)) return std::nullopt;
  if (number < 0 || number >= layers) return std::nullopt;
  return number;
}

}  // namespace

const std::string* unknown_products(std::span<const std::string> names, std::int64_t layers) {
  const auto unknown = std::ranges::find_if(names, [&](const std::string& name) {
    return !linear_named(name) && !layer_named(name, layers);
  });
  return unknown == names.end() ? nullptr : &*unknown;
}

ModelSpec with_products(ModelSpec spec, Products products, std::span<const std::string> plain) {
  if (const std::string* unknown = unknown_products(plain, spec.layers())) {
    throw std::invalid_argument("no linear or layer is called " + *unknown);
  }
  if (products == Products::kPlain) return spec;
  if (products == Products::kFp8All && spec.adapted()) products = Products::kFp8;
  std::vector<bool> plain_layer(spec.kind.size());
  for (const std::string& name : plain) {
    const std::optional<std::int64_t> layer = layer_named(name, spec.layers());
    if (layer) plain_layer[static_cast<std::size_t>(*layer)] = true;
  }
  // In the order of the first layer of each, and no kind without a layer.
  std::vector<std::pair<std::size_t, bool>> sources;
  std::vector<LayerSpec> kinds;
  for (std::size_t i = 0; i < spec.kind.size(); ++i) {
    const std::pair source{spec.kind[i], bool{plain_layer[i]}};
    const auto found = std::ranges::find(sources, source);
    spec.kind[i] = static_cast<std::size_t>(found - sources.begin());
    if (found != sources.end()) continue;
    sources.push_back(source);
    LayerSpec kind = spec.kinds.at(source.first);
    for (Linear& linear : kind.linears) {
      const bool left_out =
          source.second || std::ranges::find(plain, name_of(linear.id)) != plain.end();
      linear.products = left_out ? Products::kPlain : products;
    }
    kinds.push_back(std::move(kind));
  }
  spec.kinds = std::move(kinds);
  return spec;
}

}  // namespace strata
