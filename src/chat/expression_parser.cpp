// Parses operators. The grammar is Jinja's: "~" binds stronger than "+", "*" stronger than both,
// and filters bind to the nearest value.

#include "chat/expression_parser.h"

#include <algorithm>
#include <array>

namespace strata::chat {

namespace {

constexpr int kMostLevels = 100;

}  // namespace

ExpressionParser::Level::Level(ExpressionParser& parser) : parser_(parser) {
  if (++parser_.depth_ > kMostLevels) {
    --parser_.depth_;
    throw SyntaxError(parser.tokens_.line(), "expressions and statements nest more than " +
                                                 std::to_string(kMostLevels) + " levels deep");
  }
}

Expression* ExpressionParser::make(ExpressionKind kind, std::vector<const Expression*> parts) {
  Expression& made = tree_.expressions.emplace_back();
  made.kind = kind;
  made.line = tokens_.line();
  made.parts = std::move(parts);
  return &made;
}

const Expression* ExpressionParser::parse_tuple() {
  const Expression* first = parse();
  if (!tokens_.is_operator(",")) return first;
  Expression* tuple = make(ExpressionKind::kTuple, {first});
  while (tokens_.accept_operator(",")) {
    if (tokens_.is(TokenKind::kBlockEnd) || tokens_.is(TokenKind::kOutputEnd) ||
        tokens_.is_operator(")")) {
      break;
    }
    tuple->parts.push_back(parse());
  }
  return tuple;
}

const Expression* ExpressionParser::parse() {
  const Level level(*this);
  const Expression* value = parse_or();
  while (tokens_.is_name("if")) {
    const Conditional conditional(*this, true);
    Expression* made = make(ExpressionKind::kConditional);
    tokens_.next();
    const Expression* condition = parse_or();
    const Expression* otherwise = tokens_.accept_name("else") ? parse() : nullptr;
    made->parts = {condition, value, otherwise};
    value = made;
  }
  return value;
}

const Expression* ExpressionParser::parse_iterable() {
  const Level level(*this);
  const Expression* first = parse_or();
  if (!tokens_.is_operator(",")) return first;
  Expression* tuple = make(ExpressionKind::kTuple, {first});
  while (tokens_.accept_operator(",")) tuple->parts.push_back(parse_or());
  return tuple;
}

const Expression* ExpressionParser::parse_target() {
  const auto name = [&] {
    Expression* made = make(ExpressionKind::kName);
    made->name = tokens_.expect_name();
    return made;
  };
  if (tokens_.accept_operator("(")) {
    const Expression* inner = parse_target();
    tokens_.expect_operator(")");
    return inner;
  }
  const Expression* first = name();
  if (tokens_.accept_operator(".")) {
    Expression* made = make(ExpressionKind::kAttribute, {first});
    made->name = tokens_.expect_name();
    return made;
  }
  if (!tokens_.is_operator(",")) return first;
  Expression* tuple = make(ExpressionKind::kTuple, {first});
  while (tokens_.accept_operator(",")) tuple->parts.push_back(name());
  return tuple;
}

const Expression* ExpressionParser::parse_call_target() {
  const Expression* call = parse_unary(false);
  if (call->kind != ExpressionKind::kCall) tokens_.fail("expected a call");
  return call;
}

const Expression* ExpressionParser::parse_or() {
  const Expression* left = parse_and();
  while (tokens_.is_name("or")) {
    Expression* made = make(ExpressionKind::kOr);
    tokens_.next();
    made->parts = {left, parse_and()};
    left = made;
  }
  return left;
}

const Expression* ExpressionParser::parse_and() {
  const Expression* left = parse_not();
  while (tokens_.is_name("and")) {
    Expression* made = make(ExpressionKind::kAnd);
    tokens_.next();
    made->parts = {left, parse_not()};
    left = made;
  }
  return left;
}

const Expression* ExpressionParser::parse_not() {
  if (!tokens_.is_name("not")) return parse_comparison();
  const Level level(*this);
  Expression* made = make(ExpressionKind::kNot);
  tokens_.next();
  made->parts = {parse_not()};
  return made;
}

const Expression* ExpressionParser::parse_comparison() {
  struct Named {
    std::string_view symbol;
    Comparison op;
  };
  constexpr std::array<Named, 6> kSymbols{{{"==", Comparison::kEqual},
                                           {"!=", Comparison::kNotEqual},
                                           {"<", Comparison::kLess},
                                           {"<=", Comparison::kLessEqual},
                                           {">", Comparison::kGreater},
                                           {">=", Comparison::kGreaterEqual}}};
  const Expression* first = parse_sum();
  Expression* made = nullptr;
  while (true) {
    const auto* const found =
        std::find_if(kSymbols.begin(), kSymbols.end(),
                     [&](const Named& named) { return tokens_.is_operator(named.symbol); });
    Comparison op = Comparison::kIn;
    if (found != kSymbols.end()) {
      op = found->op;
    } else if (tokens_.is_name("not") && tokens_.name_follows("in")) {
      tokens_.next();
      op = Comparison::kNotIn;
    } else if (!tokens_.is_name("in")) {
      return made == nullptr ? first : made;
    }
    if (made == nullptr) made = make(ExpressionKind::kCompare, {first});
    tokens_.next();
    made->comparisons.push_back(op);
    made->parts.push_back(parse_sum());
  }
}

const Expression* ExpressionParser::parse_sum() {
  const Expression* left = parse_concat();
  while (tokens_.is_operator("+") || tokens_.is_operator("-")) {
    Expression* made = make(ExpressionKind::kBinary);
    made->binary = tokens_.next().text == "+" ? BinaryOperator::kAdd : BinaryOperator::kSubtract;
    made->parts = {left, parse_concat()};
    left = made;
  }
  return left;
}

const Expression* ExpressionParser::parse_concat() {
  const Expression* first = parse_product();
  if (!tokens_.is_operator("~")) return first;
  Expression* made = make(ExpressionKind::kConcat, {first});
  while (tokens_.accept_operator("~")) made->parts.push_back(parse_product());
  return made;
}

const Expression* ExpressionParser::parse_product() {
  const Expression* left = parse_power();
  while (true) {
    BinaryOperator op{};
    if (tokens_.is_operator("*")) {
      op = BinaryOperator::kMultiply;
    } else if (tokens_.is_operator("/")) {
      op = BinaryOperator::kDivide;
    } else if (tokens_.is_operator("//")) {
      op = BinaryOperator::kFloorDivide;
    } else if (tokens_.is_operator("%")) {
      op = BinaryOperator::kModulo;
    } else {
      return left;
    }
    Expression* made = make(ExpressionKind::kBinary);
    made->binary = op;
    tokens_.next();
    made->parts = {left, parse_power()};
    left = made;
  }
}

const Expression* ExpressionParser::parse_power() {
  const Expression* left = parse_unary(true);
  while (tokens_.is_operator("**")) {
    Expression* made = make(ExpressionKind::kBinary);
    made->binary = BinaryOperator::kPower;
    tokens_.next();
    made->parts = {left, parse_unary(true)};
    left = made;
  }
  return left;
}

const Expression* ExpressionParser::parse_unary(bool with_filters) {
  const Level level(*this);
  const Expression* value = nullptr;
  if (tokens_.is_operator("-") || tokens_.is_operator("+")) {
    Expression* made =
        make(tokens_.is_operator("-") ? ExpressionKind::kNegative : ExpressionKind::kPositive);
    tokens_.next();
    made->parts = {parse_unary(false)};
    value = made;
  } else {
    value = parse_primary();
  }
  value = parse_postfix(value);
  if (!with_filters) return value;
  while (true) {
    if (tokens_.is_operator("|")) {
      value = parse_filters(value);
    } else if (tokens_.is_name("is")) {
      value = parse_test(value);
    } else if (tokens_.is_operator("(")) {
      value = parse_call(value);
    } else {
      return value;
    }
  }
}

}  // namespace strata::chat
