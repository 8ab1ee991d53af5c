// Has the filters of strings, numbers and single values.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "chat/arguments.h"
#include "chat/filters.h"
#include "chat/format.h"
#include "chat/number_base.h"
#include "chat/operators.h"
#include "chat/print.h"
#include "chat/text_functions.h"
#include "chat/whole_number.h"
#include "strata/base/text.h"

namespace strata::chat {

namespace {

constexpr std::int64_t kMostIndent = 1000;

bool is_given(const Value* argument) { return argument != nullptr && !argument->is<None>(); }

std::string copied(Heap& heap, const TracedText& text) {
  heap.charge(text.size());
  return text.bytes();
}

/// Returns what an indent argument stands for: so many blanks, or the string itself.
std::string indentation(Heap& heap, std::string_view function, const Value& value) {
  if (value.is_text()) return copied(heap, value.text());
  const std::int64_t width = std::max<std::int64_t>(integer_argument(function, value), 0);
  if (width > kMostIndent) fail(std::string(function) + "() indents by too much");
  return std::string(static_cast<std::size_t>(width), ' ');
}

Value tojson(Heap& heap, const Value& input, const Arguments& arguments) {
  const auto [ascii, indent, separators, sort] =
      bind<4>("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = ascii != nullptr && truth(*ascii);
  style.sort_keys = sort != nullptr && truth(*sort);
  if (is_given(indent)) {
    style.multiline = true;
    style.indent = indentation(heap, "tojson", *indent);
    style.item_separator = ",";
  }
  if (is_given(separators)) {
    const std::vector<Value> two = elements(heap, *separators);
    if (two.size() != 2) fail("tojson() takes two separators");
    style.item_separator = copied(heap, text_argument("tojson", two[0]));
    style.key_separator = copied(heap, text_argument("tojson", two[1]));
  }
  return to_json(heap, input, style);
}

Value string(Heap& heap, const Value& input, const Arguments& arguments) {
  expect_no_arguments("string", arguments);
  return to_text(heap, input);
}

Value safe(Heap& heap, const Value& input, const Arguments& arguments) {
  Value text = string(heap, input, arguments);
  text.markup = true;
  return text;
}

/// Marks a text as what it was made of: what is safe stays so.
Value as_safe_as(const Value& input, Value text) {
  text.markup = input.markup;
  return text;
}

Value trim(Heap& heap, const Value& input, const Arguments& arguments) {
  const auto [characters] = bind<1>("trim", arguments, {"chars"});
  return as_safe_as(
      input, strip(heap, to_text(heap, input).text(),
                   is_given(characters) ? &text_argument("trim", *characters) : nullptr, Sides{}));
}

template <LetterCase kCase>
Value letter_case(Heap& heap, const Value& input, const Arguments& arguments) {
  expect_no_arguments("upper, lower, capitalize, title", arguments);
  Value text = change_case(heap, to_text(heap, input).text(), kCase);
  text.markup = input.markup && kCase != LetterCase::kWords;  // title makes a new text
  return text;
}

Value replace_filter(Heap& heap, const Value& input, const Arguments& arguments) {
  const auto [old, fresh, count] = bind<3>("replace", arguments, {"old", "new", "count"}, 2);
  return replace(heap, to_text(heap, input).text(), to_text(heap, *old).text(),
                 to_text(heap, *fresh).text(),
                 is_given(count) ? integer_argument("replace", *count) : -1);
}

Value default_filter(Heap& heap, const Value& input, const Arguments& arguments) {
  const auto [fallback, boolean] = bind<2>("default", arguments, {"default_value", "boolean"});
  const bool missing =
      input.is_undefined() || (boolean != nullptr && truth(*boolean) && !truth(input));
  if (!missing) return input;
  return fallback != nullptr ? *fallback : heap.text("");
}

Value indent(Heap& heap, const Value& input, const Arguments& arguments) {
  const auto [width, first, blank] = bind<3>("indent", arguments, {"width", "first", "blank"});
  const std::string by =
      width != nullptr ? indentation(heap, "indent", *width) : std::string(4, ' ');
  const bool blank_lines = blank != nullptr && truth(*blank);
  // A line end at the text's end begins a last, empty line.
  TextBuilder ended(heap);
  print(ended, heap, input);
  ended.append("\n");
  const Value all = ended.value();
  const Value lines = split_lines(heap, all.text(), LineEnds::kLeftOut);
  TextBuilder result(heap);
  const std::vector<Value>& parts = lines.get<List*>()->items;
  std::size_t line_end = 0;  // in `all`
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) result.append("\n", all.text().origin_at(line_end++));
    line_end += parts[i].text().size();
    const bool indented =
        i == 0 ? first != nullptr && truth(*first) : blank_lines || !parts[i].text().empty();
    if (indented) result.append(by);
    result.append(parts[i].text());
  }
  return as_safe_as(input, result.value());
}

Value format_filter(Heap& heap, const Value& input, const Arguments& arguments) {
  if (!arguments.named.empty()) fail("format() takes no named values");
  return format_percent(heap, to_text(heap, input), heap.tuple(arguments.positional));
}

Value length_filter(Heap& heap, const Value& input, const Arguments& arguments) {
  expect_no_arguments("length", arguments);
  return {.data = length(heap, input)};
}

/// Returns a text as int() and float() of Python read it: without white space around it, and
/// without single underscores between digits; nothing if it cannot be a number.
std::optional<std::string> plain_number(Heap& heap, const Value& text) {
  constexpr std::size_t kMostDigits = 4300;  // of what Python makes a number
  const Value stripped = strip(heap, text.text(), nullptr, Sides{});
  const std::string& bytes = stripped.text().bytes();
  heap.look_at(bytes.size());
  const auto digit = [&](std::size_t at) {
    return at < bytes.size() && bytes[at] >= '0' && bytes[at] <= '9';
  };
  std::string plain;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    if (bytes[at] != '_') plain += bytes[at];
    if (bytes[at] == '_' && (at == 0 || !digit(at - 1) || !digit(at + 1))) return std::nullopt;
  }
  if (plain.empty() || plain.size() > kMostDigits || plain.find('\0') != plain.npos) {
    return std::nullopt;
  }
  return plain;
}

/// Returns the number that a text is, in digits with a fraction or an exponent, or by its name.
std::optional<double> real_in(const std::string& plain) {
  constexpr std::string_view kSigns = "+-";
  const bool sign = kSigns.find(plain[0]) != kSigns.npos;
  const std::string_view size = std::string_view(plain).substr(sign ? 1 : 0);
  const bool digits = size.find_first_not_of("0123456789.eE+-") == size.npos;
  const bool named = size.size() == 3 || size.size() == 8;  // inf, nan, infinity
  const bool begins = !size.empty() && kSigns.find(size[0]) == kSigns.npos;
  if (!begins || (!digits && !named) || size.find_first_of("xX(") != size.npos) return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(plain.c_str(), &end);
  if (end != plain.c_str() + plain.size()) return std::nullopt;
  return number;
}

Value int_of_text(Heap& heap, const Value& text, std::int64_t base, const Value& otherwise) {
  constexpr std::int64_t kUsualBase = 10;
  if (base != kUsualBase) {
    const Value stripped = strip(heap, text.text(), nullptr, Sides{});
    const auto whole = whole_in_base(heap, stripped.text().bytes(), base);
    if (whole) return whole_number(*whole);
  }
  const std::optional<std::string> plain = plain_number(heap, text);
  if (!plain) return otherwise;
  const std::string_view digits = std::string_view(*plain).substr((*plain)[0] == '+' ? 1 : 0);
  const std::string_view size = digits.substr(digits.starts_with('-') ? 1 : 0);
  const bool both = digits.size() < plain->size() && size.size() < digits.size();  // "+-"
  const bool is_whole = !size.empty() && size.find_first_not_of("0123456789") == size.npos;
  if (base == kUsualBase && is_whole && !both) return whole_number(digits);
  const std::optional<double> real = real_in(*plain);
  return real && std::isfinite(*real) ? whole_number(*real) : otherwise;
}

Value int_filter(Heap& heap, const Value& input, const Arguments& arguments) {
  const auto [fallback, base] = bind<2>("int", arguments, {"default", "base"});
  const Value otherwise = fallback != nullptr ? *fallback : Value{.data = std::int64_t{0}};
  const std::int64_t chosen = base != nullptr ? integer_argument("int", *base) : 10;
  if (input.is_undefined()) fail("int() of something that is undefined");
  if (input.is_large()) return input;
  if (input.is_integer()) return {.data = input.integer(), .origin = input.origin};
  if (input.is_text()) return int_of_text(heap, input, chosen, otherwise);
  const bool real = input.is<double>() && std::isfinite(input.get<double>());
  return real ? whole_number(input.get<double>()) : otherwise;
}

Value float_filter(Heap& heap, const Value& input, const Arguments& arguments) {
  const auto [fallback] = bind<1>("float", arguments, {"default"});
  const Value otherwise = fallback != nullptr ? *fallback : Value{.data = 0.0};
  if (input.is_undefined()) fail("float() of something that is undefined");
  if (input.is_number()) return {.data = input.real(), .origin = input.origin};
  const auto plain = input.is_text() ? plain_number(heap, input) : std::nullopt;
  const std::optional<double> number = plain ? real_in(*plain) : std::nullopt;
  return number ? Value{.data = *number} : otherwise;
}

Value abs_filter(Heap& heap, const Value& input, const Arguments& arguments) {
  expect_no_arguments("abs", arguments);
  if (!input.is_number()) fail("abs() takes a number, not " + std::string(type_name(input)));
  heap.step();
  return input.real() < 0 ? negative(input) : input;
}

Value round_filter(Heap& heap, const Value& input, const Arguments& arguments) {
  const auto [precision, method] = bind<2>("round", arguments, {"precision", "method"});
  if (!input.is_number()) fail("round() takes a number, not " + std::string(type_name(input)));
  heap.step();
  const std::int64_t digits = precision != nullptr ? integer_argument("round", *precision) : 0;
  const std::string how =
      method != nullptr ? copied(heap, text_argument("round", *method)) : "common";
  if (how == "common" && input.is_large() && digits >= 0) return input;
  if (how == "common" && input.is_integer() && digits >= 0) return {.data = input.integer()};
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled = input.real() * scale;
  if (how == "common") return {.data = std::nearbyint(scaled) / scale};
  if (how == "ceil") return {.data = std::ceil(scaled) / scale};
  if (how == "floor") return {.data = std::floor(scaled) / scale};
  fail("round() has the methods common, ceil and floor, not '" + printable_name(shortened(how)) +
       "'");
}

}  // namespace

Filter find_text_filter(std::string_view name) {
  struct Named {
    std::string_view name;
    Filter filter;
  };
  constexpr std::array<Named, 19> kFilters{{{"tojson", &tojson},
                                            {"string", &string},
                                            {"safe", &safe},
                                            {"trim", &trim},
                                            {"upper", &letter_case<LetterCase::kUpper>},
                                            {"lower", &letter_case<LetterCase::kLower>},
                                            {"capitalize", &letter_case<LetterCase::kCapitalized>},
                                            {"title", &letter_case<LetterCase::kWords>},
                                            {"replace", &replace_filter},
                                            {"default", &default_filter},
                                            {"d", &default_filter},
                                            {"indent", &indent},
                                            {"format", &format_filter},
                                            {"length", &length_filter},
                                            {"count", &length_filter},
                                            {"int", &int_filter},
                                            {"float", &float_filter},
                                            {"abs", &abs_filter},
                                            {"round", &round_filter}}};
  const auto* const found = std::find_if(kFilters.begin(), kFilters.end(),
                                         [&](const Named& one) { return one.name == name; });
  return found == kFilters.end() ? nullptr : found->filter;
}

Filter find_filter(std::string_view name) {
  const Filter filter = find_text_filter(name);
  return filter != nullptr ? filter : find_list_filter(name);
}

}  // namespace strata::chat
