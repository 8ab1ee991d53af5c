// Evaluates expressions, for the interpreter.

#include <algorithm>

#include "chat/interpreter.h"
#include "chat/methods.h"
#include "chat/operators.h"
#include "chat/print.h"

namespace strata::chat {

Value Interpreter::evaluate(const Expression& expression, Scope& scope) {
  const Level level(*this);
  heap_.step();
  const auto part = [&](std::size_t i) { return evaluate(*expression.parts[i], scope); };
  switch (expression.kind) {
    case ExpressionKind::kConstant: return expression.constant;
    case ExpressionKind::kBody: return body_;
    case ExpressionKind::kName: return evaluate_name(expression, scope);
    case ExpressionKind::kList: return heap_.list(values(expression.parts, 0, scope));
    case ExpressionKind::kTuple: return heap_.tuple(values(expression.parts, 0, scope));
    case ExpressionKind::kDict: return evaluate_dict(expression, scope);
    case ExpressionKind::kAttribute: return evaluate_attribute(expression, part(0));
    case ExpressionKind::kSubscript: {
      const Value value = part(0);
      const Value index = part(1);
      line_ = expression.line;
      if (value.is_undefined()) fail("'" + described(*expression.parts[0]) + "' is undefined");
      return subscript(heap_, value, index);
    }
    case ExpressionKind::kSlice: return evaluate_slice(expression, scope);
    case ExpressionKind::kCall: return evaluate_call(expression, scope);
    case ExpressionKind::kFilter: return evaluate_filter(expression, scope);
    case ExpressionKind::kTest: return evaluate_test(expression, scope);
    case ExpressionKind::kNot: return {.data = !truth(part(0))};
    case ExpressionKind::kNegative: return negative(part(0));
    case ExpressionKind::kPositive: return part(0);
    case ExpressionKind::kBinary: {
      const Value left = part(0);
      const Value right = part(1);
      line_ = expression.line;
      return calculate(heap_, expression.binary, left, right);
    }
    case ExpressionKind::kConcat: return evaluate_concat(expression, scope);
    case ExpressionKind::kCompare: return evaluate_compare(expression, scope);
    case ExpressionKind::kAnd: {
      const Value left = part(0);
      return truth(left) ? part(1) : left;
    }
    case ExpressionKind::kOr: {
      const Value left = part(0);
      return truth(left) ? left : part(1);
    }
    case ExpressionKind::kConditional:
      if (truth(part(0))) return part(1);
      return expression.parts[2] == nullptr ? Value{} : part(2);
  }
  return {};
}

std::vector<Value> Interpreter::values(const std::vector<const Expression*>& expressions,
                                       std::size_t first, Scope& scope) {
  std::vector<Value> result;
  for (std::size_t i = first; i < expressions.size(); ++i) {
    result.push_back(evaluate(*expressions[i], scope));
  }
  return result;
}

Arguments Interpreter::arguments_of(const Expression& expression, Scope& scope) {
  Arguments arguments{.positional = values(expression.parts, 1, scope), .named = {}};
  for (const auto& [name, value] : expression.named) {
    heap_.look_at(name.size());
    arguments.named.emplace_back(name, evaluate(*value, scope));
  }
  return arguments;
}

Value Interpreter::evaluate_name(const Expression& expression, const Scope& scope) {
  const Value* found = scope.find(heap_, expression.name);
  return found != nullptr ? *found : Value{};
}

Value Interpreter::evaluate_dict(const Expression& expression, Scope& scope) {
  Dict* const dict = heap_.own(Dict{});
  for (std::size_t i = 0; i < expression.parts.size(); i += 2) {
    const Value key = evaluate(*expression.parts[i], scope);
    heap_.set(*dict, key, evaluate(*expression.parts[i + 1], scope));
  }
  return {.data = dict};
}

Value Interpreter::evaluate_attribute(const Expression& expression, const Value& value) {
  line_ = expression.line;
  if (value.is_undefined()) fail("'" + described(*expression.parts[0]) + "' is undefined");
  if (!has_method(value, expression.name)) return attribute(heap_, value, expression.name);
  return {.data = heap_.own(
              Callable{.name = expression.name,
                       .call = [this, value, name = expression.name](const Arguments& arguments) {
                         return call_method(heap_, value, name, arguments);
                       }})};
}

Value Interpreter::evaluate_slice(const Expression& expression, Scope& scope) {
  const Value value = evaluate(*expression.parts[0], scope);
  const auto bound = [&](std::size_t i) -> std::optional<std::int64_t> {
    if (expression.parts[i] == nullptr) return std::nullopt;
    const Value given = evaluate(*expression.parts[i], scope);
    line_ = expression.line;
    if (given.is<None>()) return std::nullopt;
    if (!given.is_integer())
      fail("a slice takes whole numbers, not " + std::string(type_name(given)));
    return given.integer();
  };
  return slice(heap_, value, {.begin = bound(1), .end = bound(2), .step = bound(3)});
}

Value Interpreter::evaluate_call(const Expression& expression, Scope& scope) {
  const Expression& target = *expression.parts[0];
  if (target.kind != ExpressionKind::kAttribute) {
    const Value function = evaluate(target, scope);
    const Arguments arguments = arguments_of(expression, scope);
    line_ = expression.line;
    return call(target, function, arguments);
  }
  const Value object = evaluate(*target.parts[0], scope);
  const Arguments arguments = arguments_of(expression, scope);
  line_ = expression.line;
  if (has_method(object, target.name)) return call_method(heap_, object, target.name, arguments);
  return call(target, evaluate_attribute(target, object), arguments);
}

Value Interpreter::call(const Expression& target, const Value& function,
                        const Arguments& arguments) {
  if (!function.is<Callable*>()) {
    fail("'" + described(target) + "' is no function, but " + std::string(type_name(function)));
  }
  return function.get<Callable*>()->call(arguments);
}

Value Interpreter::evaluate_filter(const Expression& expression, Scope& scope) {
  const Value input = evaluate(*expression.parts[0], scope);
  const Arguments arguments = arguments_of(expression, scope);
  line_ = expression.line;
  if (expression.filter == nullptr) fail("filter '" + expression.name + "' is not supported");
  return expression.filter(heap_, input, arguments);
}

Value Interpreter::evaluate_test(const Expression& expression, Scope& scope) {
  const Value value = evaluate(*expression.parts[0], scope);
  const Arguments arguments = arguments_of(expression, scope);
  line_ = expression.line;
  if (expression.test == nullptr) fail("test '" + expression.name + "' is not supported");
  return {.data = expression.test(heap_, value, arguments)};
}

Value Interpreter::evaluate_compare(const Expression& expression, Scope& scope) {
  Value left = evaluate(*expression.parts[0], scope);
  for (std::size_t i = 0; i < expression.comparisons.size(); ++i) {
    Value right = evaluate(*expression.parts[i + 1], scope);
    line_ = expression.line;
    if (!compare(heap_, expression.comparisons[i], left, right)) return {.data = false};
    left = std::move(right);
  }
  return {.data = true};
}

Value Interpreter::evaluate_concat(const Expression& expression, Scope& scope) {
  TextBuilder out(heap_);
  for (const Expression* part : expression.parts) print(out, heap_, evaluate(*part, scope));
  return out.value();
}

}  // namespace strata::chat
