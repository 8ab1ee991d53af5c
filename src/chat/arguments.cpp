// Matches the arguments of a call to parameters. Functions of the language have few parameters, so
// names are looked up in a row.

#include "chat/arguments.h"

#include <algorithm>

namespace strata::chat {

namespace {

std::string call_of(std::string_view function) { return std::string(function) + "()"; }

}  // namespace

void bind_arguments(std::string_view function, const Arguments& arguments,
                    std::span<const std::string_view> names, std::size_t required,
                    std::span<const Value*> bound) {
  if (arguments.positional.size() > names.size()) {
    fail(call_of(function) + " takes at most " + std::to_string(names.size()) + " arguments");
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) bound[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) fail(call_of(function) + " has no argument '" + name + "'");
    const Value*& place = bound[static_cast<std::size_t>(found - names.begin())];
    if (place != nullptr) fail(call_of(function) + " is given '" + name + "' twice");
    place = &value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (bound[i] == nullptr) {
      fail(call_of(function) + " needs the argument '" + std::string(names[i]) + "'");
    }
  }
}

const TracedText& text_argument(std::string_view function, const Value& value) {
  if (!value.is_text()) {
    fail(call_of(function) + " takes a string, not " + std::string(type_name(value)));
  }
  return value.text();
}

std::int64_t integer_argument(std::string_view function, const Value& value) {
  if (!value.is_integer()) {
    fail(call_of(function) + " takes a whole number, not " + std::string(type_name(value)));
  }
  return value.integer();
}

void expect_no_arguments(std::string_view function, const Arguments& arguments) {
  if (!arguments.positional.empty() || !arguments.named.empty()) {
    fail(call_of(function) + " takes no arguments");
  }
}

}  // namespace strata::chat
