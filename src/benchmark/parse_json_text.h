// Parses the JSON of results and of benches with the name of its place, which messages about what
// is wrong begin with.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "strata/base/error.h"
#include "strata/base/json.h"

namespace strata {

/// Returns what a text holds. Throws ConfigError that begins with `place` if it is not JSON.
template <class Json>
[[nodiscard]] Json parse_json_text(std::string_view text, const std::string& place) {
  try {
    return parse_json<Json>(text);
  } catch (const typename Json::exception& error) {
    throw ConfigError(place + ": is not JSON: " + json_problem(error));
  } catch (const ConfigError& error) {
    throw ConfigError(place + ": " + error.what());
  }
}

}  // namespace strata
