// The one place where the parser and the printer of nlohmann/json are compiled, for both kinds of
// object. json.h says what they promise.

#include "strata/base/json.h"

#include "strata/base/error.h"
#include "strata/base/text.h"

namespace strata {

template <class Json>
Json parse_json(std::string_view text, JsonComments comments, const OnJsonEvent<Json>& on_event) {
  const typename Json::parser_callback_t watch = [&](int depth, typename Json::parse_event_t event,
                                                     Json& value) {
    if (depth > kMostJsonLevels) {
      throw ConfigError("objects and lists nest more than " + std::to_string(kMostJsonLevels) +
                        " levels deep; flatten them");
    }
    if (on_event) on_event(event, value);
    return true;
  };
  return Json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/true,
                     comments == JsonComments::kIgnore);
}

std::string json_problem(const std::exception& error) {
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

template <class Json>
std::string json_text(const Json& value, int indent, NotUtf8 bytes) {
  return value.dump(
      indent, ' ', false,
      bytes == NotUtf8::kReplace ? Json::error_handler_t::replace : Json::error_handler_t::strict);
}

template <class Json>
std::string shown(const Json& value) {
  return shortened(json_text(value, kOneLine, NotUtf8::kReplace));
}

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;
template Json parse_json(std::string_view, JsonComments, const OnJsonEvent<Json>&);
template OrderedJson parse_json(std::string_view, JsonComments, const OnJsonEvent<OrderedJson>&);
template std::string json_text(const Json&, int, NotUtf8);
template std::string json_text(const OrderedJson&, int, NotUtf8);
template std::string shown(const Json&);
template std::string shown(const OrderedJson&);

}  // namespace strata
