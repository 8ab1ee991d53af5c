// The one place where the parser and the printer of nlohmann/json are compiled, for both kinds of
// object. json.h says what they promise.

#include "strata/base/json.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/text.h"

namespace strata {

namespace {

/// Makes a value of what the parser meets, in time that grows as the text does. The library's own
/// builder looks through all members of an object or a list again whenever an object among them
/// ends, and an object that keeps its order looks through all of them for each key that is added.
template <class Json>
class Builder {
 public:
  using Event = typename Json::parse_event_t;

  /// What becomes of whole numbers beyond 64 bits.
  enum class LargeNumbers { kNearestFloat, kDigits };

  explicit Builder(const OnJsonEvent<Json>& on_event,
                   LargeNumbers large = LargeNumbers::kNearestFloat)
      : on_event_(on_event), large_(large) {}

  // What the parser calls. Every method returns whether to go on.
  bool null() { return value(Json()); }
  bool boolean(bool value) { return this->value(Json(value)); }
  bool number_integer(typename Json::number_integer_t value) { return this->value(Json(value)); }
  bool number_unsigned(typename Json::number_unsigned_t value) { return this->value(Json(value)); }
  bool number_float(typename Json::number_float_t value, const std::string& text) {
    const bool whole = text.find_first_not_of("-0123456789") == text.npos;
    if (whole && large_ == LargeNumbers::kDigits) {
      return this->value(Json::binary({text.begin(), text.end()}));
    }
    return this->value(Json(value));
  }
  bool string(std::string& value) { return this->value(Json(std::move(value))); }
  bool binary(typename Json::binary_t& /*value*/) { return false; }  // JSON has none
  bool key(std::string& key) {
    if (on_event_) on_event_(Event::key, Json(key));
    member_ = &member(open_.back(), key);
    return true;
  }
  bool start_object(std::size_t /*size*/) { return open(Json::object(), Event::object_start); }
  bool end_object() { return close(Event::object_end); }
  bool start_array(std::size_t /*size*/) { return open(Json::array(), Event::array_start); }
  bool end_array() { return close(Event::array_end); }
  template <class Exception>
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/, const Exception& error) {
    throw error;
  }

  Json take() { return std::move(root_); }

 private:
  /// An object or a list that has not ended.
  struct Open {
    Json* value;
    std::unordered_map<std::string, std::size_t> places{};  ///< of members by key, see member()
  };

  /// Returns the member of that key, which is added if it is not there.
  static Json& member(Open& open, std::string& key) {
    auto& members = open.value->template get_ref<typename Json::object_t&>();
    if constexpr (std::is_same_v<Json, nlohmann::ordered_json>) {
      constexpr std::size_t kFew = 16;  // are looked through faster than a table is made
      if (members.size() >= kFew) return member_by_place(members, open.places, key);
    }
    return members[std::move(key)];
  }
  static Json& member_by_place(nlohmann::ordered_json::object_t& members,
                               std::unordered_map<std::string, std::size_t>& places,
                               std::string& key) {
    for (std::size_t i = places.size(); i < members.size(); ++i) {
      places.emplace((members.begin() + static_cast<std::ptrdiff_t>(i))->first, i);
    }
    const auto [place, is_new] = places.emplace(key, members.size());
    using Members = nlohmann::ordered_json::object_t::Container;
    if (is_new) static_cast<Members&>(members).emplace_back(std::move(key), nullptr);
    return (members.begin() + static_cast<std::ptrdiff_t>(place->second))->second;
  }

  bool value(Json value) {
    if (on_event_) on_event_(Event::value, value);
    put(std::move(value));
    return true;
  }
  Json* put(Json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    Json& parent = *open_.back().value;
    if (!parent.is_array()) return &(*member_ = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }
  bool open(Json empty, Event event) {
    if (open_.size() >= kMostJsonLevels) {
      throw ConfigError("objects and lists nest more than " + std::to_string(kMostJsonLevels) +
                        " levels deep; flatten them");
    }
    if (on_event_) on_event_(event, empty);
    open_.push_back({put(std::move(empty))});
    return true;
  }
  bool close(Event event) {
    if (on_event_) on_event_(event, *open_.back().value);
    open_.pop_back();
    return true;
  }

  const OnJsonEvent<Json>& on_event_;
  LargeNumbers large_;
  Json root_;
  std::vector<Open> open_;
  Json* member_ = nullptr;  ///< whose value comes next
};

}  // namespace

template <class Json>
Json parse_json(std::string_view text, JsonComments comments, const OnJsonEvent<Json>& on_event) {
  refuse_nul(text);
  Builder<Json> builder(on_event);
  Json::sax_parse(text.begin(), text.end(), &builder, Json::input_format_t::json, /*strict=*/true,
                  comments == JsonComments::kIgnore);
  return builder.take();
}

template <class Json>
Json parse_exact_json(std::string_view text) {
  refuse_nul(text);
  const OnJsonEvent<Json> no_event;
  Builder<Json> builder(no_event, Builder<Json>::LargeNumbers::kDigits);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

void refuse_nul(std::string_view text) {
  const std::size_t found = text.find('\0');
  if (found == text.npos) return;
  throw nlohmann::json::parse_error::create(
      101, found + 1, "a NUL character, which JSON does not have; the file may be damaged",
      static_cast<const nlohmann::json*>(nullptr));
}

std::string json_problem(const std::exception& error) {
  std::string_view what = error.what();
  const std::size_t code_end = what.starts_with("[json.") ? what.find("] ") : what.npos;
  if (code_end != what.npos) what.remove_prefix(code_end + 2);
  // The parser ends with the text that it could not read, which may be all of a file.
  constexpr std::string_view kFound = "last read: ";
  const std::size_t found = what.find(kFound);
  if (found == what.npos) return printable_name(shortened(what, 2 * kMostShown));
  const std::size_t begin = found + kFound.size();
  return printable_name(std::string(what.substr(0, begin)) + shortened(what.substr(begin)));
}

template <class Json>
std::string json_text(const Json& value, int indent, NotUtf8 bytes) {
  // Of what a terminal obeys, the library writes the characters below a space by their numbers. The
  // others stand within strings as well, where printable's way to write them means the same.
  return printable(value.dump(
      indent, ' ', false,
      bytes == NotUtf8::kReplace ? Json::error_handler_t::replace : Json::error_handler_t::strict));
}

template <class Json>
std::string shown(const Json& value) {
  return shortened(json_text(value, kOneLine, NotUtf8::kReplace));
}

template nlohmann::json parse_json(std::string_view, JsonComments,
                                   const OnJsonEvent<nlohmann::json>&);
template nlohmann::ordered_json parse_json(std::string_view, JsonComments,
                                           const OnJsonEvent<nlohmann::ordered_json>&);
template nlohmann::ordered_json parse_exact_json(std::string_view);
template std::string json_text(const nlohmann::json&, int, NotUtf8);
template std::string json_text(const nlohmann::ordered_json&, int, NotUtf8);
template std::string shown(const nlohmann::json&);
template std::string shown(const nlohmann::ordered_json&);

}  // namespace strata
