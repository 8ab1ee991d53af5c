// Filters of strings, numbers and single values.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "chat/arguments.h"
#include "chat/filters.h"
#include "chat/format.h"
#include "chat/operators.h"
#include "chat/print.h"
#include "chat/text_functions.h"
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

Value trim(Heap& heap, const Value& input, const Arguments& arguments) {
  const auto [characters] = bind<1>("trim", arguments, {"chars"});
  return strip(heap, to_text(heap, input).text(),
               is_given(characters) ? &text_argument("trim", *characters) : nullptr, Sides{});
}

template <LetterCase kCase>
Value letter_case(Heap& heap, const Value& input, const Arguments& arguments) {
  expect_no_arguments("upper, lower, capitalize, title", arguments);
  return change_case(heap, to_text(heap, input).text(), kCase);
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
  const Value lines = split_lines(heap, all.text());
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
  return result.value();
}

Value format_filter(Heap& heap, const Value& input, const Arguments& arguments) {
  if (!arguments.named.empty()) fail("format() takes no named values");
  return format_percent(heap, to_text(heap, input), heap.tuple(arguments.positional));
}

Value length_filter(Heap& heap, const Value& input, const Arguments& arguments) {
  expect_no_arguments("length", arguments);
  return {.data = length(heap, input)};
}

/// Reads a number that fills a text, but for white space around it.
std::optional<double> number_in(Heap& heap, const Value& text) {
  const Value stripped = strip(heap, text.text(), nullptr, Sides{});
  const std::string& bytes = stripped.text().bytes();
  heap.look_at(bytes.size());
  double number = 0;
  const char* const begin = bytes.data() + (bytes.starts_with('+') ? 1 : 0);
  const char* const end = bytes.data() + bytes.size();
  const auto result = std::from_chars(begin, end, number);
  if (result.ec != std::errc{} || result.ptr != end) return std::nullopt;
  return number;
}

std::optional<std::int64_t> whole_part(double number) {
  constexpr double kBeyond = 9223372036854775808.0;  // 2^63
  if (!(std::fabs(number) < kBeyond)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

Value int_filter(Heap& heap, const Value& input, const Arguments& arguments) {
  const auto [fallback] = bind<1>("int", arguments, {"default"});
  const Value otherwise = fallback != nullptr ? *fallback : Value{.data = std::int64_t{0}};
  if (input.is_undefined()) fail("int() of something that is undefined");
  if (input.is_large()) return input;
  if (input.is_integer()) return {.data = input.integer(), .origin = input.origin};
  std::optional<double> number;
  if (input.is<double>()) number = input.get<double>();
  if (input.is_text()) number = number_in(heap, input);
  const std::optional<std::int64_t> whole = number ? whole_part(*number) : std::nullopt;
  return whole ? Value{.data = *whole} : otherwise;
}

Value float_filter(Heap& heap, const Value& input, const Arguments& arguments) {
  const auto [fallback] = bind<1>("float", arguments, {"default"});
  const Value otherwise = fallback != nullptr ? *fallback : Value{.data = 0.0};
  if (input.is_undefined()) fail("float() of something that is undefined");
  if (input.is_number()) return {.data = input.real(), .origin = input.origin};
  const std::optional<double> number = input.is_text() ? number_in(heap, input) : std::nullopt;
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
