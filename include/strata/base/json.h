// What every reader and writer of JSON here shares: a bound on nesting, since the library copies
// and prints values by recursion, and messages without the library's own names. Only sources that
// read or write JSON include it. The parser and the printer are compiled once, in json.cpp, for
// nlohmann::json and nlohmann::ordered_json: each source that has them takes three times as long.
#pragma once

#include <exception>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace strata {

/// The depth to which objects and lists may nest.
inline constexpr int kMostJsonLevels = 64;

/// What to do about // and /* */ in a text.
enum class JsonComments : bool { kRefuse, kIgnore };

/// Is called with what the parser meets, and the value that it has made of it.
template <class Json>
using OnJsonEvent = std::function<void(typename Json::parse_event_t event, const Json& value)>;

/// Parses `text` and calls `on_event`, if there is one, for what the parser meets. Throws
/// Json::exception if the text is not JSON, and ConfigError, which does not say where, if it nests
/// too deeply.
template <class Json>
[[nodiscard]] Json parse_json(std::string_view text, JsonComments comments = JsonComments::kRefuse,
                              const OnJsonEvent<Json>& on_event = {});

/// Parses as parse_json does, but keeps whole numbers beyond 64 bits: such a one becomes a binary
/// value that holds its decimal digits, behind a minus if it has one. JSON has no binary values.
template <class Json>
[[nodiscard]] Json parse_exact_json(std::string_view text);

/// Throws Json::exception if `text` holds a NUL, at which the library's parser would end and take
/// what stands before it for all. Whoever calls the parser itself calls this before.
void refuse_nul(std::string_view text);

/// Returns why parse_json threw, without the name that the library puts in front:
/// "[json.exception.parse_error.101] parse error at ...".
[[nodiscard]] std::string json_problem(const std::exception& error);

/// The indent of a text without line breaks.
inline constexpr int kOneLine = -1;

/// What to do about strings that are not UTF-8: throw Json::exception, or write U+FFFD for what is
/// not.
enum class NotUtf8 : bool { kThrow, kReplace };

/// Returns a value as text, `indent` spaces a level. What a terminal would obey (see printable) is
/// written by its number.
template <class Json>
[[nodiscard]] std::string json_text(const Json& value, int indent = kOneLine,
                                    NotUtf8 bytes = NotUtf8::kThrow);

/// Returns a value as messages show it: as JSON, cut where it is long.
template <class Json>
[[nodiscard]] std::string shown(const Json& value);

}  // namespace strata
