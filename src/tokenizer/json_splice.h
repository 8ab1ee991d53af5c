// Changes a JSON text where something is added, and leaves every other byte as it is: files of
// tokenizers have tens of megabytes, numbers beyond 64 bits and an order of their own, which a
// parser and a printer together would not keep.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace strata {

/// Bytes [begin, end) of a text that are one value.
struct JsonPlace {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Returns the place of the value of a text that was found to be JSON.
[[nodiscard]] JsonPlace json_place(std::string_view text);
/// Returns where the value of a member of the object at `object` stands, the last if there are
/// several, or nothing if there is none.
[[nodiscard]] std::optional<JsonPlace> find_member(std::string_view text, JsonPlace object,
                                                   std::string_view key);
/// Adds an item, which is JSON, or a member ("\"key\": value") at the end of the list or object at
/// `place`, laid out as what stands there.
void append_item(std::string& text, JsonPlace place, std::string_view item);

}  // namespace strata
