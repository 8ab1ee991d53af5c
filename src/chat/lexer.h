// Cuts a template into text and the tokens of its tags. White space around tags is removed here, by
// the rules of transformers: the line end behind a block tag goes, and so do blanks before one that
// begins its line; "-" removes all white space on its side, "+" none.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace strata::chat {

/// A template that cannot be read. Whoever knows the file's name puts it in front of the line.
class SyntaxError : public std::runtime_error {
 public:
  SyntaxError(int line, const std::string& what) : std::runtime_error(what), line_(line) {}
  [[nodiscard]] int line() const { return line_; }

 private:
  int line_;
};

enum class TokenKind {
  kText,         ///< what stands between tags; white space is already removed
  kOutputBegin,  ///< {{
  kOutputEnd,    ///< }}
  kBlockBegin,   ///< {%
  kBlockEnd,     ///< %}
  kName,
  kString,    ///< `text` has the string, without quotes and escapes
  kInteger,   ///< `text` has decimal digits
  kFloat,     ///< `text` has digits
  kOperator,  ///< `text` has the operator as it is written
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text{};
  int line = 1;
};

/// Returns the tokens of a template, kEnd last. Throws SyntaxError.
[[nodiscard]] std::vector<Token> tokens_of(std::string_view source);

}  // namespace strata::chat
