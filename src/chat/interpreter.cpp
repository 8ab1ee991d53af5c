// Runs statements. Bodies of loops, macros and blocks have scopes of their own, those of `if` have
// none, as in Jinja: what is set within a loop is gone after it.

#include "chat/interpreter.h"

#include <algorithm>

#include "chat/operators.h"
#include "chat/print.h"

namespace strata::chat {

namespace {

/// Returns the bytes that it takes to see whether two names are one: a template may have many
/// names, and long ones.
std::size_t bytes_compared(std::string_view known, std::string_view name) {
  constexpr std::size_t kSizes = 4;
  return kSizes + (known.size() == name.size() ? name.size() : 0);
}

/// Returns the variable of a name, or the end. Adds the bytes that were looked at for it.
auto find_variable(auto& variables, std::string_view name, std::size_t& compared) {
  return std::find_if(variables.begin(), variables.end(), [&](const auto& variable) {
    compared += bytes_compared(variable.first, name);
    return variable.first == name;
  });
}

}  // namespace

void Scope::set(Heap& heap, std::string_view name, Value value) {
  std::size_t compared = 0;
  const auto held = find_variable(variables, name, compared);
  heap.look_at(compared);
  if (held != variables.end()) {
    held->second = std::move(value);
    return;
  }
  heap.charge(2 * sizeof(variables[0]));  // room for more is made as well
  variables.emplace_back(name, std::move(value));
}

const Value* Scope::find(Heap& heap, std::string_view name) const {
  std::size_t compared = 0;
  const Value* found = nullptr;
  for (const Scope* scope = this; scope != nullptr && found == nullptr; scope = scope->parent) {
    const auto held = find_variable(scope->variables, name, compared);
    if (held != scope->variables.end()) found = &held->second;
  }
  heap.look_at(compared);
  return found;
}

Interpreter::Level::Level(Interpreter& interpreter) : interpreter_(interpreter) {
  if (interpreter_.depth_ == interpreter_.heap_.limits().depth) {
    fail("macros and expressions call each other more than " + std::to_string(interpreter_.depth_) +
         " levels deep");
  }
  ++interpreter_.depth_;
}

TracedText Interpreter::run(const Variables& globals, const Variables& variables) {
  Scope& scope = scopes_.emplace_back();
  for (const auto& [name, value] : globals) scope.set(heap_, name, value);
  for (const auto& [name, value] : variables) scope.set(heap_, name, value);
  TextBuilder out(heap_);
  run(tree_.body, new_scope(scope), out);
  return out.take();
}

Scope& Interpreter::new_scope(const Scope& parent) {
  heap_.charge(sizeof(Scope));
  return scopes_.emplace_back(Scope{.parent = &parent});
}

Interpreter::Flow Interpreter::run(const Block& block, Scope& scope, TextBuilder& out) {
  const Level level(*this);
  for (const Statement* statement : block) {
    const Flow flow = run(*statement, scope, out);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const Statement& statement, Scope& scope, TextBuilder& out) {
  heap_.step();
  line_ = statement.line;
  switch (statement.kind) {
    case StatementKind::kText: out.append(statement.text.text()); break;
    case StatementKind::kOutput: {
      const Value value = evaluate(*statement.expression, scope);
      line_ = statement.line;
      print(out, heap_, value);
      break;
    }
    case StatementKind::kIf: return run_if(statement, scope, out);
    case StatementKind::kFor: return run_for(statement, scope, out);
    case StatementKind::kSet:
      assign(*statement.target, evaluate(*statement.expression, scope), scope);
      break;
    case StatementKind::kSetBlock:
      assign(*statement.target, captured(statement, scope), scope);
      break;
    case StatementKind::kMacro: scope.set(heap_, statement.name, macro(statement, scope)); break;
    case StatementKind::kCallBlock: run_call_block(statement, scope, out); break;
    case StatementKind::kFilterBlock: print(out, heap_, captured(statement, scope)); break;
    case StatementKind::kWith: run_with(statement, scope, out); break;
    case StatementKind::kGeneration: run_generation(statement, scope, out); break;
    case StatementKind::kBreak: return Flow::kBreak;
    case StatementKind::kContinue: return Flow::kContinue;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_if(const Statement& statement, Scope& scope, TextBuilder& out) {
  const Statement* branch = &statement;
  while (!truth(evaluate(*branch->expression, scope))) {
    const bool more =
        branch->otherwise.size() == 1 && branch->otherwise.front()->kind == StatementKind::kIf;
    if (!more) return run(branch->otherwise, scope, out);
    branch = branch->otherwise.front();
  }
  return run(branch->body, scope, out);
}

std::vector<Value> Interpreter::loop_items(const Statement& statement, Scope& scope) {
  std::vector<Value> items = elements(heap_, evaluate(*statement.expression, scope));
  if (statement.condition == nullptr) return items;
  std::vector<Value> kept;
  for (Value& item : items) {
    Scope& inner = new_scope(scope);
    assign(*statement.target, item, inner);
    if (truth(evaluate(*statement.condition, inner))) kept.push_back(std::move(item));
  }
  return kept;
}

Interpreter::Flow Interpreter::run_for(const Statement& statement, Scope& scope, TextBuilder& out) {
  Loop* const loop = heap_.own(Loop{.items = loop_items(statement, scope)});
  for (; loop->index < loop->items.size(); ++loop->index) {
    heap_.step();
    Scope& inner = new_scope(scope);
    inner.set(heap_, "loop", {.data = loop});
    assign(*statement.target, loop->items[loop->index], inner);
    if (run(statement.body, inner, out) == Flow::kBreak) break;
  }
  if (!loop->items.empty()) return Flow::kNext;
  return run(statement.otherwise, new_scope(scope), out);
}

void Interpreter::run_with(const Statement& statement, Scope& scope, TextBuilder& out) {
  Scope& inner = new_scope(scope);
  for (const auto& [name, expression] : statement.assignments) {
    inner.set(heap_, name, evaluate(*expression, scope));
  }
  run(statement.body, inner, out);
}

void Interpreter::run_generation(const Statement& statement, Scope& scope, TextBuilder& out) {
  TextBuilder inner(heap_);
  run(statement.body, new_scope(scope), inner);
  TracedText text = inner.take();
  text.mark_generated();
  out.append(text);
}

Value Interpreter::captured(const Statement& statement, Scope& scope) {
  TextBuilder inner(heap_);
  run(statement.body, new_scope(scope), inner);
  body_ = inner.value();
  return evaluate(*statement.expression, scope);
}

void Interpreter::assign(const Expression& target, const Value& value, Scope& scope) {
  if (target.kind == ExpressionKind::kAttribute) return assign_attribute(target, value, scope);
  if (target.kind == ExpressionKind::kName) return scope.set(heap_, target.name, value);
  const std::vector<Value> parts = elements(heap_, value);
  line_ = target.line;
  if (parts.size() != target.parts.size()) {
    fail(std::to_string(parts.size()) + " values do not fit " +
         std::to_string(target.parts.size()) + " names");
  }
  for (std::size_t i = 0; i < parts.size(); ++i) assign(*target.parts[i], parts[i], scope);
}

void Interpreter::assign_attribute(const Expression& target, const Value& value, Scope& scope) {
  const Value object = evaluate(*target.parts[0], scope);
  line_ = target.line;
  if (!object.is<Namespace*>()) {
    fail("'" + described(*target.parts[0]) + "' is no namespace; only their attributes are set");
  }
  if (target.name.starts_with('_')) fail("a namespace's attributes may not begin with '_'");
  heap_.set(object.get<Namespace*>()->attributes, heap_.text(target.name), value);
}

Value Interpreter::macro(const Statement& statement, Scope& scope) {
  heap_.charge(statement.name.size());
  return {.data =
              heap_.own(Callable{.name = statement.name,
                                 .call = [this, &statement, &scope](const Arguments& arguments) {
                                   return call_macro(statement, scope, arguments);
                                 }})};
}

void Interpreter::run_call_block(const Statement& statement, Scope& scope, TextBuilder& out) {
  const Expression& called = *statement.expression;
  const Value function = evaluate(*called.parts[0], scope);
  Arguments arguments = arguments_of(called, scope);
  arguments.named.emplace_back("caller", macro(statement, scope));
  print(out, heap_, call(*called.parts[0], function, arguments));
}

Value Interpreter::call_macro(const Statement& statement, const Scope& closure,
                              const Arguments& arguments) {
  Scope& scope = new_scope(closure);
  bind_parameters(statement, scope, arguments);
  TextBuilder out(heap_);
  run(statement.body, scope, out);
  return out.value();
}

void Interpreter::bind_parameters(const Statement& statement, Scope& scope,
                                  const Arguments& arguments) {
  const std::vector<Parameter>& parameters = statement.parameters;
  if (arguments.positional.size() > parameters.size()) {
    fail("macro '" + statement.name + "' takes at most " + std::to_string(parameters.size()) +
         " arguments");
  }
  constexpr std::size_t kNameBytes = 16;  // looked at to compare two
  heap_.look_at(kNameBytes * parameters.size() * arguments.named.size());
  for (const auto& [name, value] : arguments.named) {
    const bool known = name == "caller" || std::any_of(parameters.begin(), parameters.end(),
                                                       [&wanted = name](const Parameter& one) {
                                                         return one.name == wanted;
                                                       });
    if (!known) fail("macro '" + statement.name + "' has no argument '" + name + "'");
    scope.set(heap_, name, value);
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    const bool named = std::any_of(arguments.named.begin(), arguments.named.end(),
                                   [&](const auto& one) { return one.first == parameter.name; });
    if (i < arguments.positional.size()) {
      if (named) fail("macro '" + statement.name + "' is given '" + parameter.name + "' twice");
      scope.set(heap_, parameter.name, arguments.positional[i]);
    } else if (!named) {
      scope.set(heap_, parameter.name,
                parameter.fallback == nullptr ? Value{} : evaluate(*parameter.fallback, scope));
    }
  }
}

}  // namespace strata::chat
