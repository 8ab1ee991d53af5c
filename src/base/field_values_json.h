// Converts values of fields from and to JSON. fields_json.cpp reads and writes documents of them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "strata/base/fields.h"

namespace strata {

/// Returns what a field expects, for messages: "an integer or null".
[[nodiscard]] std::string expectation_of(const Field& field);
/// Returns the value of a field that is no section, or nothing if `json` is not of the field's
/// type.
[[nodiscard]] std::optional<FieldValue> value_of_json(const Field& field,
                                                      const nlohmann::ordered_json& json);
/// Returns the value as JSON, null where it is absent.
[[nodiscard]] nlohmann::ordered_json json_of_value(const FieldValue& value);

}  // namespace strata
