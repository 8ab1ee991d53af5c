// Compares the weights in a model folder with what the model computes, so that what other programs
// would use is never left out in silence. A session asks before it takes memory, and an import
// before it writes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "strata/model/layout.h"
#include "strata/model/safetensors.h"

namespace strata {

/// Returns a warning that names tensors which nothing uses, or an empty text if there are none.
/// Throws IoError where a tensor is missing or of a dtype that strata does not read, where one
/// belongs to the computation of another architecture (a bias, or a norm of queries, in a layer),
/// and where the model says that embedding and head are tied but the file has two that differ,
/// which transformers would not tie.
[[nodiscard]] std::string check_weights(const SafetensorsDirectory& files,
                                        const ModelLayout& layout);

/// Returns whether two tensors have the same shape and values. Files is SafetensorsFile or
/// SafetensorsDirectory. Throws as reading them does.
template <class Files>
[[nodiscard]] bool same_values(const Files& files, std::string_view name, const Files& others,
                               std::string_view other);

/// Throws IoError that names the first tensor of the model, its adapters left out, which is
/// missing, of a dtype that strata does not read, or of another shape than the model's.
void require_shapes(const SafetensorsDirectory& files, const ModelLayout& layout);

/// Throws IoError that names the tensor and the element, from `begin` on, of the first value that
/// is NaN or infinite: a model with one computes nothing. T is double, float or Bf16.
template <class T>
void require_finite(const std::string& tensor, std::int64_t begin, std::span<const T> values);

}  // namespace strata
