// Takes an entry apart at its first equals sign.

#include "strata/model/named_value.h"

#include <charconv>
#include <cmath>
#include <cstddef>
#include <system_error>

namespace strata {

std::optional<NamedValue> parse_named_value(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == text.npos || equals == 0) return std::nullopt;
  NamedValue entry{.name = text.substr(0, equals)};
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data() + equals + 1, end, entry.value);
  if (error != std::errc{} || parsed != end || !std::isfinite(entry.value)) return std::nullopt;
  return entry;
}

}  // namespace strata
