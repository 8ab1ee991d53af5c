// Writes values as json.dumps does as transformers calls it: no characters are escaped for HTML,
// and those beyond ASCII stay as they are unless the template asks otherwise.

#include <algorithm>
#include <array>
#include <cstdio>

#include "chat/operators.h"
#include "chat/print.h"
#include "chat/unicode.h"
#include "chat/whole_number.h"

namespace strata::chat {

namespace {

std::string unicode_escape(std::uint32_t unit) {
  std::array<char, 12> text{};
  std::snprintf(text.data(), text.size(), "\\u%04x", unit);
  return text.data();
}

/// Returns what JSON writes for a code point, or nothing if it is itself.
std::string escaped(std::uint32_t code_point, bool ensure_ascii) {
  switch (code_point) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    case '\f': return "\\f";
    case '\b': return "\\b";
    default: break;
  }
  if (code_point < 0x20) return unicode_escape(code_point);
  if (!ensure_ascii || code_point < 0x7F) return {};
  if (code_point < 0x10000) return unicode_escape(code_point);
  const std::uint32_t above = code_point - 0x10000;
  return unicode_escape(0xD800 | above >> 10) + unicode_escape(0xDC00 | (above & 0x3FF));
}

class JsonPrinter {
 public:
  JsonPrinter(TextBuilder& out, Heap& heap, const JsonStyle& style)
      : out_(out), heap_(heap), style_(style) {}

  void write(const Value& value) {
    heap_.step();
    const bool view = value.is<List*>() && !value.get<List*>()->is_plain();
    if (view || value.is<Namespace*>() || value.is<Loop*>() || value.is<Callable*>() ||
        value.is_undefined()) {
      fail("tojson: a value of type " + std::string(type_name(value)) + " has no form in JSON");
    }
    if (value.is_text()) return string(value.text());
    if (value.is<List*>()) return list(*value.get<List*>(), value.origin);
    if (value.is<Dict*>()) return dict(*value.get<Dict*>(), value.origin);
    out_.append(scalar(value), value.origin);
  }

 private:
  static std::string scalar(const Value& value) {
    if (value.is<None>()) return "null";
    if (value.is<bool>()) return value.get<bool>() ? "true" : "false";
    if (value.is_whole()) return whole_text(value);
    const std::string text = float_text(value.get<double>());
    if (text == "nan") return "NaN";
    if (text == "inf") return "Infinity";
    return text == "-inf" ? "-Infinity" : text;
  }

  void string(const TracedText& text) {
    const std::string& bytes = text.bytes();
    out_.append("\"", text.origin_at(0));
    std::size_t plain = 0;  // where what needs no escapes begins
    for (std::size_t at = 0; at < bytes.size();) {
      const CodePoint next = code_point_at(bytes, at);
      const std::string escape = escaped(next.value, style_.ensure_ascii);
      if (!escape.empty()) {
        out_.append(text, plain, at);
        out_.append(escape, text.origin_at(at));
        plain = at + next.bytes;
      }
      at += next.bytes;
    }
    out_.append(text, plain, bytes.size());
    out_.append("\"", text.empty() ? Origin{} : text.origin_at(bytes.size() - 1));
  }

  void begin_line(Origin origin) {
    if (!style_.multiline) return;
    out_.append("\n", origin);
    for (std::size_t i = 0; i < depth_; ++i) out_.append(style_.indent, origin);
  }
  void open(std::string_view bracket, Origin origin) {
    if (++depth_ > heap_.limits().depth) fail("tojson: lists and dicts nest too deeply");
    out_.append(bracket, origin);
  }
  void close(std::string_view bracket, Origin origin) {
    --depth_;
    begin_line(origin);
    out_.append(bracket, origin);
  }
  void separate(bool first, Origin origin) {
    if (!first) out_.append(style_.item_separator, origin);
    begin_line(origin);
  }

  void list(const List& list, Origin origin) {
    if (list.items.empty()) return out_.append("[]", origin);
    open("[", origin);
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      separate(i == 0, origin);
      write(list.items[i]);
    }
    close("]", origin);
  }

  void dict(const Dict& dict, Origin origin) {
    if (dict.items.empty()) return out_.append("{}", origin);
    heap_.charge(2 * dict.items.size() * sizeof(std::pair<Value, Value>));  // with what sorts it
    std::vector<std::pair<Value, Value>> items = dict.items;
    if (style_.sort_keys) {
      std::stable_sort(items.begin(), items.end(),
                       [&](const auto& a, const auto& b) { return less(heap_, a.first, b.first); });
    }
    open("{", origin);
    for (std::size_t i = 0; i < items.size(); ++i) {
      separate(i == 0, origin);
      key(items[i].first);
      out_.append(style_.key_separator, origin);
      write(items[i].second);
    }
    close("}", origin);
  }

  void key(const Value& key) {
    if (key.is_text()) return string(key.text());
    if (!key.is_number() && !key.is<None>()) fail("tojson: a key is no string");
    out_.append('"' + scalar(key) + '"', key.origin);
  }

  TextBuilder& out_;
  Heap& heap_;
  const JsonStyle& style_;
  std::size_t depth_ = 0;
};

}  // namespace

Value to_json(Heap& heap, const Value& value, const JsonStyle& style) {
  TextBuilder out(heap);
  JsonPrinter(out, heap, style).write(value);
  return out.value();
}

}  // namespace strata::chat
