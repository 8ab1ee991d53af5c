// Runs the tree of a template. One interpreter renders once. It goes through the tree by recursion,
// as deep as the heap's limits allow, and knows at each moment the line that it is at, for errors.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/heap.h"
#include "chat/syntax_tree.h"
#include "chat/value.h"

namespace strata::chat {

/// What raise_exception() throws: the template refuses the conversation.
class RaisedByTemplate : public TemplateFailure {
 public:
  using TemplateFailure::TemplateFailure;
};

/// The variables of a statement's body and, through `parent`, those around it. Names belong to the
/// tree or to the caller.
struct Scope {
  const Scope* parent = nullptr;
  std::vector<std::pair<std::string_view, Value>> variables{};

  void set(Heap& heap, std::string_view name, Value value);
  /// Returns a variable of this scope or of one around it, or null.
  [[nodiscard]] const Value* find(Heap& heap, std::string_view name) const;
};

using Variables = std::vector<std::pair<std::string, Value>>;

class Interpreter {
 public:
  Interpreter(const SyntaxTree& tree, Heap& heap) : tree_(tree), heap_(heap) {}

  /// Returns what the template writes. `globals` and `variables` must live as long as the heap;
  /// of two of one name the variable counts.
  [[nodiscard]] TracedText run(const Variables& globals, const Variables& variables);
  /// Returns the line that was worked on last.
  [[nodiscard]] int line() const { return line_; }

 private:
  /// Where a body goes on after a statement.
  enum class Flow { kNext, kBreak, kContinue };
  /// Counts how deep the recursion is.
  class Level {
   public:
    explicit Level(Interpreter& interpreter);
    ~Level() { --interpreter_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Interpreter& interpreter_;
  };

  // Statements, in interpreter.cpp.
  Flow run(const Block& block, Scope& scope, TextBuilder& out);
  Flow run(const Statement& statement, Scope& scope, TextBuilder& out);
  Flow run_if(const Statement& statement, Scope& scope, TextBuilder& out);
  Flow run_for(const Statement& statement, Scope& scope, TextBuilder& out);
  void run_with(const Statement& statement, Scope& scope, TextBuilder& out);
  void run_generation(const Statement& statement, Scope& scope, TextBuilder& out);
  void run_call_block(const Statement& statement, Scope& scope, TextBuilder& out);
  [[nodiscard]] std::vector<Value> loop_items(const Statement& statement, Scope& scope);
  /// Runs a body in a scope of its own and returns what it wrote, through filters if there are any.
  [[nodiscard]] Value captured(const Statement& statement, Scope& scope);
  void assign(const Expression& target, const Value& value, Scope& scope);
  void assign_attribute(const Expression& target, const Value& value, Scope& scope);
  [[nodiscard]] Scope& new_scope(const Scope& parent);
  /// Makes a function of a macro, or of the body of a call block.
  [[nodiscard]] Value macro(const Statement& statement, Scope& scope);
  [[nodiscard]] Value call_macro(const Statement& statement, const Scope& closure,
                                 const Arguments& arguments);
  void bind_parameters(const Statement& statement, Scope& scope, const Arguments& arguments);

  // Expressions, in evaluate.cpp.
  [[nodiscard]] Value evaluate(const Expression& expression, Scope& scope);
  [[nodiscard]] Value evaluate_name(const Expression& expression, const Scope& scope);
  [[nodiscard]] Value evaluate_dict(const Expression& expression, Scope& scope);
  [[nodiscard]] Value evaluate_attribute(const Expression& expression, const Value& value);
  [[nodiscard]] Value evaluate_slice(const Expression& expression, Scope& scope);
  [[nodiscard]] Value evaluate_call(const Expression& expression, Scope& scope);
  [[nodiscard]] Value evaluate_filter(const Expression& expression, Scope& scope);
  [[nodiscard]] Value evaluate_test(const Expression& expression, Scope& scope);
  [[nodiscard]] Value evaluate_compare(const Expression& expression, Scope& scope);
  [[nodiscard]] Value evaluate_concat(const Expression& expression, Scope& scope);
  [[nodiscard]] Value call(const Expression& target, const Value& function,
                           const Arguments& arguments);
  [[nodiscard]] std::vector<Value> values(const std::vector<const Expression*>& expressions,
                                          std::size_t first, Scope& scope);
  [[nodiscard]] Arguments arguments_of(const Expression& expression, Scope& scope);

  const SyntaxTree& tree_;
  Heap& heap_;
  std::deque<Scope> scopes_;  ///< live as long as the interpreter: macros refer to them
  Value body_;                ///< what kBody stands for
  std::size_t depth_ = 0;
  int line_ = 1;
};

/// Returns the functions that every template has: raise_exception, namespace, range, dict and
/// strftime_now, which takes `now_s`, seconds since 1970, or the clock's time if it is absent.
[[nodiscard]] Variables make_globals(Heap& heap, std::optional<std::int64_t> now_s);

}  // namespace strata::chat
