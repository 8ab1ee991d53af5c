// JSON in tests: read and printed by strata/base/json.h, whose sources have the library's parser
// and printer. A source of its own that has them takes three times as long to compile.
#pragma once

#include <filesystem>
#include <string>

#include "strata/base/file.h"
#include "strata/base/json.h"
#include "support/catch.h"

namespace strata::test {

/// Returns what a file of JSON says.
template <class Json = nlohmann::json>
[[nodiscard]] Json read_json(const std::filesystem::path& file) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  return parse_json<Json>(read_text_file(file, kMostBytes));
}

}  // namespace strata::test

/// How failed checks show JSON.
template <>
struct Catch::StringMaker<nlohmann::json> {
  static std::string convert(const nlohmann::json& value) { return strata::shown(value); }
};
template <>
struct Catch::StringMaker<nlohmann::ordered_json> {
  static std::string convert(const nlohmann::ordered_json& value) { return strata::shown(value); }
};
