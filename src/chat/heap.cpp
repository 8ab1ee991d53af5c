// Makes values and charges a rendering for them. Charges are added up and never given back: what
// was made counts, even if it is gone. That bounds time as well as memory, and costs an addition.

#include "chat/heap.h"

#include <algorithm>
#include <string>
#include <utility>

#include "chat/operators.h"
#include "strata/base/stop_signals.h"

namespace strata::chat {

void Heap::step(std::size_t count) {
  constexpr std::size_t kStepsBetweenLooks = 1024;  // milliseconds
  const std::size_t before = steps_;
  steps_ += count;
  if (count > limits_.steps || steps_ > limits_.steps) {
    fail("takes more than " + std::to_string(limits_.steps) +
         " steps; shorten the template's loops or the conversation");
  }
  if (before / kStepsBetweenLooks != steps_ / kStepsBetweenLooks) throw_if_stopped();
}

void Heap::charge(std::size_t bytes) {
  bytes_ += bytes;
  if (bytes > limits_.bytes || bytes_ > limits_.bytes) {
    fail("makes strings and lists of more than " + std::to_string(limits_.bytes >> 20) +
         " MiB; shorten the template's loops or the conversation");
  }
}

Value Heap::text(TracedText text) {
  charge(text.memory_bytes());
  return {.data = std::make_shared<const TracedText>(std::move(text))};
}

Value Heap::text(std::string_view bytes, Origin origin) {
  return text(TracedText(std::string(bytes), origin));
}

Value Heap::list(std::vector<Value> items, Origin origin) {
  charge(items.size() * sizeof(Value));
  return {.data = own(List{.items = std::move(items)}), .origin = origin};
}

Value Heap::tuple(std::vector<Value> items) {
  charge(items.size() * sizeof(Value));
  return {.data = own(List{.items = std::move(items), .tuple = true})};
}

Value Heap::view(std::string name, std::vector<Value> items, Origin origin) {
  charge(items.size() * sizeof(Value));
  return {.data = own(List{.items = std::move(items), .view = std::move(name)}), .origin = origin};
}

void Heap::set(Dict& dict, const Value& key, const Value& value) {
  for (auto& [known, held] : dict.items) {
    if (equal(*this, known, key)) {
      held = value;
      return;
    }
  }
  charge(2 * sizeof(Value));
  dict.items.emplace_back(key, value);
}

void TextBuilder::charge() {
  const std::size_t bytes = std::max(text_.memory_bytes(), charged_);
  heap_.charge(bytes - charged_);
  charged_ = bytes;
}

void TextBuilder::grow(std::size_t bytes) {
  const std::size_t room = text_.bytes().capacity();
  const std::size_t wanted = text_.size() + bytes;
  if (wanted <= room) return;
  const std::size_t more = std::max(2 * room, wanted) - room;
  heap_.charge(more);
  charged_ += more;
  text_.reserve(room + more);
}

void TextBuilder::append(std::string_view bytes, Origin origin) {
  grow(bytes.size());
  text_.append(bytes, origin);
  charge();
}

void TextBuilder::append(const TracedText& text, std::size_t begin, std::size_t end) {
  if (begin < end) grow(end - begin);
  text_.append(text, begin, end);
  charge();
}

TracedText TextBuilder::take() {
  charged_ = 0;
  return std::exchange(text_, {});
}

}  // namespace strata::chat
