// Puts what `--set` says into a config's document before it is read. Only fields_json.cpp calls it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "strata/base/fields.h"

namespace strata {

/// Applies "a.b=value" to a document of these fields; what is wrong with it is a problem.
void apply_assignment(const FieldList& fields, std::string_view assignment,
                      nlohmann::ordered_json& document, ConfigProblems& problems);

}  // namespace strata
