// Reads the arguments of functions, methods, filters and tests, each by place or by name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "chat/value.h"

namespace strata::chat {

/// Puts arguments in the order of `names`, null where one is not given. Throws TemplateFailure that
/// begins with `function` for too many, unknown or twice given ones, and if one of the first
/// `required` is missing.
void bind_arguments(std::string_view function, const Arguments& arguments,
                    std::span<const std::string_view> names, std::size_t required,
                    std::span<const Value*> bound);

/// The same, with the names in the call: bind<2>("replace", arguments, {"old", "new"}, 2).
template <std::size_t N>
[[nodiscard]] std::array<const Value*, N> bind(std::string_view function,
                                               const Arguments& arguments,
                                               const std::array<std::string_view, N>& names,
                                               std::size_t required = 0) {
  std::array<const Value*, N> bound{};
  bind_arguments(function, arguments, names, required, bound);
  return bound;
}

/// Returns an argument that must be a string.
[[nodiscard]] const TracedText& text_argument(std::string_view function, const Value& value);
/// Returns an argument that must be a whole number.
[[nodiscard]] std::int64_t integer_argument(std::string_view function, const Value& value);
/// Throws if there are any arguments.
void expect_no_arguments(std::string_view function, const Arguments& arguments);

}  // namespace strata::chat
