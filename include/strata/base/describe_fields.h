// Describes the fields of a config struct (fields.h) to those who write a config: in a terminal, in
// Markdown, and as the JSON Schema that editors read.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "strata/base/fields.h"

namespace strata {

/// Lists the fields for a terminal: a line with path, type and default, and below it the
/// description, in lines of up to `columns` where words are no longer. Sections that are absent are
/// listed as well, with the defaults they would have.
[[nodiscard]] std::string describe_fields(const FieldList& fields, std::size_t columns);
template <HasFields T>
[[nodiscard]] std::string describe_fields(T defaults, std::size_t columns) {
  return describe_fields(fields_of(defaults), columns);
}

/// Lists the same fields in Markdown: a heading, the section's description and a table for each
/// section of the top level. Fields outside of a section come in a table without heading. A section
/// inside of a section has its fields in the outer one's table.
[[nodiscard]] std::string markdown_fields(const FieldList& fields);
template <HasFields T>
[[nodiscard]] std::string markdown_fields(T defaults) {
  return markdown_fields(fields_of(defaults));
}

/// What a schema says of itself.
struct SchemaHead {
  std::string_view title;
  std::string_view description;
};
/// Returns a JSON Schema (draft 7, which editors know best) of the JSON that read_fields reads:
/// types, names of choices, limits, defaults and descriptions, and that other keys are unknown.
[[nodiscard]] std::string schema_of_fields(const FieldList& fields, const SchemaHead& head);
template <HasFields T>
[[nodiscard]] std::string schema_of_fields(T defaults, const SchemaHead& head) {
  return schema_of_fields(fields_of(defaults), head);
}

}  // namespace strata
