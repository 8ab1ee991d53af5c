// Parses the parts of expressions that operators stand between: names, literals, and what follows
// them, attributes, subscripts, calls, filters and tests.

#include <cstdlib>
#include <memory>

#include "chat/expression_parser.h"
#include "chat/whole_number.h"

namespace strata::chat {

const Expression* ExpressionParser::constant(Value::Data data) {
  Expression* made = make(ExpressionKind::kConstant);
  made->constant.data = std::move(data);
  return made;
}

const Expression* ExpressionParser::parse_primary() {
  switch (tokens_.current().kind) {
    case TokenKind::kName: return parse_name();
    case TokenKind::kString: return parse_string();
    case TokenKind::kInteger:
    case TokenKind::kFloat: return parse_number();
    default: break;
  }
  if (tokens_.is_operator("(")) return parse_parentheses();
  if (tokens_.is_operator("[")) return parse_list();
  if (tokens_.is_operator("{")) return parse_dict();
  tokens_.fail("expected an expression");
}

const Expression* ExpressionParser::parse_name() {
  const std::string& text = tokens_.current().text;
  const Expression* made = nullptr;
  if (text == "true" || text == "True") {
    made = constant(true);
  } else if (text == "false" || text == "False") {
    made = constant(false);
  } else if (text == "none" || text == "None") {
    made = constant(None{});
  } else {
    Expression* name = make(ExpressionKind::kName);
    name->name = text;
    made = name;
  }
  tokens_.next();
  return made;
}

const Expression* ExpressionParser::parse_number() {
  const std::string& text = tokens_.current().text;
  Expression* made = make(ExpressionKind::kConstant);
  if (tokens_.is(TokenKind::kFloat)) {
    made->constant.data = std::strtod(text.c_str(), nullptr);
  } else {
    made->constant = whole_number(text);
  }
  tokens_.next();
  return made;
}

const Expression* ExpressionParser::parse_string() {
  Expression* made = make(ExpressionKind::kConstant);
  std::string text;
  while (tokens_.is(TokenKind::kString)) text += tokens_.next().text;
  made->constant.data = std::make_shared<const TracedText>(std::move(text));
  return made;
}

const Expression* ExpressionParser::parse_parentheses() {
  const Level level(*this);
  tokens_.next();
  const Expression* inner = tokens_.is_operator(")") ? make(ExpressionKind::kTuple) : parse_tuple();
  tokens_.expect_operator(")");
  return inner;
}

const Expression* ExpressionParser::parse_list() {
  Expression* list = make(ExpressionKind::kList);
  tokens_.next();
  while (!tokens_.is_operator("]")) {
    list->parts.push_back(parse());
    if (!tokens_.is_operator("]")) tokens_.expect_operator(",");
  }
  tokens_.next();
  return list;
}

const Expression* ExpressionParser::parse_dict() {
  Expression* dict = make(ExpressionKind::kDict);
  tokens_.next();
  while (!tokens_.is_operator("}")) {
    dict->parts.push_back(parse());
    tokens_.expect_operator(":");
    dict->parts.push_back(parse());
    if (!tokens_.is_operator("}")) tokens_.expect_operator(",");
  }
  tokens_.next();
  return dict;
}

const Expression* ExpressionParser::parse_postfix(const Expression* value) {
  while (true) {
    if (tokens_.is_operator(".")) {
      value = parse_attribute(value);
    } else if (tokens_.is_operator("[")) {
      value = parse_subscript(value);
    } else if (tokens_.is_operator("(")) {
      value = parse_call(value);
    } else {
      return value;
    }
  }
}

const Expression* ExpressionParser::parse_attribute(const Expression* value) {
  tokens_.next();
  if (tokens_.is(TokenKind::kInteger)) {
    return make(ExpressionKind::kSubscript, {value, parse_number()});
  }
  Expression* made = make(ExpressionKind::kAttribute, {value});
  made->name = tokens_.expect_name();
  return made;
}

const Expression* ExpressionParser::parse_subscript(const Expression* value) {
  Expression* made = make(ExpressionKind::kSubscript, {value});
  tokens_.next();
  const auto ends = [&] { return tokens_.is_operator(":") || tokens_.is_operator("]"); };
  const Expression* begin = ends() ? nullptr : parse();
  if (tokens_.accept_operator(":")) {
    made->kind = ExpressionKind::kSlice;
    const Expression* end = ends() ? nullptr : parse();
    const Expression* step = tokens_.accept_operator(":") && !ends() ? parse() : nullptr;
    made->parts = {value, begin, end, step};
  } else if (begin == nullptr) {
    tokens_.fail("expected an index");
  } else {
    made->parts = {value, begin};
  }
  tokens_.expect_operator("]");
  return made;
}

const Expression* ExpressionParser::parse_call(const Expression* function) {
  Expression* made = make(ExpressionKind::kCall, {function});
  parse_arguments(*made);
  return made;
}

void ExpressionParser::parse_arguments(Expression& call) {
  const Level level(*this);
  tokens_.expect_operator("(");
  while (!tokens_.is_operator(")")) {
    if (tokens_.is_operator("*") || tokens_.is_operator("**")) {
      tokens_.fail("arguments with '*' are not supported; expected an argument");
    }
    if (tokens_.is(TokenKind::kName) && tokens_.operator_follows("=")) {
      std::string name = tokens_.next().text;
      tokens_.next();
      call.named.emplace_back(std::move(name), parse());
    } else {
      if (!call.named.empty()) tokens_.fail("expected name=value behind named arguments");
      call.parts.push_back(parse());
    }
    if (!tokens_.is_operator(")")) tokens_.expect_operator(",");
  }
  tokens_.next();
}

const Expression* ExpressionParser::parse_filters(const Expression* input) {
  while (tokens_.accept_operator("|")) input = parse_filter(input);
  return input;
}

const Expression* ExpressionParser::parse_first_filter(const Expression* input) {
  return parse_filters(parse_filter(input));
}

const Expression* ExpressionParser::parse_filter(const Expression* input) {
  Expression* made = make(ExpressionKind::kFilter, {input});
  made->name = tokens_.expect_name();
  made->filter = find_filter(made->name);
  if (made->filter == nullptr && !conditional_) {
    throw SyntaxError(made->line, "filter '" + made->name + "' is not supported");
  }
  if (tokens_.is_operator("(")) parse_arguments(*made);
  return made;
}

const Expression* ExpressionParser::parse_test(const Expression* value) {
  tokens_.next();
  const bool negated = tokens_.accept_name("not");
  Expression* made = make(ExpressionKind::kTest, {value});
  made->name = tokens_.expect_name();
  made->test = find_test(made->name);
  if (made->test == nullptr && !conditional_) {
    throw SyntaxError(made->line, "test '" + made->name + "' is not supported");
  }
  const bool ends = tokens_.is_name("else") || tokens_.is_name("or") || tokens_.is_name("and") ||
                    tokens_.is_name("if") || tokens_.is_name("is");
  const bool has_argument = tokens_.is(TokenKind::kName) || tokens_.is(TokenKind::kString) ||
                            tokens_.is(TokenKind::kInteger) || tokens_.is(TokenKind::kFloat) ||
                            tokens_.is_operator("[") || tokens_.is_operator("{");
  if (tokens_.is_operator("(")) {
    parse_arguments(*made);
  } else if (has_argument && !ends) {
    made->parts.push_back(parse_postfix(parse_primary()));
  }
  return negated ? make(ExpressionKind::kNot, {made}) : made;
}

}  // namespace strata::chat
