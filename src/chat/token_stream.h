// The tokens of a template, one after the other, with the questions that parsers ask.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/lexer.h"

namespace strata::chat {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  [[nodiscard]] const Token& current() const { return tokens_[at_]; }
  [[nodiscard]] int line() const { return current().line; }
  [[nodiscard]] bool is(TokenKind kind) const { return current().kind == kind; }
  [[nodiscard]] bool is_operator(std::string_view text) const {
    return is(TokenKind::kOperator) && current().text == text;
  }
  [[nodiscard]] bool is_name(std::string_view text) const {
    return is(TokenKind::kName) && current().text == text;
  }
  /// Says whether an operator comes behind the current token.
  [[nodiscard]] bool operator_follows(std::string_view text) const {
    return at_ + 1 < tokens_.size() && tokens_[at_ + 1].kind == TokenKind::kOperator &&
           tokens_[at_ + 1].text == text;
  }
  /// Says whether a name comes behind the current token.
  [[nodiscard]] bool name_follows(std::string_view text) const {
    return at_ + 1 < tokens_.size() && tokens_[at_ + 1].kind == TokenKind::kName &&
           tokens_[at_ + 1].text == text;
  }

  /// Returns the current token and goes on; the last one stays.
  const Token& next() {
    const Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  /// Goes on if the current token is the one asked for, and says whether it was.
  bool accept_operator(std::string_view text) {
    const bool found = is_operator(text);
    if (found) next();
    return found;
  }
  bool accept_name(std::string_view text) {
    const bool found = is_name(text);
    if (found) next();
    return found;
  }
  void expect_operator(std::string_view text) {
    if (!accept_operator(text)) fail("expected '" + std::string(text) + "'");
  }
  std::string expect_name() {
    if (!is(TokenKind::kName)) fail("expected a name");
    return next().text;
  }
  void expect(TokenKind kind, std::string_view described) {
    if (!is(kind)) fail("expected " + std::string(described));
    next();
  }
  /// Throws SyntaxError that says what was expected and what is there.
  [[noreturn]] void fail(const std::string& expected) const;

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

}  // namespace strata::chat
