// Makes the tree of a template from its tokens.
#pragma once

#include <string_view>

#include "chat/syntax_tree.h"

namespace strata::chat {

/// Parses a template. Throws SyntaxError with the line for what is no template or is not supported:
/// a statement, filter or test by its name.
[[nodiscard]] SyntaxTree parse_template(std::string_view source);

}  // namespace strata::chat
