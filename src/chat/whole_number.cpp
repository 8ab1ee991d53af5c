// Reads and compares whole numbers of any length. A number that fits 64 bits is always held as
// such, so that two kinds of one value never meet.

#include "chat/whole_number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

namespace strata::chat {

Value whole_number(std::string_view digits, Origin origin) {
  const bool below = digits.starts_with('-');
  digits.remove_prefix(below ? 1 : 0);
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  const std::string text = (below ? "-" : "") + std::string(digits.empty() ? "0" : digits);
  std::int64_t small = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), small).ec == std::errc{}) {
    return {.data = small, .origin = origin};
  }
  return {.data = std::make_shared<const LargeNumber>(LargeNumber{text}), .origin = origin};
}

Value whole_number(double real, Origin origin) {
  constexpr std::size_t kMostDigits = 320;  // of a double, sign included
  std::string digits(kMostDigits, '\0');
  const int size = std::snprintf(digits.data(), digits.size(), "%.0f", std::trunc(real));
  return whole_number(std::string_view(digits).substr(0, static_cast<std::size_t>(size)), origin);
}

std::string whole_text(const Value& value) {
  return value.is_large() ? value.get<LargePointer>()->digits : std::to_string(value.integer());
}

bool less_whole(const Value& left, const Value& right) {
  if (!left.is_large() && !right.is_large()) return left.integer() < right.integer();
  const std::string a = whole_text(left);
  const std::string b = whole_text(right);
  if (a.starts_with('-') != b.starts_with('-')) return a.starts_with('-');
  const bool below = a.starts_with('-');
  const bool smaller = a.size() != b.size() ? a.size() < b.size() : a < b;
  return below ? !smaller && a != b : smaller;
}

bool equal_whole(const Value& left, const Value& right) {
  if (left.is_large() != right.is_large()) return false;
  return left.is_large() ? whole_text(left) == whole_text(right)
                         : left.integer() == right.integer();
}

Value negative_whole(const Value& value) {
  const std::string text = whole_text(value);
  return whole_number(text.starts_with('-') ? text.substr(1) : '-' + text);
}

}  // namespace strata::chat
