// The tests of the language, `value is name(arguments)`, by name.
#pragma once

#include <string_view>

#include "chat/heap.h"
#include "chat/value.h"

namespace strata::chat {

/// Applies a test; throws TemplateFailure for values and arguments that it does not take.
using IsTest = bool (*)(Heap& heap, const Value& value, const Arguments& arguments);

/// Returns the test of a name, or null if there is none.
[[nodiscard]] IsTest find_test(std::string_view name);

}  // namespace strata::chat
