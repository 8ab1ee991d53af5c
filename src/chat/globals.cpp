// Has the functions that transformers gives to chat templates.

#include <array>
#include <chrono>
#include <ctime>

#include "chat/arguments.h"
#include "chat/interpreter.h"
#include "chat/operators.h"
#include "chat/print.h"
#include "strata/base/text.h"

namespace strata::chat {

namespace {

constexpr std::int64_t kMostRange = 100'000;  // as Jinja's sandbox
constexpr std::size_t kMostTimeFormat = 200;
constexpr std::size_t kMostMessage = 1000;

Value raise_exception(Heap& heap, const Arguments& arguments) {
  const auto [message] = bind<1>("raise_exception", arguments, {"message"}, 1);
  throw RaisedByTemplate(
      printable_name(shortened(to_text(heap, *message).text().bytes(), kMostMessage)));
}

/// namespace(...) and dict(...) take a dict or pairs, and named values.
Dict dict_of(Heap& heap, std::string_view function, const Arguments& arguments) {
  Dict dict;
  if (arguments.positional.size() > 1) fail(std::string(function) + "() takes one dict");
  for (const Value& given : arguments.positional) {
    if (given.is<Dict*>()) {
      dict = *given.get<Dict*>();
      heap.charge(dict.items.size() * 2 * sizeof(Value));
      continue;
    }
    for (const Value& pair : elements(heap, given)) {
      const std::vector<Value> both = elements(heap, pair);
      if (both.size() != 2) fail(std::string(function) + "() takes pairs");
      heap.set(dict, both[0], both[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) heap.set(dict, heap.text(name), value);
  return dict;
}

Value make_dict(Heap& heap, const Arguments& arguments) {
  return {.data = heap.own(dict_of(heap, "dict", arguments))};
}
Value make_namespace(Heap& heap, const Arguments& arguments) {
  return {.data = heap.own(Namespace{dict_of(heap, "namespace", arguments)})};
}

Value range(Heap& heap, const Arguments& arguments) {
  std::array<std::int64_t, 3> bounds{0, 0, 1};  // start, stop, step
  const std::size_t count = arguments.positional.size();
  if (count < 1 || count > 3 || !arguments.named.empty()) fail("range() takes 1 to 3 numbers");
  for (std::size_t i = 0; i < count; ++i) {
    bounds[count == 1 ? 1 : i] = integer_argument("range", arguments.positional[i]);
  }
  const auto [start, stop, step] = bounds;
  if (step == 0) fail("range() takes a step other than 0");
  std::vector<Value> numbers;
  std::int64_t at = start;
  while (step > 0 ? at < stop : at > stop) {
    if (static_cast<std::int64_t>(numbers.size()) == kMostRange) {
      fail("range() has more than " + std::to_string(kMostRange) + " numbers");
    }
    heap.step();
    numbers.push_back({.data = at});
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  Value result = heap.list(std::move(numbers));
  List& list = *result.get<List*>();
  list.is_range = true;
  list.view = "range(" + std::to_string(start) + ", " + std::to_string(stop) +
              (step == 1 ? "" : ", " + std::to_string(step)) + ")";
  return result;
}

/// Fills in what C does otherwise than Python, whose time knows microseconds and no zone.
std::string python_format(const std::string& format, std::int64_t microseconds) {
  std::string result;
  for (std::size_t at = 0; at < format.size(); ++at) {
    const char next = format[at] == '%' && at + 1 < format.size() ? format[at + 1] : '\0';
    if (next == '\0') {
      result += format[at];
      continue;
    }
    ++at;
    std::string digits = std::to_string(microseconds);
    if (next == 'f') result += digits.insert(0, 6 - digits.size(), '0');
    if (next != 'f' && next != 'z' && next != 'Z') result += {'%', next};
  }
  return result;
}

Value strftime(Heap& heap, const Arguments& arguments, std::optional<std::int64_t> now_s) {
  const auto [pattern] = bind<1>("strftime_now", arguments, {"format"}, 1);
  const std::string& format = text_argument("strftime_now", *pattern).bytes();
  if (format.size() > kMostTimeFormat || format.find('\0') != std::string::npos) {
    fail("strftime_now() takes a format of at most " + std::to_string(kMostTimeFormat) + " bytes");
  }
  const auto now = std::chrono::duration_cast<std::chrono::microseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  constexpr std::int64_t kMicrosecondsOfSecond = 1'000'000;
  const auto seconds = static_cast<std::time_t>(now_s.value_or(now / kMicrosecondsOfSecond));
  const std::string wanted = python_format(format, now_s ? 0 : now % kMicrosecondsOfSecond);
  std::tm parts{};
  if (localtime_r(&seconds, &parts) == nullptr) fail("strftime_now(): there is no such time");
  std::array<char, 16 * kMostTimeFormat> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), wanted.c_str(), &parts);
  return heap.text(std::string_view(text.data(), size));
}

}  // namespace

Variables make_globals(Heap& heap, std::optional<std::int64_t> now_s) {
  Variables globals;
  const auto add = [&](const char* name, std::function<Value(const Arguments&)> call) {
    globals.emplace_back(name, Value{.data = heap.own(Callable{name, std::move(call)})});
  };
  add("raise_exception", [&heap](const Arguments& a) { return raise_exception(heap, a); });
  add("namespace", [&heap](const Arguments& a) { return make_namespace(heap, a); });
  add("dict", [&heap](const Arguments& a) { return make_dict(heap, a); });
  add("range", [&heap](const Arguments& a) { return range(heap, a); });
  add("strftime_now", [&heap, now_s](const Arguments& a) { return strftime(heap, a, now_s); });
  return globals;
}

}  // namespace strata::chat
