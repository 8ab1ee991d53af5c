// Names with a value, as configs list them: "down_proj=16". What a name means is up to the key that
// has the list.

#pragma once

#include <optional>
#include <string_view>

namespace strata {

/// An entry of such a list.
struct NamedValue {
  std::string_view name;  ///< not empty; of the text that was parsed
  double value = 0;       ///< finite
};

/// Returns the entry that a text such as "down_proj=16" is, or nothing if it is none.
[[nodiscard]] std::optional<NamedValue> parse_named_value(std::string_view text);

}  // namespace strata
