// Has a table of methods for each type: the name, and the function that does it.

#include "chat/methods.h"

#include <algorithm>
#include <array>

#include "chat/arguments.h"
#include "chat/format.h"
#include "chat/operators.h"
#include "chat/text_functions.h"
#include "chat/unicode.h"

namespace strata::chat {

namespace {

using Method = Value (*)(Heap& heap, const Value& self, const Arguments& arguments);
struct NamedMethod {
  std::string_view name;
  Method call;
};

std::int64_t count_argument(std::string_view function, const Value* value) {
  return value == nullptr ? -1 : integer_argument(function, *value);
}

template <bool kLeft, bool kRight>
Value strip_method(Heap& heap, const Value& self, const Arguments& arguments) {
  const auto [characters] = bind<1>("strip", arguments, {"chars"});
  const bool given = characters != nullptr && !characters->is<None>();
  return strip(heap, self.text(), given ? &text_argument("strip", *characters) : nullptr,
               {kLeft, kRight});
}

template <LetterCase kCase>
Value case_method(Heap& heap, const Value& self, const Arguments& arguments) {
  expect_no_arguments("upper, lower, capitalize, title", arguments);
  return change_case(heap, self.text(), kCase);
}

template <bool kFromRight>
Value split_method(Heap& heap, const Value& self, const Arguments& arguments) {
  const auto [separator, most] = bind<2>("split", arguments, {"sep", "maxsplit"});
  const std::int64_t count = count_argument("split", most);
  if (separator == nullptr || separator->is<None>()) {
    if (kFromRight && count >= 0) fail("rsplit() at white space takes no count");
    return split_words(heap, self.text(), count);
  }
  const TracedText& at = text_argument("split", *separator);
  return kFromRight ? split_from_right(heap, self.text(), at, count)
                    : split(heap, self.text(), at, count);
}

Value splitlines(Heap& heap, const Value& self, const Arguments& arguments) {
  const auto [keep] = bind<1>("splitlines", arguments, {"keepends"});
  return split_lines(heap, self.text(),
                     keep != nullptr && truth(*keep) ? LineEnds::kKept : LineEnds::kLeftOut);
}

/// Says whether a text begins, or ends, with one of the affixes: a string or a tuple of such.
template <bool kAtEnd>
Value affix_method(Heap& heap, const Value& self, const Arguments& arguments) {
  const auto [affix] = bind<1>("startswith, endswith", arguments, {"affix"}, 1);
  const std::vector<Value> affixes =
      affix->is<List*>() ? elements(heap, *affix) : std::vector<Value>{*affix};
  const std::string& bytes = self.text().bytes();
  return {.data = std::any_of(affixes.begin(), affixes.end(), [&](const Value& one) {
            const std::string& wanted = text_argument("startswith, endswith", one).bytes();
            heap.look_at(std::min(bytes.size(), wanted.size()));
            return kAtEnd ? bytes.ends_with(wanted) : bytes.starts_with(wanted);
          })};
}

template <bool kAtEnd>
Value remove_affix(Heap& heap, const Value& self, const Arguments& arguments) {
  const auto [affix] = bind<1>("removeprefix, removesuffix", arguments, {"affix"}, 1);
  const std::string& wanted = text_argument("removeprefix, removesuffix", *affix).bytes();
  const TracedText& text = self.text();
  heap.look_at(std::min(text.size(), wanted.size()));
  if (kAtEnd) {
    const std::size_t cut = text.bytes().ends_with(wanted) ? wanted.size() : 0;
    return heap.text(text.slice(0, text.size() - cut));
  }
  return heap.text(text.slice(text.bytes().starts_with(wanted) ? wanted.size() : 0, text.size()));
}

Value replace_method(Heap& heap, const Value& self, const Arguments& arguments) {
  const auto [old, fresh, count] = bind<3>("replace", arguments, {"old", "new", "count"}, 2);
  return replace(heap, self.text(), text_argument("replace", *old),
                 text_argument("replace", *fresh), count_argument("replace", count));
}

Value format_method(Heap& heap, const Value& self, const Arguments& arguments) {
  return format_braces(heap, self.text(), arguments);
}

Value join_method(Heap& heap, const Value& self, const Arguments& arguments) {
  const auto [items] = bind<1>("join", arguments, {"iterable"}, 1);
  const std::vector<Value> texts = elements(heap, *items);
  for (const Value& text : texts) (void)text_argument("join", text);
  return join(heap, texts, self.text());
}

template <bool kFromRight>
Value find_method(Heap& heap, const Value& self, const Arguments& arguments) {
  const auto [wanted] = bind<1>("find", arguments, {"sub"}, 1);
  const std::string& bytes = self.text().bytes();
  const std::string& sub = text_argument("find", *wanted).bytes();
  heap.decode(bytes.size());
  const auto which = kFromRight ? TextSearch::Which::kLast : TextSearch::Which::kFirst;
  const std::size_t found = search_for(heap, sub, which).in(bytes);
  if (found == std::string::npos) return {.data = std::int64_t{-1}};
  const std::string_view before = std::string_view(bytes).substr(0, found);
  return {.data = static_cast<std::int64_t>(count_code_points(before))};
}

Value count_in_text(Heap& heap, const Value& self, const Arguments& arguments) {
  const auto [wanted] = bind<1>("count", arguments, {"sub"}, 1);
  if (text_argument("count", *wanted).empty()) return {.data = length(heap, self) + 1};
  const Value parts = split(heap, self.text(), wanted->text(), -1);
  return {.data = length(heap, parts) - 1};
}

/// Says whether a text is not empty and all its characters are of a kind.
template <bool (*kIs)(std::uint32_t)>
Value all_of(Heap& heap, const Value& self, const Arguments& arguments) {
  expect_no_arguments("isdigit, isspace", arguments);
  const std::string& bytes = self.text().bytes();
  heap.decode(bytes.size());
  bool all = !bytes.empty();
  for (std::size_t at = 0; all && at < bytes.size(); at += code_point_at(bytes, at).bytes) {
    all = kIs(code_point_at(bytes, at).value);
  }
  return {.data = all};
}
constexpr std::array<NamedMethod, 22> kTextMethods{
    {{"strip", &strip_method<true, true>},
     {"lstrip", &strip_method<true, false>},
     {"rstrip", &strip_method<false, true>},
     {"split", &split_method<false>},
     {"rsplit", &split_method<true>},
     {"splitlines", &splitlines},
     {"startswith", &affix_method<false>},
     {"endswith", &affix_method<true>},
     {"removeprefix", &remove_affix<false>},
     {"removesuffix", &remove_affix<true>},
     {"replace", &replace_method},
     {"upper", &case_method<LetterCase::kUpper>},
     {"lower", &case_method<LetterCase::kLower>},
     {"capitalize", &case_method<LetterCase::kCapitalized>},
     {"title", &case_method<LetterCase::kTitle>},
     {"format", &format_method},
     {"join", &join_method},
     {"find", &find_method<false>},
     {"rfind", &find_method<true>},
     {"count", &count_in_text},
     {"isdigit", &all_of<&is_digit>},
     {"isspace", &all_of<&is_space>}}};

Value dict_items(Heap& heap, const Value& self, const Arguments& arguments) {
  expect_no_arguments("items", arguments);
  std::vector<Value> pairs;
  for (const auto& [key, value] : self.get<Dict*>()->items) {
    pairs.push_back(heap.tuple({key, value}));
  }
  return heap.view("dict_items", std::move(pairs), self.origin);
}
Value dict_keys(Heap& heap, const Value& self, const Arguments& arguments) {
  expect_no_arguments("keys", arguments);
  return heap.view("dict_keys", elements(heap, self), self.origin);
}
Value dict_values(Heap& heap, const Value& self, const Arguments& arguments) {
  expect_no_arguments("values", arguments);
  std::vector<Value> values;
  heap.charge(self.get<Dict*>()->items.size() * sizeof(Value));
  for (const auto& [key, value] : self.get<Dict*>()->items) values.push_back(value);
  return heap.view("dict_values", std::move(values), self.origin);
}
Value dict_get(Heap& heap, const Value& self, const Arguments& arguments) {
  const auto [key, fallback] = bind<2>("get", arguments, {"key", "default"}, 1);
  const Value* found = find(heap, *self.get<Dict*>(), *key);
  if (found != nullptr) return *found;
  return fallback != nullptr ? *fallback : Value{.data = None{}};
}
Value copy(Heap& heap, const Value& self, const Arguments& arguments) {
  expect_no_arguments("copy", arguments);
  heap.step();
  return self;  // nobody can change either
}
constexpr std::array<NamedMethod, 5> kDictMethods{{{"items", &dict_items},
                                                   {"keys", &dict_keys},
                                                   {"values", &dict_values},
                                                   {"get", &dict_get},
                                                   {"copy", &copy}}};

Value list_index(Heap& heap, const Value& self, const Arguments& arguments) {
  const auto [wanted] = bind<1>("index", arguments, {"value"}, 1);
  const std::vector<Value>& items = self.get<List*>()->items;
  const auto found =
      std::find_if(items.begin(), items.end(),
                   [&, value = wanted](const Value& item) { return equal(heap, item, *value); });
  if (found == items.end()) fail("index(): the list does not hold the value");
  return {.data = static_cast<std::int64_t>(found - items.begin())};
}
Value list_count(Heap& heap, const Value& self, const Arguments& arguments) {
  const auto [wanted] = bind<1>("count", arguments, {"value"}, 1);
  const std::vector<Value>& items = self.get<List*>()->items;
  return {.data = static_cast<std::int64_t>(std::count_if(
              items.begin(), items.end(),
              [&, value = wanted](const Value& item) { return equal(heap, item, *value); }))};
}
constexpr std::array<NamedMethod, 3> kListMethods{
    {{"index", &list_index}, {"count", &list_count}, {"copy", &copy}}};

Value loop_cycle(Heap& heap, const Value& self, const Arguments& arguments) {
  heap.step();
  if (arguments.positional.empty()) fail("loop.cycle() takes values to choose from");
  return arguments.positional[self.get<Loop*>()->index % arguments.positional.size()];
}
Value loop_changed(Heap& heap, const Value& self, const Arguments& arguments) {
  Loop& loop = *self.get<Loop*>();
  const Value seen = heap.tuple(arguments.positional);
  const bool changed = loop.changed.is_undefined() || !equal(heap, loop.changed, seen);
  loop.changed = seen;
  return {.data = changed};
}
constexpr std::array<NamedMethod, 2> kLoopMethods{
    {{"cycle", &loop_cycle}, {"changed", &loop_changed}}};

/// Methods of Python that would change the value.
constexpr std::array<std::string_view, 8> kForbiddenOfLists{
    "append", "clear", "extend", "insert", "pop", "remove", "sort", "reverse"};
constexpr std::array<std::string_view, 5> kForbiddenOfDicts{"clear", "pop", "popitem", "setdefault",
                                                            "update"};

template <std::size_t N>
Method find_in(const std::array<NamedMethod, N>& methods, std::string_view name) {
  const auto* const found =
      std::find_if(methods.begin(), methods.end(),
                   [&](const NamedMethod& method) { return method.name == name; });
  return found == methods.end() ? nullptr : found->call;
}

Method find_method(const Value& value, std::string_view name) {
  if (value.is_text()) return find_in(kTextMethods, name);
  if (value.is<Dict*>()) return find_in(kDictMethods, name);
  if (value.is<List*>()) {
    return value.get<List*>()->is_plain() ? find_in(kListMethods, name) : nullptr;
  }
  return value.is<Loop*>() ? find_in(kLoopMethods, name) : nullptr;
}

bool is_forbidden(const Value& value, const std::string& name) {
  const auto holds = [&](const auto& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return (value.is<Dict*>() && holds(kForbiddenOfDicts)) ||
         (value.is<List*>() && holds(kForbiddenOfLists));
}

}  // namespace

bool has_method(const Value& value, const std::string& name) {
  return find_method(value, name) != nullptr || is_forbidden(value, name);
}

Value call_method(Heap& heap, const Value& value, const std::string& name,
                  const Arguments& arguments) {
  if (is_forbidden(value, name)) {
    fail("'" + name + "' would change a " + std::string(type_name(value)) +
         ", which templates may not");
  }
  Value result = find_method(value, name)(heap, value, arguments);
  if (value.markup && result.is_text()) result.markup = true;
  return result;
}

}  // namespace strata::chat
