// A template as a tree. All nodes belong to the tree and refer to each other by pointers, so a tree
// is freed without recursion however deep it is. It never changes after it was parsed: several
// threads render from it.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "chat/filters.h"
#include "chat/is_tests.h"
#include "chat/operators.h"
#include "chat/value.h"

namespace strata::chat {

enum class ExpressionKind {
  kConstant,     ///< `constant`
  kName,         ///< variable `name`
  kList,         ///< [parts...]
  kTuple,        ///< (parts...)
  kDict,         ///< {parts[0]: parts[1], parts[2]: parts[3], ...}
  kAttribute,    ///< parts[0].name
  kSubscript,    ///< parts[0][parts[1]]
  kSlice,        ///< parts[0][parts[1]:parts[2]:parts[3]], of which any of the last three is null
  kCall,         ///< parts[0](parts[1], ..., named...)
  kFilter,       ///< parts[0]|name(parts[1], ..., named...)
  kTest,         ///< parts[0] is name(parts[1], ..., named...)
  kNot,          ///< not parts[0]
  kNegative,     ///< -parts[0]
  kPositive,     ///< +parts[0]
  kBinary,       ///< parts[0] binary parts[1]
  kConcat,       ///< parts[0] ~ parts[1] ~ ...
  kCompare,      ///< parts[0] comparisons[0] parts[1] comparisons[1] ...
  kAnd,          ///< parts[0] and parts[1]
  kOr,           ///< parts[0] or parts[1]
  kConditional,  ///< parts[1] if parts[0] else parts[2], which may be null
  kBody,         ///< what the statement's body has written: the input of its filters
};

struct Expression {
  ExpressionKind kind = ExpressionKind::kConstant;
  int line = 0;
  std::string name{};
  Value constant{};
  std::vector<const Expression*> parts{};
  std::vector<std::pair<std::string, const Expression*>> named{};
  BinaryOperator binary{};
  std::vector<Comparison> comparisons{};
  Filter filter = nullptr;  ///< of kFilter; null if there is none of that name
  IsTest test = nullptr;    ///< of kTest; null if there is none of that name
};

enum class StatementKind {
  kText,         ///< `text`
  kOutput,       ///< {{ expression }}
  kIf,           ///< if expression: body, else: otherwise
  kFor,          ///< for target in expression if condition: body, else: otherwise
  kSet,          ///< set target = expression
  kSetBlock,     ///< set target: body, through the filters of expression
  kMacro,        ///< macro name(parameters): body
  kCallBlock,    ///< call(parameters) expression: body
  kFilterBlock,  ///< body, through the filters of expression
  kWith,         ///< with assignments: body
  kGeneration,   ///< body
  kBreak,
  kContinue,
};

struct Statement;
using Block = std::vector<const Statement*>;

/// A parameter of a macro; `fallback` is null if it has none.
struct Parameter {
  std::string name;
  const Expression* fallback = nullptr;
};

struct Statement {
  StatementKind kind = StatementKind::kText;
  int line = 0;
  Value text{};
  std::string name{};
  const Expression* target = nullptr;  ///< a name, an attribute of a namespace, or a tuple of such
  const Expression* expression = nullptr;
  const Expression* condition = nullptr;
  std::vector<Parameter> parameters{};
  std::vector<std::pair<std::string, const Expression*>> assignments{};
  Block body{};
  Block otherwise{};
};

struct SyntaxTree {
  std::deque<Expression> expressions;
  std::deque<Statement> statements;
  Block body;
  bool has_generation = false;  ///< whether {% generation %} stands anywhere
};

/// Returns an expression as messages show it: "messages[0].content".
[[nodiscard]] std::string described(const Expression& expression);

}  // namespace strata::chat
