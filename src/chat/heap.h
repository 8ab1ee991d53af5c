// The memory of one rendering, and its limits. Lists, dicts and the like live here until the
// rendering ends, so values refer to them freely, in circles too. Everything that costs time or
// memory is charged: a template cannot run for ever or take more memory than it is given.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "chat/value.h"

namespace strata::chat {

/// What one rendering may take.
struct Limits {
  std::size_t steps = 2'000'000;   ///< operations; long strings cost several
  std::size_t bytes = 128u << 20;  ///< of all values ever made
  std::size_t depth = 400;         ///< expressions, statements and macros within each other
};

class Heap {
 public:
  explicit Heap(const Limits& limits) : limits_(limits) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  [[nodiscard]] const Limits& limits() const { return limits_; }
  /// Charges operations; throws TemplateFailure when there were too many, and Interrupted if the
  /// program has been asked to end.
  void step(std::size_t count = 1);
  /// Charges looking at so many bytes of strings.
  void look_at(std::size_t bytes) {
    constexpr std::size_t kBytesOfStep = 256;
    looked_at_ += bytes;
    step(looked_at_ / kBytesOfStep);
    looked_at_ %= kBytesOfStep;
  }
  /// Charges going through so many bytes of strings by characters, which takes longer.
  void decode(std::size_t bytes) { look_at(4 * bytes); }
  /// Charges memory before it is taken; throws TemplateFailure when it is too much.
  void charge(std::size_t bytes);

  [[nodiscard]] Value text(TracedText text);
  [[nodiscard]] Value text(std::string_view bytes, Origin origin = {});
  [[nodiscard]] Value list(std::vector<Value> items, Origin origin = {});
  [[nodiscard]] Value tuple(std::vector<Value> items);
  /// Makes what a method of a dict returns, "dict_keys" and so on.
  [[nodiscard]] Value view(std::string name, std::vector<Value> items, Origin origin);
  /// Takes an object in and returns where it is, for good.
  template <class T>
  [[nodiscard]] T* own(T object) {
    charge(sizeof(T));
    return &std::get<std::deque<T>>(objects_).emplace_back(std::move(object));
  }
  /// Appends to a dict, or replaces what has the key.
  void set(Dict& dict, const Value& key, const Value& value);

 private:
  Limits limits_;
  std::size_t steps_ = 0;
  std::size_t looked_at_ = 0;  ///< bytes that are not a whole step yet
  std::size_t bytes_ = 0;
  std::tuple<std::deque<List>, std::deque<Dict>, std::deque<Namespace>, std::deque<Loop>,
             std::deque<Callable>>
      objects_;
};

/// Builds a string from pieces and charges each.
class TextBuilder {
 public:
  explicit TextBuilder(Heap& heap) : heap_(heap) {}
  void append(std::string_view bytes, Origin origin = {});
  void append(const TracedText& text) { append(text, 0, text.size()); }
  void append(const TracedText& text, std::size_t begin, std::size_t end);
  /// Returns the string; the builder is empty then.
  [[nodiscard]] TracedText take();
  /// Returns the string as a value; the builder is empty then.
  [[nodiscard]] Value value() { return {.data = std::make_shared<const TracedText>(take())}; }

 private:
  Heap& heap_;
  TracedText text_;
  std::size_t charged_ = 0;
  /// Makes room for so many bytes more, which takes the memory of old and new room for a moment.
  void grow(std::size_t bytes);
  void charge();
};

}  // namespace strata::chat
