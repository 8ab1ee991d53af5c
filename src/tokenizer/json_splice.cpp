// Finds places in a JSON text and adds items there. The text is valid JSON, so only strings and the
// depth of brackets have to be followed.

#include "tokenizer/json_splice.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "strata/base/json.h"

namespace strata {
namespace {

constexpr std::string_view kJsonSpace = " \t\r\n";

std::size_t skip_json_space(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(kJsonSpace, at), text.size());
}

/// Returns the end of the string that begins at `at`.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return at + 1;
}

/// Returns the end of the value that begins at `at`.
std::size_t end_of_value(std::string_view text, std::size_t at) {
  int depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = end_of_string(text, at);
    } else if (c == '{' || c == '[') {
      ++depth;
      ++at;
      continue;
    } else if (c == '}' || c == ']') {
      --depth;
      ++at;
    } else {
      at = std::min(text.find_first_of(" \t\r\n,:{}[]\"", at + 1), text.size());
    }
    if (depth == 0) return at;
  }
  return at;
}

}  // namespace

JsonPlace json_place(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  const std::size_t begin =
      skip_json_space(text, text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0);
  return {.begin = begin, .end = end_of_value(text, begin)};
}

std::optional<JsonPlace> find_member(std::string_view text, JsonPlace object,
                                     std::string_view key) {
  std::optional<JsonPlace> found;
  for (std::size_t at = skip_json_space(text, object.begin + 1); text[at] == '"';) {
    const std::size_t end_of_key = end_of_string(text, at);
    const auto name = parse_json<nlohmann::json>(text.substr(at, end_of_key - at));
    const std::size_t colon = skip_json_space(text, end_of_key);
    const std::size_t begin = skip_json_space(text, colon + 1);
    const std::size_t end = end_of_value(text, begin);
    if (name.get_ref<const std::string&>() == key) found = {.begin = begin, .end = end};
    at = skip_json_space(text, end);
    if (text[at] != ',') break;
    at = skip_json_space(text, at + 1);
  }
  return found;
}

void append_item(std::string& text, JsonPlace place, std::string_view item) {
  const std::size_t first = skip_json_space(text, place.begin + 1);
  const bool is_empty = first + 1 == place.end;
  const std::string layout = text.substr(place.begin + 1, first - place.begin - 1);
  const std::size_t at =
      is_empty ? place.begin + 1 : text.find_last_not_of(kJsonSpace, place.end - 2) + 1;
  text.insert(at, (is_empty ? std::string() : ',' + layout) + std::string(item));
}

}  // namespace strata
