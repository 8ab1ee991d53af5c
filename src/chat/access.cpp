// Evaluates attributes, subscripts and slices, and lists what a loop goes through.

#include <algorithm>
#include <array>

#include "chat/operators.h"
#include "chat/unicode.h"

namespace strata::chat {

namespace {

/// Returns the characters of a string, each a string.
std::vector<Value> characters(Heap& heap, const TracedText& text) {
  std::vector<Value> result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at + code_point_at(text.bytes(), at).bytes;
    heap.charge(sizeof(Value));
    result.push_back(heap.text(text.slice(at, end)));
    at = end;
  }
  return result;
}

/// Returns what has an index that may count from the end, or nothing.
std::optional<std::size_t> position(std::int64_t index, std::size_t count) {
  const auto size = static_cast<std::int64_t>(count);
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  return static_cast<std::size_t>(index);
}

/// Returns the positions that a slice takes, as Python's slice.indices() does.
std::vector<std::size_t> positions(Heap& heap, const Slice& bounds, std::size_t count) {
  const auto size = static_cast<std::int64_t>(count);
  const std::int64_t step = bounds.step.value_or(1);
  if (step == 0) fail("a slice's step is 0");
  const std::int64_t lowest = step < 0 ? -1 : 0;
  const std::int64_t highest = step < 0 ? size - 1 : size;
  const auto bound = [&](const std::optional<std::int64_t>& given, std::int64_t otherwise) {
    if (!given) return otherwise;
    return std::clamp(*given < 0 ? *given + size : *given, lowest, highest);
  };
  std::int64_t at = bound(bounds.begin, step < 0 ? highest : lowest);
  const std::int64_t end = bound(bounds.end, step < 0 ? lowest : highest);
  heap.charge(count * sizeof(std::size_t));
  std::vector<std::size_t> result;
  while (step < 0 ? at > end : at < end) {
    result.push_back(static_cast<std::size_t>(at));
    if (step > size || step < -size) break;
    at += step;
  }
  heap.step(result.size() / 16);
  return result;
}

/// `text[a:b]`, which is most slices, without a list of positions.
Value plain_slice(Heap& heap, const TracedText& text, const Slice& bounds) {
  heap.decode(text.size());
  const auto size = static_cast<std::int64_t>(count_code_points(text.bytes()));
  const auto bound = [&](std::int64_t given) {
    return code_point_offset(text.bytes(), static_cast<std::size_t>(std::clamp<std::int64_t>(
                                               given < 0 ? given + size : given, 0, size)));
  };
  const std::size_t begin = bound(bounds.begin.value_or(0));
  const std::size_t end = bound(bounds.end.value_or(size));
  return heap.text(text.slice(begin, end));
}

Value item_of(Heap& heap, const Value& value, std::int64_t index) {
  if (value.is<List*>()) {
    const List& list = *value.get<List*>();
    const auto at = position(index, list.items.size());
    return at ? list.items[*at] : Value{};
  }
  const std::string& bytes = value.text().bytes();
  heap.decode(bytes.size());
  const auto at = position(index, count_code_points(bytes));
  if (!at) return {};
  const std::size_t begin = code_point_offset(bytes, *at);
  return heap.text(value.text().slice(begin, begin + code_point_at(bytes, begin).bytes));
}

}  // namespace

const Value* find(Heap& heap, const Dict& dict, const Value& key) {
  heap.step(dict.items.size() / 16);
  for (const auto& [known, value] : dict.items) {
    if (known.is_text() && key.is_text() && known.text().size() != key.text().size()) continue;
    if (equal(heap, known, key)) return &value;
  }
  return nullptr;
}

const Value* find(const Dict& dict, std::string_view key) {
  for (const auto& [known, value] : dict.items) {
    if (known.is_text() && known.text().bytes() == key) return &value;
  }
  return nullptr;
}

Value loop_attribute(const Loop& loop, const std::string& name) {
  const std::size_t count = loop.items.size();
  const auto number = [](std::size_t n) { return Value{.data = static_cast<std::int64_t>(n)}; };
  if (name == "index") return number(loop.index + 1);
  if (name == "index0") return number(loop.index);
  if (name == "revindex") return number(count - loop.index);
  if (name == "revindex0") return number(count - loop.index - 1);
  if (name == "length") return number(count);
  if (name == "depth") return number(loop.depth + 1);
  if (name == "depth0") return number(loop.depth);
  if (name == "first") return {.data = loop.index == 0};
  if (name == "last") return {.data = loop.index + 1 == count};
  if (name == "previtem") return loop.index == 0 ? Value{} : loop.items[loop.index - 1];
  if (name == "nextitem") return loop.index + 1 < count ? loop.items[loop.index + 1] : Value{};
  return {};
}

Value attribute(Heap& heap, const Value& value, const std::string& name) {
  if (value.is_undefined()) fail("takes ." + name + " of something that is undefined");
  const Dict* dict = value.is<Dict*>()        ? value.get<Dict*>()
                     : value.is<Namespace*>() ? &value.get<Namespace*>()->attributes
                                              : nullptr;
  if (dict != nullptr) {
    heap.step(dict->items.size() / 16);
    heap.look_at(name.size());
    const Value* found = find(*dict, name);
    return found != nullptr ? *found : Value{};
  }
  if (value.is<Loop*>()) return loop_attribute(*value.get<Loop*>(), name);
  return {};
}

namespace {

/// Says whether a value is a list whose elements have numbers, as views of dicts have not.
bool has_indices(const Value& value) {
  return value.is<List*>() && (value.get<List*>()->is_plain() || value.get<List*>()->is_range);
}

}  // namespace

Value subscript(Heap& heap, const Value& value, const Value& index) {
  if (value.is_undefined()) fail("takes an element of something that is undefined");
  if (value.is<Dict*>()) {
    const Value* found = find(heap, *value.get<Dict*>(), index);
    if (found != nullptr) return *found;
  }
  if (index.is_integer() && (has_indices(value) || value.is_text())) {
    return item_of(heap, value, index.integer());
  }
  if (index.is_text() && !value.is<Dict*>()) return attribute(heap, value, index.text().bytes());
  return {};
}

Value slice(Heap& heap, const Value& value, const Slice& bounds) {
  if (value.is_text() && bounds.step.value_or(1) == 1) {
    return plain_slice(heap, value.text(), bounds);
  }
  if (value.is_text()) {
    const std::vector<Value> all = characters(heap, value.text());
    TextBuilder result(heap);
    for (const std::size_t at : positions(heap, bounds, all.size())) result.append(all[at].text());
    return result.value();
  }
  if (value.is_undefined()) fail("takes a slice of something that is undefined");
  if (!has_indices(value)) return {};
  const List& list = *value.get<List*>();
  std::vector<Value> items;
  for (const std::size_t at : positions(heap, bounds, list.items.size())) {
    items.push_back(list.items[at]);
  }
  return list.tuple ? heap.tuple(std::move(items)) : heap.list(std::move(items), value.origin);
}

std::vector<Value> elements(Heap& heap, const Value& value) {
  if (value.is_undefined()) return {};
  if (value.is_text()) return characters(heap, value.text());
  if (value.is<List*>()) {
    heap.charge(value.get<List*>()->items.size() * sizeof(Value));
    return value.get<List*>()->items;
  }
  if (!value.is<Dict*>())
    fail("cannot go through a value of type " + std::string(type_name(value)));
  std::vector<Value> keys;
  heap.charge(value.get<Dict*>()->items.size() * sizeof(Value));
  for (const auto& [key, held] : value.get<Dict*>()->items) keys.push_back(key);
  return keys;
}

std::int64_t length(Heap& heap, const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_text()) {
    heap.decode(value.text().size());
    return static_cast<std::int64_t>(count_code_points(value.text().bytes()));
  }
  if (value.is<List*>()) return static_cast<std::int64_t>(value.get<List*>()->items.size());
  if (value.is<Dict*>()) return static_cast<std::int64_t>(value.get<Dict*>()->items.size());
  if (value.is<Loop*>()) return static_cast<std::int64_t>(value.get<Loop*>()->items.size());
  fail("a value of type " + std::string(type_name(value)) + " has no length");
}

std::string_view type_name(const Value& value) {
  constexpr std::array<std::string_view, 12> kNames{"undefined", "None", "bool",       "int",
                                                    "float",     "str",  "list",       "dict",
                                                    "namespace", "loop", "a function", "int"};
  if (value.is<List*>()) {
    const List& list = *value.get<List*>();
    if (list.is_range) return "range";
    if (!list.is_plain()) return list.view;
    return list.tuple ? "tuple" : "list";
  }
  return kNames[value.data.index()];
}

bool truth(const Value& value) {
  if (value.is_number()) return value.real() != 0;
  if (value.is_text()) return !value.text().empty();
  if (value.is<List*>()) return !value.get<List*>()->items.empty();
  if (value.is<Dict*>()) return !value.get<Dict*>()->items.empty();
  return !value.is_undefined() && !value.is<None>();
}

}  // namespace strata::chat
