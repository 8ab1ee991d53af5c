// What `plan` and `tune` print for programs: plans and predictions as JSON, with the names that the
// JSON of `bench` has for the same things.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "strata/plan/choose_placement.h"
#include "strata/predict/prediction.h"

namespace strata {

/// Returns what is predicted of a step, or {"unknown": why}.
[[nodiscard]] nlohmann::ordered_json json_of(const Prediction& prediction);

/// Returns what a placement takes of both memories, in bytes, and what is where.
[[nodiscard]] nlohmann::ordered_json json_of(const RunConfig& given, const Placement& placement);

/// Returns who made it, and for which device.
[[nodiscard]] nlohmann::ordered_json json_head(const std::string& device, int ranks);

/// Writes JSON to a file, or to standard output where it is called "-". Throws IoError that names
/// --json.
void write_json(const nlohmann::ordered_json& json, const std::string& file);

}  // namespace strata
