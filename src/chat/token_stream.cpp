// Throws the error of a parser, which says what is there where something else was expected.

#include "chat/token_stream.h"

namespace strata::chat {

void TokenStream::fail(const std::string& expected) const {
  const Token& token = current();
  std::string found;
  switch (token.kind) {
    case TokenKind::kEnd: found = "the template's end"; break;
    case TokenKind::kOutputEnd: found = "'}}'"; break;
    case TokenKind::kBlockEnd: found = "'%}'"; break;
    case TokenKind::kString: found = "a string"; break;
    case TokenKind::kText: found = "text"; break;
    default: found = "'" + token.text + "'";
  }
  throw SyntaxError(token.line, expected + ", found " + found);
}

}  // namespace strata::chat
