// Parses expressions by recursive descent, one function for each level of precedence. Filters and
// tests are looked up here, so that a template that needs one that is missing is refused before it
// renders anything. As in Jinja, one within an `if` is only missed when it is reached.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "chat/syntax_tree.h"
#include "chat/token_stream.h"

namespace strata::chat {

class ExpressionParser {
 public:
  ExpressionParser(TokenStream& tokens, SyntaxTree& tree) : tokens_(tokens), tree_(tree) {}

  /// Parses an expression; with commas it is a tuple.
  const Expression* parse_tuple();
  /// Parses an expression without commas.
  const Expression* parse();
  /// Parses what a for statement goes through, where `if` begins the loop's condition.
  const Expression* parse_iterable();
  /// Parses what is assigned to: names, with commas between them, or an attribute of a namespace.
  const Expression* parse_target();
  /// Parses the filters that follow an input; returns the input if there are none.
  const Expression* parse_filters(const Expression* input);
  /// Parses `name(arguments)|...` where the first filter stands without "|".
  const Expression* parse_first_filter(const Expression* input);
  /// Parses a call's own expression.
  const Expression* parse_call_target();

  Expression* make(ExpressionKind kind, std::vector<const Expression*> parts = {});

  /// Counts nesting, of statements as well; throws SyntaxError beyond a limit.
  class Level {
   public:
    explicit Level(ExpressionParser& parser);
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ExpressionParser& parser_;
  };
  /// Says until its end whether what is parsed may never be reached.
  class Conditional {
   public:
    Conditional(ExpressionParser& parser, bool conditional)
        : parser_(parser), before_(std::exchange(parser.conditional_, conditional)) {}
    ~Conditional() { parser_.conditional_ = before_; }
    Conditional(const Conditional&) = delete;
    Conditional& operator=(const Conditional&) = delete;

   private:
    ExpressionParser& parser_;
    bool before_;
  };

 private:
  const Expression* parse_or();
  const Expression* parse_and();
  const Expression* parse_not();
  const Expression* parse_comparison();
  const Expression* parse_sum();
  const Expression* parse_concat();
  const Expression* parse_product();
  const Expression* parse_power();
  const Expression* parse_unary(bool with_filters);
  const Expression* parse_primary();
  const Expression* parse_name();
  const Expression* parse_number();
  const Expression* parse_string();
  const Expression* parse_parentheses();
  const Expression* parse_list();
  const Expression* parse_dict();
  const Expression* parse_postfix(const Expression* value);
  const Expression* parse_attribute(const Expression* value);
  const Expression* parse_subscript(const Expression* value);
  const Expression* parse_call(const Expression* function);
  const Expression* parse_filter(const Expression* input);
  const Expression* parse_test(const Expression* value);
  void parse_arguments(Expression& call);
  const Expression* constant(Value::Data data);

  TokenStream& tokens_;
  SyntaxTree& tree_;
  int depth_ = 0;
  bool conditional_ = false;
};

}  // namespace strata::chat
