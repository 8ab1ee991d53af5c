// The filters of the language, `value|name(arguments)`, by name. Those of Jinja that chat templates
// use are here, and tojson as transformers has it.
#pragma once

#include <string_view>

#include "chat/heap.h"
#include "chat/value.h"

namespace strata::chat {

/// Applies a filter; throws TemplateFailure for values and arguments that it does not take.
using Filter = Value (*)(Heap& heap, const Value& input, const Arguments& arguments);

/// Returns the filter of a name, or null if there is none.
[[nodiscard]] Filter find_filter(std::string_view name);

/// Filters of strings and numbers, and those of lists: parts of the table of find_filter.
[[nodiscard]] Filter find_text_filter(std::string_view name);
[[nodiscard]] Filter find_list_filter(std::string_view name);

}  // namespace strata::chat
