// Looks things up in a spec and counts its weights.

#include "strata/model/spec.h"

#include <algorithm>
#include <stdexcept>

namespace strata {

std::string_view name_of(LinearId id) { return enum_name(kLinearNames, id); }
std::string_view name_of(NormId id) { return enum_name(kNormNames, id); }

std::int64_t Linear::adapter_rank() const {
  std::int64_t rank = 0;
  for (const Adapter& adapter : adapters) rank += adapter.rank;
  return rank;
}

const Linear& LayerSpec::linear(LinearId id) const {
  const auto found = std::ranges::find(linears, id, &Linear::id);
  if (found == linears.end()) {
    throw std::logic_error("the layer has no linear " + std::string(name_of(id)));
  }
  return *found;
}

const Norm& LayerSpec::norm(NormId id) const {
  const auto found = std::ranges::find(norms, id, &Norm::id);
  if (found == norms.end()) {
    throw std::logic_error("the layer has no norm " + std::string(name_of(id)));
  }
  return *found;
}

bool LayerSpec::has(NormId id) const {
  return std::ranges::find(norms, id, &Norm::id) != norms.end();
}

bool LayerSpec::normalises_heads() const { return has(NormId::kQuery); }

bool ModelSpec::adapted() const { return largest_adapter_rank() > 0; }

bool ModelSpec::multiplies_codes() const {
  return std::ranges::any_of(kinds, [](const LayerSpec& layer) {
    return std::ranges::any_of(
        layer.linears, [](const Linear& linear) { return linear.products != Products::kPlain; });
  });
}

std::int64_t ModelSpec::largest_adapter_rank() const {
  std::int64_t largest = 0;
  for (const std::size_t of : kind) {
    for (const Linear& linear : kinds[of].linears) {
      largest = std::max(largest, linear.adapter_rank());
    }
  }
  return largest;
}

std::int64_t ModelSpec::widest_adapter_input() const {
  std::int64_t widest = 0;
  for (const std::size_t of : kind) {
    for (const Linear& linear : kinds[of].linears) {
      if (!linear.adapters.empty()) widest = std::max(widest, linear.in);
    }
  }
  return widest;
}

std::int64_t ModelSpec::widest_adapter_output() const {
  std::int64_t widest = 0;
  for (const std::size_t of : kind) {
    for (const Linear& linear : kinds[of].linears) {
      for (const Adapter& adapter : linear.adapters) {
        widest = std::max(widest, linear.sources.at(adapter.source).rows);
      }
    }
  }
  return widest;
}

void ModelSpec::require_common() const {
  for (const LayerSpec& other : kinds) {
    AttentionSpec attention = other.attention;
    attention.rotates = common().attention.rotates;
    attention.window = common().attention.window;
    attention.rope.theta = common().attention.rope.theta;
    attention.rope.scaling = common().attention.rope.scaling;
    bool alike = attention == common().attention && other.activation == common().activation;
    for (const EnumName<NormId>& norm : kNormNames) {
      alike = alike && other.has(norm.value) == common().has(norm.value);
    }
    for (const Linear& linear : other.linears) {
      const Linear& first = common().linear(linear.id);
      alike = alike && linear.in == first.in && linear.out == first.out &&
              linear.has_bias() == first.has_bias();
      if (linear.has_bias() && linear.multiplier != 1) {
        throw std::logic_error("a linear has a bias and a multiplier");
      }
    }
    if (!alike) throw std::logic_error("kinds of layers differ in widths or in how they attend");
  }
}

std::int64_t LayerSpec::parameter_count() const {
  std::int64_t count = 0;
  for (const Linear& linear : linears) count += linear.elements() + linear.bias_elements();
  for (const Norm& norm : norms) count += norm.width;
  return count;
}

std::int64_t ModelSpec::parameter_count() const {
  std::int64_t count = (tied() ? 1 : 2) * vocabulary * width + width;
  for (const std::size_t of : kind) count += kinds[of].parameter_count();
  return count;
}

std::int64_t ModelSpec::adapter_parameter_count() const {
  std::int64_t count = 0;
  for (const std::size_t of : kind) {
    for (const Linear& linear : kinds[of].linears) {
      for (const Adapter& adapter : linear.adapters) {
        count += adapter.rank * (linear.in + linear.sources.at(adapter.source).rows);
      }
    }
  }
  return count;
}

std::int64_t ModelSpec::matmul_parameter_count() const {
  std::int64_t count = vocabulary * width;
  for (const std::size_t of : kind) {
    for (const Linear& linear : kinds[of].linears) count += linear.elements();
  }
  return count;
}

}  // namespace strata
