// Writes values as Python's str() and repr() do.

#include "chat/print.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "chat/unicode.h"
#include "chat/whole_number.h"

namespace strata::chat {

namespace {

/// Prints values within each other, down to the depth that the heap allows.
class Printer {
 public:
  Printer(TextBuilder& out, Heap& heap) : out_(out), heap_(heap), left_(heap.limits().depth) {}

  void repr(const Value& value) {
    heap_.step();
    if (value.is_text()) return quote(value.text());
    if (value.is<List*>()) return list(*value.get<List*>(), value.origin);
    if (value.is<Dict*>()) return dict(*value.get<Dict*>(), value.origin);
    scalar(value);
  }

  void scalar(const Value& value) {
    if (value.is_undefined()) return;
    if (value.is<None>()) return out_.append("None", value.origin);
    if (value.is<bool>()) return out_.append(value.get<bool>() ? "True" : "False", value.origin);
    if (value.is_whole()) return out_.append(whole_text(value), value.origin);
    if (value.is<double>()) return out_.append(float_text(value.get<double>()), value.origin);
    fail("a value of type " + std::string(type_name(value)) + " cannot be written");
  }

 private:
  void enter() {
    if (left_-- == 0) fail("lists and dicts nest too deeply to be written");
  }

  void list(const List& list, Origin origin) {
    if (list.is_range) return out_.append(list.view, origin);
    enter();
    if (!list.view.empty()) out_.append(list.view + "(", origin);
    out_.append(list.tuple ? "(" : "[", origin);
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_.append(", ", origin);
      repr(list.items[i]);
    }
    if (list.tuple && list.items.size() == 1) out_.append(",", origin);
    out_.append(list.tuple ? ")" : "]", origin);
    if (!list.view.empty()) out_.append(")", origin);
    ++left_;
  }

  void dict(const Dict& dict, Origin origin) {
    enter();
    out_.append("{", origin);
    for (std::size_t i = 0; i < dict.items.size(); ++i) {
      if (i > 0) out_.append(", ", origin);
      repr(dict.items[i].first);
      out_.append(": ", origin);
      repr(dict.items[i].second);
    }
    out_.append("}", origin);
    ++left_;
  }

  void quote(const TracedText& text) {
    const std::string& bytes = text.bytes();
    const bool has_single = bytes.find('\'') != std::string::npos;
    const char quote = has_single && bytes.find('"') == std::string::npos ? '"' : '\'';
    out_.append(std::string_view(&quote, 1), text.origin_at(0));
    for (std::size_t at = 0; at < bytes.size();) {
      const CodePoint next = code_point_at(bytes, at);
      const std::string escape = escaped(next.value, quote);
      if (escape.empty()) {
        out_.append(text, at, at + next.bytes);
      } else {
        out_.append(escape, text.origin_at(at));
      }
      at += next.bytes;
    }
    out_.append(std::string_view(&quote, 1),
                text.empty() ? Origin{} : text.origin_at(text.size() - 1));
  }

  /// Returns what repr() writes for a code point, or nothing if it is itself.
  static std::string escaped(std::uint32_t code_point, char quote) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    switch (code_point) {
      case '\\': return "\\\\";
      case '\n': return "\\n";
      case '\r': return "\\r";
      case '\t': return "\\t";
      default: break;
    }
    if (code_point == static_cast<unsigned char>(quote)) return {'\\', quote};
    if (is_printable(code_point)) return {};
    const std::size_t digits = code_point < 0x100 ? 2 : code_point < 0x10000 ? 4 : 8;
    std::string text{'\\', digits == 2 ? 'x' : digits == 4 ? 'u' : 'U'};
    for (std::size_t i = digits; i > 0; --i) text += kDigits[code_point >> (4 * (i - 1)) & 15];
    return text;
  }

  TextBuilder& out_;
  Heap& heap_;
  std::size_t left_;
};

}  // namespace

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  constexpr double kFirstWithExponent = 1e16;
  constexpr double kLastWithout = 1e-4;
  const double size = std::fabs(value);
  const bool plain = size == 0 || (size >= kLastWithout && size < kFirstWithExponent);
  std::array<char, 64> digits{};
  const auto result =
      std::to_chars(digits.data(), digits.data() + digits.size(), value,
                    plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(digits.data(), result.ptr);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

namespace {

/// Refuses what a message holds that is no text, where Python would write its own notation of it.
void require_text(const Value& value) {
  const bool content = value.origin.field == ChatField::kContent;
  const bool calls = value.origin.field == ChatField::kToolCalls;
  const bool structured = (content || calls) && (value.is<List*>() || value.is<Dict*>());
  if (!structured && !(content && value.is<None>())) return;
  throw WantsText("message " + std::to_string(value.origin.message) + ": its " +
                  (content ? "content" : "tool calls") + " would be written as Python writes a " +
                  std::string(type_name(value)) +
                  "; give it as text, or take a template that has a place for it");
}

}  // namespace

void print(TextBuilder& out, Heap& heap, const Value& value) {
  if (value.is_text()) return out.append(value.text());
  require_text(value);
  print_repr(out, heap, value);
}

void print_repr(TextBuilder& out, Heap& heap, const Value& value) {
  Printer(out, heap).repr(value);
}

Value to_text(Heap& heap, const Value& value) {
  if (value.is_text()) return value;
  TextBuilder out(heap);
  print(out, heap, value);
  return out.value();
}

}  // namespace strata::chat
