// Values as text: as `{{ value }}` writes them, which is Python's str(), and as JSON. What came
// from a message keeps its origin: a string's characters each, and of other values all that they
// print.
#pragma once

#include <string>

#include "chat/heap.h"
#include "chat/value.h"

namespace strata::chat {

/// What print() throws for a content or the calls of a message that are no text.
class WantsText : public TemplateFailure {
 public:
  using TemplateFailure::TemplateFailure;
};

/// str(value); throws WantsText instead of making text of what a message does not hold as such.
void print(TextBuilder& out, Heap& heap, const Value& value);
/// repr(value): strings in quotes.
void print_repr(TextBuilder& out, Heap& heap, const Value& value);
/// Returns str(value) as a string; a string is returned as it is.
[[nodiscard]] Value to_text(Heap& heap, const Value& value);
/// Returns the shortest text that stands for a number, as Python writes it: "1.0", "1e+16".
[[nodiscard]] std::string float_text(double value);

/// The options of json.dumps.
struct JsonStyle {
  bool multiline = false;  ///< elements stand on lines of their own
  std::string indent{};    ///< what a level is indented by then
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
  bool ensure_ascii = false;
};
/// json.dumps(value); throws TemplateFailure for what JSON has no form for.
[[nodiscard]] Value to_json(Heap& heap, const Value& value, const JsonStyle& style);

}  // namespace strata::chat
