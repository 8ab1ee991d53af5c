// Parses statements. Each begins after "{%" with its name; a body reaches to one of the names that
// may end it.

#include "chat/parser.h"

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "chat/expression_parser.h"

namespace strata::chat {

namespace {

using Names = std::initializer_list<std::string_view>;

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokens_of(source)) {}

  SyntaxTree run() {
    tree_.body = body({});
    return std::move(tree_);
  }

 private:
  /// Parses up to a statement with one of the names, of which only the "{%" is read; without names
  /// up to the template's end.
  Block body(Names ends) {
    Block block;
    while (true) {
      if (tokens_.is(TokenKind::kText)) {
        Statement* made = make(StatementKind::kText);
        made->text.data = std::make_shared<const TracedText>(tokens_.next().text);
        block.push_back(made);
      } else if (tokens_.is(TokenKind::kOutputBegin)) {
        block.push_back(output());
      } else if (tokens_.is(TokenKind::kBlockBegin)) {
        tokens_.next();
        if (std::any_of(ends.begin(), ends.end(),
                        [&](std::string_view end) { return tokens_.is_name(end); })) {
          return block;
        }
        block.push_back(statement());
      } else if (ends.size() == 0) {
        return block;
      } else {
        tokens_.fail("expected {% " + std::string(*(ends.end() - 1)) + " %}");
      }
    }
  }
  /// Parses a body and the statement that ends it.
  Block whole_body(std::string_view end) {
    Block block = body({end});
    tokens_.next();
    return block;
  }

  Statement* make(StatementKind kind) {
    Statement& made = tree_.statements.emplace_back();
    made.kind = kind;
    made.line = tokens_.line();
    return &made;
  }

  const Statement* output() {
    Statement* made = make(StatementKind::kOutput);
    tokens_.next();
    made->expression = expressions_.parse_tuple();
    tokens_.expect(TokenKind::kOutputEnd, "'}}'");
    return made;
  }

  /// Parses a statement behind its "{%".
  const Statement* statement() {
    const ExpressionParser::Level level(expressions_);
    const int line = tokens_.line();
    const std::string name = tokens_.expect_name();
    const Statement* made = nullptr;
    if (name == "if") made = if_statement();
    if (name == "for") made = for_statement();
    if (name == "set") made = set_statement();
    if (name == "macro") made = macro();
    if (name == "call") made = call_block();
    if (name == "filter") made = filter_block();
    if (name == "with") made = with_statement();
    if (name == "generation") made = generation();
    if (name == "break" || name == "continue") made = jump(name);
    if (made == nullptr) throw SyntaxError(line, "statement '" + name + "' is not supported");
    end_block();
    return made;
  }
  void end_block() { tokens_.expect(TokenKind::kBlockEnd, "'%}'"); }

  const Statement* if_statement() {
    const ExpressionParser::Conditional conditional(expressions_, true);
    Statement* const first = make(StatementKind::kIf);
    Statement* branch = first;
    while (true) {
      branch->expression = expressions_.parse_tuple();
      end_block();
      branch->body = body({"elif", "else", "endif"});
      if (!tokens_.is_name("elif")) break;
      Statement* next = make(StatementKind::kIf);
      tokens_.next();
      branch->otherwise = {next};
      branch = next;
    }
    if (tokens_.accept_name("else")) {
      end_block();
      branch->otherwise = body({"endif"});
    }
    tokens_.next();
    return first;
  }

  const Statement* for_statement() {
    Statement* made = make(StatementKind::kFor);
    made->target = expressions_.parse_target();
    if (!tokens_.accept_name("in")) tokens_.fail("expected 'in'");
    made->expression = expressions_.parse_iterable();
    const ExpressionParser::Conditional conditional(expressions_, false);
    if (tokens_.accept_name("if")) made->condition = expressions_.parse();
    if (tokens_.is_name("recursive")) {
      throw SyntaxError(tokens_.line(), "'for ... recursive' is not supported; call a macro");
    }
    end_block();
    ++loops_;
    made->body = body({"else", "endfor"});
    --loops_;
    if (tokens_.accept_name("else")) {
      end_block();
      made->otherwise = body({"endfor"});
    }
    tokens_.next();
    return made;
  }

  const Statement* set_statement() {
    Statement* made = make(StatementKind::kSet);
    made->target = expressions_.parse_target();
    if (tokens_.accept_operator("=")) {
      made->expression = expressions_.parse_tuple();
      return made;
    }
    made->kind = StatementKind::kSetBlock;
    const ExpressionParser::Conditional conditional(expressions_, false);
    made->expression = expressions_.parse_filters(expressions_.make(ExpressionKind::kBody));
    end_block();
    made->body = whole_body("endset");
    return made;
  }

  void signature(Statement& made) {
    tokens_.expect_operator("(");
    while (!tokens_.accept_operator(")")) {
      Parameter parameter{.name = tokens_.expect_name()};
      if (tokens_.accept_operator("=")) {
        parameter.fallback = expressions_.parse();
      } else if (!made.parameters.empty() && made.parameters.back().fallback != nullptr) {
        tokens_.fail("expected a default value for '" + parameter.name + "'");
      }
      made.parameters.push_back(std::move(parameter));
      if (!tokens_.is_operator(")")) tokens_.expect_operator(",");
    }
  }
  /// Parses a body that loops around it cannot be left from.
  Block function_body(std::string_view end) {
    const ExpressionParser::Conditional conditional(expressions_, false);
    const int loops = std::exchange(loops_, 0);
    Block block = whole_body(end);
    loops_ = loops;
    return block;
  }

  const Statement* macro() {
    Statement* made = make(StatementKind::kMacro);
    made->name = tokens_.expect_name();
    signature(*made);
    end_block();
    made->body = function_body("endmacro");
    return made;
  }
  const Statement* call_block() {
    Statement* made = make(StatementKind::kCallBlock);
    made->name = "caller";
    if (tokens_.is_operator("(")) signature(*made);
    made->expression = expressions_.parse_call_target();
    end_block();
    made->body = function_body("endcall");
    return made;
  }
  const Statement* filter_block() {
    Statement* made = make(StatementKind::kFilterBlock);
    const ExpressionParser::Conditional conditional(expressions_, false);
    made->expression = expressions_.parse_first_filter(expressions_.make(ExpressionKind::kBody));
    end_block();
    made->body = whole_body("endfilter");
    return made;
  }
  const Statement* with_statement() {
    Statement* made = make(StatementKind::kWith);
    const ExpressionParser::Conditional conditional(expressions_, false);
    while (!tokens_.is(TokenKind::kBlockEnd)) {
      std::string name = tokens_.expect_name();
      tokens_.expect_operator("=");
      made->assignments.emplace_back(std::move(name), expressions_.parse());
      if (!tokens_.is(TokenKind::kBlockEnd)) tokens_.expect_operator(",");
    }
    end_block();
    made->body = whole_body("endwith");
    return made;
  }
  const Statement* generation() {
    Statement* made = make(StatementKind::kGeneration);
    tree_.has_generation = true;
    end_block();
    made->body = function_body("endgeneration");
    return made;
  }
  const Statement* jump(const std::string& name) {
    if (loops_ == 0) throw SyntaxError(tokens_.line(), "'" + name + "' stands in no loop");
    return make(name == "break" ? StatementKind::kBreak : StatementKind::kContinue);
  }

  TokenStream tokens_;
  SyntaxTree tree_;
  ExpressionParser expressions_{tokens_, tree_};
  int loops_ = 0;  ///< for statements around what is parsed
};

}  // namespace

SyntaxTree parse_template(std::string_view source) { return Parser(source).run(); }

std::string described(const Expression& expression) {
  switch (expression.kind) {
    case ExpressionKind::kName: return expression.name;
    case ExpressionKind::kAttribute: return described(*expression.parts[0]) + '.' + expression.name;
    case ExpressionKind::kSubscript:
      return described(*expression.parts[0]) + '[' + described(*expression.parts[1]) + ']';
    case ExpressionKind::kCall: return described(*expression.parts[0]) + "()";
    case ExpressionKind::kConstant:
      if (expression.constant.is_text()) return '\'' + expression.constant.text().bytes() + '\'';
      if (expression.constant.is_integer()) return std::to_string(expression.constant.integer());
      return "...";
    default: return "...";
  }
}

}  // namespace strata::chat
