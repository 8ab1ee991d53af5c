// The values that templates compute with. They behave as Python's: strings are immutable, lists and
// dicts are shared, and since the sandbox lets nobody change them only namespaces ever do. A value
// that came from a message remembers it, so that a number or a dict that is printed is known as
// that message's text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "chat/traced_text.h"

namespace strata::chat {

/// What goes wrong while a template is rendered. Whoever runs the template adds file and line.
class TemplateFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
[[noreturn]] inline void fail(const std::string& what) { throw TemplateFailure(what); }

struct List;
struct Dict;
struct Namespace;
struct Loop;
struct Callable;
/// A whole number that 64 bits do not hold, by its decimal digits (see whole_number.h).
struct LargeNumber {
  std::string digits;
};
struct Undefined {};
struct None {};
/// Strings are never changed, and many values may hold one: it goes with the last of them.
using TextPointer = std::shared_ptr<const TracedText>;

using LargePointer = std::shared_ptr<const LargeNumber>;

/// One value. Lists, dicts and so on belong to the Heap that made them.
struct Value {
  using Data = std::variant<Undefined, None, bool, std::int64_t, double, TextPointer, List*, Dict*,
                            Namespace*, Loop*, Callable*, LargePointer>;
  Data data{};
  Origin origin{};  ///< of everything but strings, which know it for each character
  /// A string that went through the filter safe: what "+" adds to it is escaped for HTML.
  bool markup = false;

  template <class T>
  [[nodiscard]] bool is() const {
    return std::holds_alternative<T>(data);
  }
  template <class T>
  [[nodiscard]] const T& get() const {
    return std::get<T>(data);
  }
  [[nodiscard]] bool is_undefined() const { return is<Undefined>(); }
  [[nodiscard]] bool is_text() const { return is<TextPointer>(); }
  [[nodiscard]] const TracedText& text() const { return *get<TextPointer>(); }
  /// Says whether it is a whole number of 64 bits, or a bool.
  [[nodiscard]] bool is_integer() const { return is<bool>() || is<std::int64_t>(); }
  [[nodiscard]] bool is_large() const { return is<LargePointer>(); }
  /// Says whether it is a whole number, of any size, or a bool.
  [[nodiscard]] bool is_whole() const { return is_integer() || is_large(); }
  [[nodiscard]] bool is_number() const { return is_whole() || is<double>(); }
  /// Returns an integer or a bool as a number.
  [[nodiscard]] std::int64_t integer() const {
    return is<bool>() ? std::int64_t{get<bool>()} : get<std::int64_t>();
  }
  /// Returns any number, the nearest one where it is large.
  [[nodiscard]] double real() const {
    if (is_large()) return std::strtod(get<LargePointer>()->digits.c_str(), nullptr);
    return is<double>() ? get<double>() : static_cast<double>(integer());
  }
};

/// A list, a tuple, or what is gone through like one: a range, or keys, values or items of a dict.
struct List {
  std::vector<Value> items;
  bool tuple = false;
  std::string view{};     ///< of a range what repr() writes, of a dict's "dict_keys" and so on
  bool is_range = false;  ///< which has an order and indices, as the views of dicts have not
  [[nodiscard]] bool is_plain() const { return view.empty(); }
};

/// A dict in the order of insertion.
struct Dict {
  std::vector<std::pair<Value, Value>> items;
};

/// What `namespace()` returns: the only thing that templates can change.
struct Namespace {
  Dict attributes;
};

/// The variable `loop` within a for statement.
struct Loop {
  std::vector<Value> items;
  std::size_t index = 0;  ///< from 0
  std::size_t depth = 0;  ///< from 0
  Value changed{};        ///< what loop.changed() saw last, a tuple
};

/// The arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// A macro, a global function, or a method that was not called at once.
struct Callable {
  std::string name;
  std::function<Value(const Arguments&)> call;
};

/// Returns what Python calls the type: "str", "dict".
[[nodiscard]] std::string_view type_name(const Value& value);
/// Returns a value's truth, as `if` sees it.
[[nodiscard]] bool truth(const Value& value);

}  // namespace strata::chat
