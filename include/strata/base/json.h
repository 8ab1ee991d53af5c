// What every reader of JSON here shares: a bound on nesting, since the library copies and prints
// values by recursion, and messages without the library's own names. Only sources that read JSON
// include it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "strata/base/error.h"
#include "strata/base/text.h"

namespace strata {

/// The depth to which objects and lists may nest.
inline constexpr int kMostJsonLevels = 64;

/// What to do about // and /* */ in a text.
enum class JsonComments : bool { kRefuse, kIgnore };

/// Parses `text` and calls `on_event(event, value)` for what the parser meets. Throws
/// Json::exception if the text is not JSON, and ConfigError, which does not say where, if it nests
/// too deeply.
template <class Json, class OnEvent>
[[nodiscard]] Json parse_json(std::string_view text, JsonComments comments, OnEvent&& on_event) {
  const typename Json::parser_callback_t watch = [&](int depth, typename Json::parse_event_t event,
                                                     Json& value) {
    if (depth > kMostJsonLevels) {
      throw ConfigError("objects and lists nest more than " + std::to_string(kMostJsonLevels) +
                        " levels deep; flatten them");
    }
    on_event(event, value);
    return true;
  };
  return Json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/true,
                     comments == JsonComments::kIgnore);
}
template <class Json>
[[nodiscard]] Json parse_json(std::string_view text) {
  return parse_json<Json>(text, JsonComments::kRefuse, [](auto, const Json&) {});
}

/// Returns why parse_json threw, without the name that the library puts in front:
/// "[json.exception.parse_error.101] parse error at ...".
[[nodiscard]] inline std::string json_problem(const std::exception& error) {
  std::string_view what = error.what();
  const std::size_t code_end = what.starts_with("[json.") ? what.find("] ") : what.npos;
  if (code_end != what.npos) what.remove_prefix(code_end + 2);
  // The parser ends with the text that it could not read, which may be all of a file.
  constexpr std::string_view kFound = "last read: ";
  const std::size_t found = what.find(kFound);
  if (found == what.npos) return shortened(what, 2 * kMostShown);
  const std::size_t begin = found + kFound.size();
  return std::string(what.substr(0, begin)) + shortened(what.substr(begin));
}

/// Returns a value as messages show it: as JSON, cut where it is long.
template <class Json>
[[nodiscard]] std::string shown(const Json& value) {
  return shortened(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace strata
