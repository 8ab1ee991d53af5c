// What the operators of the language do with values, as Python defines them: arithmetic,
// comparisons, membership, attributes and subscripts. Whatever Python raises a TypeError for throws
// TemplateFailure here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/heap.h"
#include "chat/value.h"

namespace strata::chat {

/// Operators between two values, as they are written.
enum class BinaryOperator { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
enum class Comparison {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};

[[nodiscard]] Value calculate(Heap& heap, BinaryOperator op, const Value& left, const Value& right);
[[nodiscard]] bool compare(Heap& heap, Comparison op, const Value& left, const Value& right);
[[nodiscard]] Value negative(const Value& value);
/// `==`
[[nodiscard]] bool equal(Heap& heap, const Value& left, const Value& right);
/// `<`, between numbers, between strings or between lists.
[[nodiscard]] bool less(Heap& heap, const Value& left, const Value& right);
/// `needle in haystack`
[[nodiscard]] bool contains(Heap& heap, const Value& haystack, const Value& needle);

/// Returns what has a key in a dict, or nothing.
[[nodiscard]] const Value* find(Heap& heap, const Dict& dict, const Value& key);
[[nodiscard]] const Value* find(const Dict& dict, std::string_view key);
/// `value.name` or, if that is nothing, value["name"]; undefined if there is neither. Methods are
/// not among the attributes (see methods.h).
[[nodiscard]] Value attribute(Heap& heap, const Value& value, const std::string& name);
/// `value[index]`; undefined if there is no such element.
[[nodiscard]] Value subscript(Heap& heap, const Value& value, const Value& index);

/// The parts of `value[begin:end:step]`; those left out are absent.
struct Slice {
  std::optional<std::int64_t> begin{};
  std::optional<std::int64_t> end{};
  std::optional<std::int64_t> step{};
};
[[nodiscard]] Value slice(Heap& heap, const Value& value, const Slice& bounds);

/// Returns the elements that `for` goes through: of a list, the keys of a dict, the characters of a
/// string. Throws for what cannot be gone through.
[[nodiscard]] std::vector<Value> elements(Heap& heap, const Value& value);
/// `value|length`
[[nodiscard]] std::int64_t length(Heap& heap, const Value& value);

/// The attributes of `loop`: index, last, previtem and so on.
[[nodiscard]] Value loop_attribute(const Loop& loop, const std::string& name);

}  // namespace strata::chat
