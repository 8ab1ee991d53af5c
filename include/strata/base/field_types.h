// What headers of config structs need of fields.h: how their enumerations are written, sizes in
// bytes, and the names of the list in which they state their fields and of what is wrong with them.
#pragma once

#include <cstddef>
#include <string_view>

namespace strata {

class FieldList;
class ConfigProblems;

/// A number of bytes. In text it is a number or a size such as "24GiB".
struct ByteSize {
  std::size_t bytes = 0;
  bool operator==(const ByteSize&) const = default;
};

/// One row of an enumeration's name table.
template <class E>
struct EnumName {
  E value;
  std::string_view name;
};

/// Returns the name of `value` in a table, or "?" if the table does not have it.
template <class E, std::size_t kCount>
[[nodiscard]] constexpr std::string_view enum_name(const EnumName<E> (&table)[kCount], E value) {
  for (const EnumName<E>& row : table) {
    if (row.value == value) return row.name;
  }
  return "?";
}

}  // namespace strata
