// What a weight is in its home and on its way to the device. Weights that are trained are plain;
// those that nobody trains may take fewer bytes, and are decoded on the device when their layer is
// visited.
#pragma once

#include <cstdint>
#include <string_view>

#include "strata/base/field_types.h"

namespace strata {

enum class Form : std::uint8_t {
  kPlain,  ///< numbers in the dtype that the model computes in
  kNf4,    ///< matrices in 4-bit NormalFloat (strata/ops/nf4_format.h), the rest plain
  kFp8,    ///< matrices in e4m3 with a scale for each row (strata/ops/row_codes.h), likewise
  kInt8,   ///< matrices in int8 with a scale for each row (strata/ops/row_codes.h), likewise
};

inline constexpr EnumName<Form> kFormNames[] = {
    {Form::kPlain, "plain"}, {Form::kNf4, "nf4"}, {Form::kFp8, "fp8"}, {Form::kInt8, "int8"}};

/// Returns the name of a form.
[[nodiscard]] constexpr std::string_view name_of(Form form) { return enum_name(kFormNames, form); }

}  // namespace strata
