// The methods of strings, lists, dicts and `loop`. Those that would change a list or a dict are not
// there: the sandbox of transformers forbids them as well.
#pragma once

#include <string>

#include "chat/heap.h"
#include "chat/value.h"

namespace strata::chat {

/// Says whether `value.name` is a method rather than an attribute.
[[nodiscard]] bool has_method(const Value& value, const std::string& name);
/// Calls a method that the value has; throws TemplateFailure for wrong arguments, and for methods
/// that the sandbox forbids.
[[nodiscard]] Value call_method(Heap& heap, const Value& value, const std::string& name,
                                const Arguments& arguments);

}  // namespace strata::chat
