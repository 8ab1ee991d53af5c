// Whole numbers beyond 64 bits, such as the id of a tool call: they are read, compared and written
// as Python does it, digit by digit. Arithmetic makes them of smaller ones but does not take them.
#pragma once

#include <string_view>

#include "chat/value.h"

namespace strata::chat {

/// Returns the number of decimal digits, behind a minus if it has one: of 64 bits where it fits.
[[nodiscard]] Value whole_number(std::string_view digits, Origin origin = {});
/// Returns the number without its fraction; `real` is finite.
[[nodiscard]] Value whole_number(double real, Origin origin = {});
/// `left < right`, for whole numbers of any size.
[[nodiscard]] bool less_whole(const Value& left, const Value& right);
/// `left == right`, for whole numbers of any size.
[[nodiscard]] bool equal_whole(const Value& left, const Value& right);
/// `-value`, for whole numbers of any size.
[[nodiscard]] Value negative_whole(const Value& value);
/// Returns a whole number as text.
[[nodiscard]] std::string whole_text(const Value& value);

}  // namespace strata::chat
