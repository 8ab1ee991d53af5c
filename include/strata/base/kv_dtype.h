// In which dtype generation keeps keys and values: a choice of users, which the command line and
// suites of benchmarks name and the key-value store obeys.
#pragma once

#include <cstdint>

#include "strata/base/field_types.h"

namespace strata {

/// The model's dtype, or int8 with a scale for each head of a row.
enum class KvDType : std::uint8_t { kAuto, kInt8 };

inline constexpr EnumName<KvDType> kKvDTypeNames[] = {{KvDType::kAuto, "auto"},
                                                      {KvDType::kInt8, "int8"}};

}  // namespace strata
