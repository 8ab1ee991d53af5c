// Has the filters of lists and dicts. Those that Jinja makes lazy return lists here.

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>

#include "chat/arguments.h"
#include "chat/filters.h"
#include "chat/is_tests.h"
#include "chat/operators.h"
#include "chat/text_functions.h"
#include "strata/base/text.h"

namespace strata::chat {

namespace {

bool is_true(const Value* argument) { return argument != nullptr && truth(*argument); }

/// Returns what a path of attributes, "function.name", leads to.
Value by_path(Heap& heap, const Value& item, const Value& path) {
  if (path.is_integer()) return subscript(heap, item, path);
  Value value = item;
  const std::string& names = text_argument("attribute", path).bytes();
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = std::min(names.find('.', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    std::int64_t number = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool is_index =
        !name.empty() && read.ec == std::errc{} && read.ptr == name.data() + name.size();
    value = subscript(heap, value, is_index ? Value{.data = number} : heap.text(name));
    if (end == names.size()) return value;
    begin = end + 1;
  }
}

/// What elements are compared by: an attribute of them, and small letters unless capitals matter.
class SortKey {
 public:
  SortKey(Heap& heap, const Value* attribute, bool case_sensitive)
      : heap_(heap), attribute_(attribute), case_sensitive_(case_sensitive) {}

  [[nodiscard]] Value operator()(const Value& item) const {
    const bool has_path = attribute_ != nullptr && !attribute_->is<None>();
    const Value key = has_path ? by_path(heap_, item, *attribute_) : item;
    if (case_sensitive_ || !key.is_text()) return key;
    return change_case(heap_, key.text(), LetterCase::kLower);
  }

 private:
  Heap& heap_;
  const Value* attribute_;
  bool case_sensitive_;
};

std::vector<Value> sorted(Heap& heap, std::vector<Value> items, const SortKey& key, bool reverse) {
  heap.charge(2 * items.size() * sizeof(std::pair<Value, Value>));  // sorting takes as much again
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : items) keyed.emplace_back(key(item), std::move(item));
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reverse ? less(heap, b.first, a.first) : less(heap, a.first, b.first);
  });
  for (std::size_t i = 0; i < keyed.size(); ++i) items[i] = std::move(keyed[i].second);
  return items;
}

Value list_filter(Heap& heap, const Value& input, const Arguments& arguments) {
  expect_no_arguments("list", arguments);
  return heap.list(elements(heap, input), input.origin);
}

Value join_filter(Heap& heap, const Value& input, const Arguments& arguments) {
  const auto [separator, attribute] = bind<2>("join", arguments, {"d", "attribute"});
  std::vector<Value> items = elements(heap, input);
  if (attribute != nullptr) {
    for (Value& item : items) item = by_path(heap, item, *attribute);
  }
  return join(heap, items, separator != nullptr ? text_argument("join", *separator) : TracedText());
}

template <bool kLast>
Value end_filter(Heap& heap, const Value& input, const Arguments& arguments) {
  expect_no_arguments("first, last", arguments);
  const std::vector<Value> items = elements(heap, input);
  if (items.empty()) return {};
  return kLast ? items.back() : items.front();
}

Value reverse_filter(Heap& heap, const Value& input, const Arguments& arguments) {
  expect_no_arguments("reverse", arguments);
  if (input.is_text()) {
    Value text = slice(heap, input, {.step = -1});
    text.markup = input.markup;
    return text;
  }
  std::vector<Value> items = elements(heap, input);
  std::reverse(items.begin(), items.end());
  return heap.list(std::move(items), input.origin);
}

Value items_filter(Heap& heap, const Value& input, const Arguments& arguments) {
  expect_no_arguments("items", arguments);
  std::vector<Value> pairs;
  if (!input.is<Dict*>()) {
    if (!input.is_undefined()) fail("items() takes a dict, not " + std::string(type_name(input)));
    return heap.list({});
  }
  for (const auto& [key, value] : input.get<Dict*>()->items)
    pairs.push_back(heap.tuple({key, value}));
  return heap.list(std::move(pairs), input.origin);
}

Value dictsort(Heap& heap, const Value& input, const Arguments& arguments) {
  const auto [sensitive, by, reverse] =
      bind<3>("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const std::string column = by != nullptr ? text_argument("dictsort", *by).bytes() : "key";
  if (column != "key" && column != "value") fail("dictsort() sorts by key or value");
  if (!input.is<Dict*>()) fail("dictsort() takes a dict, not " + std::string(type_name(input)));
  const Value number{.data = std::int64_t{column == "key" ? 0 : 1}};
  const Value pairs = items_filter(heap, input, {});
  return heap.list(sorted(heap, elements(heap, pairs), SortKey(heap, &number, is_true(sensitive)),
                          is_true(reverse)),
                   input.origin);
}

Value sort_filter(Heap& heap, const Value& input, const Arguments& arguments) {
  const auto [reverse, sensitive, attribute] =
      bind<3>("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  return heap.list(sorted(heap, elements(heap, input), SortKey(heap, attribute, is_true(sensitive)),
                          is_true(reverse)),
                   input.origin);
}

Value unique_filter(Heap& heap, const Value& input, const Arguments& arguments) {
  const auto [sensitive, attribute] = bind<2>("unique", arguments, {"case_sensitive", "attribute"});
  const SortKey key(heap, attribute, is_true(sensitive));
  std::vector<Value> keys;
  std::vector<Value> kept;
  for (const Value& item : elements(heap, input)) {
    const Value own = key(item);
    if (std::any_of(keys.begin(), keys.end(),
                    [&](const Value& known) { return equal(heap, known, own); })) {
      continue;
    }
    keys.push_back(own);
    kept.push_back(item);
  }
  return heap.list(std::move(kept), input.origin);
}

template <bool kLargest>
Value extreme_filter(Heap& heap, const Value& input, const Arguments& arguments) {
  const auto [sensitive, attribute] =
      bind<2>("min, max", arguments, {"case_sensitive", "attribute"});
  const SortKey key(heap, attribute, is_true(sensitive));
  const std::vector<Value> items = elements(heap, input);
  if (items.empty()) return {};
  const Value* best = &items.front();
  for (const Value& item : items) {
    const bool better =
        kLargest ? less(heap, key(*best), key(item)) : less(heap, key(item), key(*best));
    if (better) best = &item;
  }
  return *best;
}

Value sum_filter(Heap& heap, const Value& input, const Arguments& arguments) {
  const auto [attribute, start] = bind<2>("sum", arguments, {"attribute", "start"});
  Value total = start != nullptr ? *start : Value{.data = std::int64_t{0}};
  for (const Value& item : elements(heap, input)) {
    const bool has_path = attribute != nullptr && !attribute->is<None>();
    total = calculate(heap, BinaryOperator::kAdd, total,
                      has_path ? by_path(heap, item, *attribute) : item);
  }
  return total;
}

Value batch_filter(Heap& heap, const Value& input, const Arguments& arguments) {
  const auto [count, fill] = bind<2>("batch", arguments, {"linecount", "fill_with"}, 1);
  const std::int64_t size = integer_argument("batch", *count);
  if (size < 1) fail("batch() takes a size of at least 1");
  std::vector<Value> rows;
  std::vector<Value> row;
  for (const Value& item : elements(heap, input)) {
    if (static_cast<std::int64_t>(row.size()) == size) {
      rows.push_back(heap.list(std::exchange(row, {})));
    }
    row.push_back(item);
  }
  while (fill != nullptr && !row.empty() && static_cast<std::int64_t>(row.size()) < size) {
    heap.charge(sizeof(Value));
    row.push_back(*fill);
  }
  if (!row.empty()) rows.push_back(heap.list(std::move(row)));
  return heap.list(std::move(rows));
}

/// Returns the elements of what select and map go through: nothing of what is not true, such as
/// none.
std::vector<Value> elements_if_true(Heap& heap, const Value& input) {
  return truth(input) ? elements(heap, input) : std::vector<Value>{};
}

/// Splits a path, or the name of a filter or a test, from what it is called with.
Value take_text(std::string_view function, Arguments& arguments) {
  if (arguments.positional.empty()) fail(std::string(function) + "() needs a name");
  Value text = arguments.positional.front();
  (void)text_argument(function, text);
  arguments.positional.erase(arguments.positional.begin());
  return text;
}
std::string take_name(std::string_view function, Arguments& arguments) {
  return shortened(take_text(function, arguments).text().bytes());
}

Value map_filter(Heap& heap, const Value& input, const Arguments& arguments) {
  std::vector<Value> items = elements_if_true(heap, input);
  if (arguments.positional.empty()) {
    const auto [attribute, fallback] = bind<2>("map", arguments, {"attribute", "default"}, 1);
    for (Value& item : items) {
      item = by_path(heap, item, *attribute);
      if (item.is_undefined() && fallback != nullptr) item = *fallback;
    }
    return heap.list(std::move(items));
  }
  Arguments rest = arguments;
  const std::string name = take_name("map", rest);
  const Filter filter = find_filter(name);
  if (filter == nullptr) fail("filter '" + name + "' is not supported");
  for (Value& item : items) item = filter(heap, item, rest);
  return heap.list(std::move(items));
}

/// select, reject, selectattr and rejectattr: keeps what passes a test, or what fails it.
template <bool kByAttribute, bool kKeep>
Value select_filter(Heap& heap, const Value& input, const Arguments& arguments) {
  Arguments rest = arguments;
  Value path;
  if constexpr (kByAttribute) path = take_text("selectattr", rest);
  IsTest test = nullptr;
  if (!rest.positional.empty()) {
    const std::string name = take_name("select", rest);
    test = find_test(name);
    if (test == nullptr) fail("test '" + name + "' is not supported");
  }
  std::vector<Value> kept;
  for (const Value& item : elements_if_true(heap, input)) {
    Value tested = item;
    if constexpr (kByAttribute) tested = by_path(heap, item, path);
    const bool passes = test != nullptr ? test(heap, tested, rest) : truth(tested);
    if (passes == kKeep) kept.push_back(item);
  }
  return heap.list(std::move(kept));
}

}  // namespace

Filter find_list_filter(std::string_view name) {
  struct Named {
    std::string_view name;
    Filter filter;
  };
  constexpr std::array<Named, 18> kFilters{{{"list", &list_filter},
                                            {"join", &join_filter},
                                            {"first", &end_filter<false>},
                                            {"last", &end_filter<true>},
                                            {"reverse", &reverse_filter},
                                            {"items", &items_filter},
                                            {"dictsort", &dictsort},
                                            {"sort", &sort_filter},
                                            {"unique", &unique_filter},
                                            {"min", &extreme_filter<false>},
                                            {"max", &extreme_filter<true>},
                                            {"sum", &sum_filter},
                                            {"batch", &batch_filter},
                                            {"map", &map_filter},
                                            {"select", &select_filter<false, true>},
                                            {"reject", &select_filter<false, false>},
                                            {"selectattr", &select_filter<true, true>},
                                            {"rejectattr", &select_filter<true, false>}}};
  const auto* const found = std::find_if(kFilters.begin(), kFilters.end(),
                                         [&](const Named& one) { return one.name == name; });
  return found == kFilters.end() ? nullptr : found->filter;
}

}  // namespace strata::chat
