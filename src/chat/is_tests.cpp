// Has a table of the language's tests. Types are told apart as Python does it: a bool is a number
// and an integer too.

#include "chat/is_tests.h"

#include <algorithm>
#include <array>

#include "chat/arguments.h"
#include "chat/filters.h"
#include "chat/operators.h"

namespace strata::chat {

namespace {

/// A test that asks nothing but the value.
template <bool (*kIs)(const Value&)>
bool plain(Heap& heap, const Value& value, const Arguments& arguments) {
  heap.step();
  expect_no_arguments("a test of types", arguments);
  return kIs(value);
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is<None>(); }
bool is_string(const Value& value) { return value.is_text(); }
bool is_mapping(const Value& value) { return value.is<Dict*>(); }
bool is_boolean(const Value& value) { return value.is<bool>(); }
bool is_bool_true(const Value& value) { return value.is<bool>() && value.get<bool>(); }
bool is_false(const Value& value) { return value.is<bool>() && !value.get<bool>(); }
bool is_integer(const Value& value) { return value.is_whole() && !value.is<bool>(); }
bool is_float(const Value& value) { return value.is<double>(); }
bool is_number(const Value& value) { return value.is_number(); }
bool is_callable(const Value& value) { return value.is<Callable*>(); }
bool is_iterable(const Value& value) {
  return value.is_undefined() || value.is_text() || value.is<List*>() || value.is<Dict*>() ||
         value.is<Loop*>();
}
bool is_sequence(const Value& value) {
  const bool view = value.is<List*>() && !value.get<List*>()->is_plain();
  return is_iterable(value) && !value.is<Loop*>() && (!view || value.get<List*>()->is_range);
}

std::int64_t remainder(Heap& heap, const Value& value, std::int64_t divisor) {
  return calculate(heap, BinaryOperator::kModulo,
                   {.data = integer_argument("odd, even, divisibleby", value)}, {.data = divisor})
      .integer();
}
bool odd(Heap& heap, const Value& value, const Arguments& arguments) {
  expect_no_arguments("odd", arguments);
  return remainder(heap, value, 2) == 1;
}
bool even(Heap& heap, const Value& value, const Arguments& arguments) {
  expect_no_arguments("even", arguments);
  return remainder(heap, value, 2) == 0;
}
bool divisible(Heap& heap, const Value& value, const Arguments& arguments) {
  const auto [divisor] = bind<1>("divisibleby", arguments, {"num"}, 1);
  return remainder(heap, value, integer_argument("divisibleby", *divisor)) == 0;
}

template <Comparison kOperator>
bool comparison(Heap& heap, const Value& value, const Arguments& arguments) {
  const auto [other] = bind<1>("a comparison", arguments, {"other"}, 1);
  return compare(heap, kOperator, value, *other);
}

bool same(Heap& heap, const Value& value, const Arguments& arguments) {
  const auto [other] = bind<1>("sameas", arguments, {"other"}, 1);
  if (value.is<List*>()) return other->is<List*>() && value.get<List*>() == other->get<List*>();
  if (value.is<Dict*>()) return other->is<Dict*>() && value.get<Dict*>() == other->get<Dict*>();
  return value.data.index() == other->data.index() && equal(heap, value, *other);
}

/// Says whether a text has letters and all of them are capitals, or small ones.
template <bool kCapitals>
bool letters_are(Heap& heap, const Value& value, const Arguments& arguments) {
  expect_no_arguments("upper, lower", arguments);
  const std::string& bytes = text_argument("upper, lower", value).bytes();
  heap.decode(bytes.size());
  const auto is_capital = [](char c) { return c >= 'A' && c <= 'Z'; };
  const auto is_small = [](char c) { return c >= 'a' && c <= 'z'; };
  const bool capitals = std::any_of(bytes.begin(), bytes.end(), is_capital);
  const bool small = std::any_of(bytes.begin(), bytes.end(), is_small);
  return kCapitals ? capitals && !small : small && !capitals;
}

template <bool kFilter>
bool is_known(Heap& heap, const Value& value, const Arguments& arguments) {
  heap.step();
  expect_no_arguments("filter, test", arguments);
  const std::string& name = text_argument("filter, test", value).bytes();
  return kFilter ? find_filter(name) != nullptr : find_test(name) != nullptr;
}

}  // namespace

IsTest find_test(std::string_view name) {
  struct Named {
    std::string_view name;
    IsTest test;
  };
  constexpr std::array<Named, 38> kTests{{
      {"defined", &plain<&is_defined>},
      {"undefined", &plain<&is_undefined>},
      {"none", &plain<&is_none>},
      {"string", &plain<&is_string>},
      {"mapping", &plain<&is_mapping>},
      {"boolean", &plain<&is_boolean>},
      {"true", &plain<&is_bool_true>},
      {"false", &plain<&is_false>},
      {"integer", &plain<&is_integer>},
      {"float", &plain<&is_float>},
      {"number", &plain<&is_number>},
      {"callable", &plain<&is_callable>},
      {"iterable", &plain<&is_iterable>},
      {"sequence", &plain<&is_sequence>},
      {"odd", &odd},
      {"even", &even},
      {"divisibleby", &divisible},
      {"upper", &letters_are<true>},
      {"lower", &letters_are<false>},
      {"filter", &is_known<true>},
      {"test", &is_known<false>},
      {"in", &comparison<Comparison::kIn>},
      {"==", &comparison<Comparison::kEqual>},
      {"eq", &comparison<Comparison::kEqual>},
      {"equalto", &comparison<Comparison::kEqual>},
      {"sameas", &same},
      {"!=", &comparison<Comparison::kNotEqual>},
      {"ne", &comparison<Comparison::kNotEqual>},
      {"<", &comparison<Comparison::kLess>},
      {"lt", &comparison<Comparison::kLess>},
      {"lessthan", &comparison<Comparison::kLess>},
      {"<=", &comparison<Comparison::kLessEqual>},
      {"le", &comparison<Comparison::kLessEqual>},
      {">", &comparison<Comparison::kGreater>},
      {"gt", &comparison<Comparison::kGreater>},
      {"greaterthan", &comparison<Comparison::kGreater>},
      {">=", &comparison<Comparison::kGreaterEqual>},
      {"ge", &comparison<Comparison::kGreaterEqual>},
  }};
  const auto* const found = std::find_if(kTests.begin(), kTests.end(),
                                         [&](const Named& one) { return one.name == name; });
  return found == kTests.end() ? nullptr : found->test;
}

}  // namespace strata::chat
