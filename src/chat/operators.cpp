// Compares values, looks for members and does arithmetic. Comparing goes into nested lists and
// dicts only as deep as the heap's limit.

#include "chat/operators.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "chat/format.h"
#include "chat/text_functions.h"
#include "chat/whole_number.h"

namespace strata::chat {

namespace {

std::string_view symbol(BinaryOperator op) {
  constexpr std::array<std::string_view, 7> kSymbols{"+", "-", "*", "/", "//", "%", "**"};
  return kSymbols[static_cast<std::size_t>(op)];
}

[[noreturn]] void refuse(std::string_view what, const Value& left, const Value& right) {
  fail("'" + std::string(what) + "' does not take " + std::string(type_name(left)) + " and " +
       std::string(type_name(right)));
}

[[noreturn]] void fail_too_large() { fail("a whole number does not fit 64 bits"); }

/// Sums, differences and products, which 128 bits hold.
Value exact(BinaryOperator op, std::int64_t a, std::int64_t b) {
  const __int128 left = a;
  const __int128 result = op == BinaryOperator::kAdd        ? left + b
                          : op == BinaryOperator::kSubtract ? left - b
                                                            : left * b;
  const auto small = static_cast<std::int64_t>(result);
  if (small == result) return {.data = small};
  std::string digits;
  for (__int128 rest = result; rest != 0; rest /= 10) {
    const auto digit = static_cast<int>(rest % 10);
    digits += static_cast<char>('0' + (digit < 0 ? -digit : digit));
  }
  if (result < 0) digits += '-';
  std::reverse(digits.begin(), digits.end());
  return whole_number(digits);
}

/// Rounds towards minus infinity, as Python does; b is neither 0 nor -1.
std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Value power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    return {.data = std::pow(static_cast<double>(base), static_cast<double>(exponent))};
  }
  if (base == 0 || base == 1) return {.data = exponent == 0 ? std::int64_t{1} : base};
  if (base == -1) return {.data = std::int64_t{exponent % 2 == 0 ? 1 : -1}};
  std::int64_t result = 1;
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(result, base, &result)) fail_too_large();
  }
  return {.data = result};
}

Value integers(BinaryOperator op, std::int64_t a, std::int64_t b) {
  const bool divides = op == BinaryOperator::kDivide || op == BinaryOperator::kFloorDivide ||
                       op == BinaryOperator::kModulo;
  if (divides && b == 0) fail("division by zero");
  switch (op) {
    case BinaryOperator::kDivide: return {.data = static_cast<double>(a) / static_cast<double>(b)};
    case BinaryOperator::kFloorDivide:
      if (b == -1) return exact(BinaryOperator::kSubtract, 0, a);
      return {.data = floor_divide(a, b)};
    case BinaryOperator::kModulo:
      return {.data = b == -1 ? std::int64_t{0} : a - floor_divide(a, b) * b};
    case BinaryOperator::kPower: return power(a, b);
    default: return exact(op, a, b);
  }
}

Value reals(BinaryOperator op, double a, double b) {
  const bool divides = op == BinaryOperator::kDivide || op == BinaryOperator::kFloorDivide ||
                       op == BinaryOperator::kModulo;
  if (divides && b == 0) fail("division by zero");
  switch (op) {
    case BinaryOperator::kAdd: return {.data = a + b};
    case BinaryOperator::kSubtract: return {.data = a - b};
    case BinaryOperator::kMultiply: return {.data = a * b};
    case BinaryOperator::kDivide: return {.data = a / b};
    case BinaryOperator::kFloorDivide: return {.data = std::floor(a / b)};
    case BinaryOperator::kModulo: return {.data = a - std::floor(a / b) * b};
    case BinaryOperator::kPower: return {.data = std::pow(a, b)};
  }
  return {};
}

Value repeat(Heap& heap, const Value& value, std::int64_t times) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  heap.step(count);
  if (value.is_text()) {
    TextBuilder result(heap);
    for (std::size_t i = 0; i < count; ++i) result.append(value.text());
    return result.value();
  }
  const List& list = *value.get<List*>();
  if (!list.items.empty()) heap.step(list.items.size() * std::min(count, heap.limits().steps));
  std::vector<Value> items;
  for (std::size_t i = 0; i < count; ++i) {
    heap.charge(list.items.size() * sizeof(Value));
    items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return list.tuple ? heap.tuple(std::move(items)) : heap.list(std::move(items));
}

/// Appends a string with the five characters that mean something in HTML replaced.
void append_escaped(TextBuilder& out, const TracedText& text) {
  const std::string& bytes = text.bytes();
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t found = std::min(bytes.find_first_of("&<>'\"", at), bytes.size());
    out.append(text, at, found);
    if (found == bytes.size()) return;
    const char c = bytes[found];
    out.append(c == '&'    ? "&amp;"
               : c == '<'  ? "&lt;"
               : c == '>'  ? "&gt;"
               : c == '\'' ? "&#39;"
                           : "&#34;",
               text.origin_at(found));
    at = found + 1;
  }
}

Value add_texts(Heap& heap, const Value& left, const Value& right) {
  TextBuilder result(heap);
  const bool markup = left.markup || right.markup;
  for (const Value* part : {&left, &right}) {
    if (markup && !part->markup) {
      append_escaped(result, part->text());
    } else {
      result.append(part->text());
    }
  }
  Value sum = result.value();
  sum.markup = markup;
  return sum;
}

Value add(Heap& heap, const Value& left, const Value& right) {
  if (left.is_text() && right.is_text()) return add_texts(heap, left, right);
  if (!left.is<List*>() || !right.is<List*>()) refuse("+", left, right);
  const List& first = *left.get<List*>();
  const List& second = *right.get<List*>();
  if (first.tuple != second.tuple || !first.is_plain() || !second.is_plain())
    refuse("+", left, right);
  heap.charge((first.items.size() + second.items.size()) * sizeof(Value));
  std::vector<Value> items = first.items;
  items.insert(items.end(), second.items.begin(), second.items.end());
  return first.tuple ? heap.tuple(std::move(items)) : heap.list(std::move(items));
}

bool equal_at(Heap& heap, const Value& left, const Value& right, std::size_t depth);

bool equal_items(Heap& heap, const List& left, const List& right, std::size_t depth) {
  const bool alike = left.tuple == right.tuple && left.is_range == right.is_range &&
                     left.is_plain() == right.is_plain();
  if (!alike || left.items.size() != right.items.size()) return false;
  for (std::size_t i = 0; i < left.items.size(); ++i) {
    if (!equal_at(heap, left.items[i], right.items[i], depth)) return false;
  }
  return true;
}

bool equal_items(Heap& heap, const Dict& left, const Dict& right, std::size_t depth) {
  if (left.items.size() != right.items.size()) return false;
  for (const auto& [key, value] : left.items) {
    const Value* other = find(heap, right, key);
    if (other == nullptr || !equal_at(heap, value, *other, depth)) return false;
  }
  return true;
}

bool equal_at(Heap& heap, const Value& left, const Value& right, std::size_t depth) {
  heap.step();
  if (depth == 0) fail("lists and dicts nest too deeply to be compared");
  if (left.is_number() && right.is_number()) {
    return left.is_whole() && right.is_whole() ? equal_whole(left, right)
                                               : left.real() == right.real();
  }
  if (left.data.index() != right.data.index()) return false;
  if (left.is_text()) {
    heap.look_at(left.text().size());
    return left.text().bytes() == right.text().bytes();
  }
  if (left.is<List*>()) {
    return equal_items(heap, *left.get<List*>(), *right.get<List*>(), depth - 1);
  }
  if (left.is<Dict*>()) {
    return equal_items(heap, *left.get<Dict*>(), *right.get<Dict*>(), depth - 1);
  }
  if (left.is<Namespace*>()) return left.get<Namespace*>() == right.get<Namespace*>();
  if (left.is<Loop*>()) return left.get<Loop*>() == right.get<Loop*>();
  if (left.is<Callable*>()) return left.get<Callable*>() == right.get<Callable*>();
  return true;  // undefined or none
}

bool less_at(Heap& heap, const Value& left, const Value& right, std::size_t depth) {
  heap.step();
  if (depth == 0) fail("lists nest too deeply to be compared");
  if (left.is_whole() && right.is_whole()) return less_whole(left, right);
  if (left.is_number() && right.is_number()) return left.real() < right.real();
  if (left.is_text() && right.is_text()) {
    heap.look_at(std::min(left.text().size(), right.text().size()));
    return left.text().bytes() < right.text().bytes();
  }
  const auto has_order = [](const Value& value) {
    return value.is<List*>() && value.get<List*>()->is_plain();
  };
  if (!has_order(left) || !has_order(right)) refuse("<", left, right);
  const std::vector<Value>& a = left.get<List*>()->items;
  const std::vector<Value>& b = right.get<List*>()->items;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (!equal(heap, a[i], b[i])) return less_at(heap, a[i], b[i], depth - 1);
  }
  return a.size() < b.size();
}

}  // namespace

bool equal(Heap& heap, const Value& left, const Value& right) {
  return equal_at(heap, left, right, heap.limits().depth);
}

bool less(Heap& heap, const Value& left, const Value& right) {
  return less_at(heap, left, right, heap.limits().depth);
}

bool contains(Heap& heap, const Value& haystack, const Value& needle) {
  if (haystack.is_text()) {
    if (!needle.is_text())
      fail("'in' a string takes a string, not " + std::string(type_name(needle)));
    heap.look_at(haystack.text().size());
    return search_for(heap, needle.text().bytes()).in(haystack.text().bytes()) != std::string::npos;
  }
  if (haystack.is<Dict*>()) return find(heap, *haystack.get<Dict*>(), needle) != nullptr;
  const std::vector<Value> items = elements(heap, haystack);
  return std::any_of(items.begin(), items.end(),
                     [&](const Value& item) { return equal(heap, item, needle); });
}

bool compare(Heap& heap, Comparison op, const Value& left, const Value& right) {
  switch (op) {
    case Comparison::kEqual: return equal(heap, left, right);
    case Comparison::kNotEqual: return !equal(heap, left, right);
    case Comparison::kLess: return less(heap, left, right);
    case Comparison::kGreater: return less(heap, right, left);
    case Comparison::kLessEqual: return less(heap, left, right) || equal(heap, left, right);
    case Comparison::kGreaterEqual: return less(heap, right, left) || equal(heap, left, right);
    case Comparison::kIn: return contains(heap, right, left);
    case Comparison::kNotIn: return !contains(heap, right, left);
  }
  return false;
}

Value calculate(Heap& heap, BinaryOperator op, const Value& left, const Value& right) {
  if (left.is_integer() && right.is_integer()) return integers(op, left.integer(), right.integer());
  if (left.is_whole() && right.is_whole()) {
    fail("'" + std::string(symbol(op)) + "' does not take whole numbers beyond 64 bits");
  }
  if (left.is_number() && right.is_number()) return reals(op, left.real(), right.real());
  const auto repeats = [](const Value& value) {
    return value.is_text() || (value.is<List*>() && value.get<List*>()->is_plain());
  };
  if (op == BinaryOperator::kAdd && repeats(left)) return add(heap, left, right);
  if (op == BinaryOperator::kModulo && left.is_text()) return format_percent(heap, left, right);
  if (op == BinaryOperator::kMultiply) {
    if (repeats(left) && right.is_integer()) return repeat(heap, left, right.integer());
    if (repeats(right) && left.is_integer()) return repeat(heap, right, left.integer());
  }
  refuse(symbol(op), left, right);
}

Value negative(const Value& value) {
  if (value.is_whole()) return negative_whole(value);
  if (value.is<double>()) return {.data = -value.get<double>()};
  fail("'-' does not take " + std::string(type_name(value)));
}

}  // namespace strata::chat
