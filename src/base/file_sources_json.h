// File sources as JSON, for the reader and the writer of config fields: a path, a list of paths, or
// a list of objects {"path", "weight"}.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "strata/base/file_sources.h"

namespace strata {

/// Returns the name that a JSON string is, or nothing if it is no string, or has a zero byte, which
/// would end a file's name early.
[[nodiscard]] std::optional<std::string> name_of_json(const nlohmann::ordered_json& json);
/// Returns the sources, or nothing if `json` is none of the three.
[[nodiscard]] std::optional<FileSources> sources_of_json(const nlohmann::ordered_json& json);
/// Returns the shortest JSON that reads back to the same sources.
[[nodiscard]] nlohmann::ordered_json json_of_sources(const FileSources& sources);

}  // namespace strata
