// Python's two ways to put values into a string: "%s" % value, and "{}".format(value). What
// templates use of them is supported: widths, fills and the like are refused by name.
#pragma once

#include "chat/heap.h"
#include "chat/value.h"

namespace strata::chat {

/// `pattern % values`: values is a tuple, or the only value. Takes %s, %r, %d, %i, %f, %.Nf and %%.
[[nodiscard]] Value format_percent(Heap& heap, const Value& pattern, const Value& values);
/// `pattern.format(...)`: takes {}, {0}, {name}, {{ and }}.
[[nodiscard]] Value format_braces(Heap& heap, const TracedText& pattern, const Arguments& values);

}  // namespace strata::chat
