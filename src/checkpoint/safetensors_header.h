// Writes the beginning of safetensors files: the length of the header, the header, and spaces up to
// the file's alignment.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "strata/base/dtype.h"

namespace strata {

/// Returns the name of a dtype in headers.
[[nodiscard]] std::string_view stored_name(DType dtype);

/// Returns what stands in a file before its data, a multiple of kFileAlignment bytes. `tensors` has
/// the entries of all tensors, with offsets from the beginning of the data.
[[nodiscard]] std::string safetensors_header(const nlohmann::ordered_json& tensors);

}  // namespace strata
