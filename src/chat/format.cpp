// Puts values into strings by Python's two ways. Both walk over the pattern and copy what stands
// between its fields with its origins.

#include "chat/format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>

#include "chat/print.h"
#include "chat/whole_number.h"
#include "strata/base/text.h"

namespace strata::chat {

namespace {

constexpr int kMostDecimals = 20;

/// Writes a number with a fixed count of decimals.
std::string fixed(const Value& value, int decimals) {
  if (!value.is_number()) fail("%f takes a number, not " + std::string(type_name(value)));
  std::array<char, 400> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value.real());
  return text.data();
}

std::string whole(const Value& value) {
  if (!value.is_number()) fail("%d takes a number, not " + std::string(type_name(value)));
  return value.is_whole() ? whole_text(value) : fixed({.data = std::trunc(value.real())}, 0);
}

class PercentFormatter {
 public:
  PercentFormatter(Heap& heap, const TracedText& pattern, std::vector<Value> values)
      : heap_(heap), pattern_(pattern), values_(std::move(values)), out_(heap) {}

  Value format() {
    const std::string& bytes = pattern_.bytes();
    heap_.look_at(bytes.size());
    std::size_t at = 0;
    while (true) {
      const std::size_t percent = bytes.find('%', at);
      out_.append(pattern_, at, std::min(percent, bytes.size()));
      if (percent == std::string::npos) break;
      at = field(percent + 1);
    }
    if (used_ < values_.size()) fail("'%': the pattern takes fewer values than there are");
    return out_.value();
  }

 private:
  const Value& next() {
    if (used_ == values_.size()) fail("'%': the pattern takes more values than there are");
    return values_[used_++];
  }

  /// Writes the field behind a percent sign and returns where it ends.
  std::size_t field(std::size_t at) {
    heap_.step();
    const std::string& bytes = pattern_.bytes();
    int decimals = 6;
    if (at < bytes.size() && bytes[at] == '.') {
      const char* const begin = bytes.data() + at + 1;
      const auto end = std::from_chars(begin, bytes.data() + bytes.size(), decimals).ptr;
      at = static_cast<std::size_t>(end - bytes.data());
      if (end == begin || decimals < 0 || decimals > kMostDecimals || bytes[at] != 'f') {
        fail("'%': only %.Nf takes decimals, up to " + std::to_string(kMostDecimals));
      }
    }
    switch (at < bytes.size() ? bytes[at] : '\0') {
      case '%': out_.append("%", pattern_.origin_at(at)); break;
      case 's': print(out_, heap_, next()); break;
      case 'r': print_repr(out_, heap_, next()); break;
      case 'd':
      case 'i': number(&whole); break;
      case 'f': {
        const Value& value = next();
        out_.append(fixed(value, decimals), value.origin);
        break;
      }
      default: fail("'%': fields other than %s, %r, %d, %i, %f and %.Nf are not supported");
    }
    return at + 1;
  }
  void number(std::string (*text)(const Value&)) {
    const Value& value = next();
    out_.append(text(value), value.origin);
  }

  Heap& heap_;
  const TracedText& pattern_;
  std::vector<Value> values_;
  std::size_t used_ = 0;
  TextBuilder out_;
};

class BraceFormatter {
 public:
  BraceFormatter(Heap& heap, const TracedText& pattern, const Arguments& values)
      : heap_(heap), pattern_(pattern), values_(values), out_(heap) {}

  Value format() {
    const std::string& bytes = pattern_.bytes();
    heap_.look_at(bytes.size());
    std::size_t at = 0;
    while (true) {
      const std::size_t brace = bytes.find_first_of("{}", at);
      out_.append(pattern_, at, std::min(brace, bytes.size()));
      if (brace == std::string::npos) return out_.value();
      if (brace + 1 < bytes.size() && bytes[brace + 1] == bytes[brace]) {
        out_.append(pattern_, brace, brace + 1);
        at = brace + 2;
        continue;
      }
      const std::size_t close = bytes.find('}', brace);
      if (bytes[brace] == '}' || close == std::string::npos) fail("format: single '{' or '}'");
      print(out_, heap_,
            value(shortened(std::string_view(bytes).substr(brace + 1, close - brace - 1))));
      at = close + 1;
    }
  }

 private:
  const Value& value(const std::string& field) {
    heap_.step(1 + values_.named.size() / 16);
    if (field.find_first_of(".[!:{") != std::string::npos) {
      fail("format: {" + field + "} is not supported; only {}, {0} and {name} are");
    }
    for (const auto& [name, held] : values_.named) {
      if (name == field) return held;
    }
    std::size_t number = used_;
    if (field.empty()) {
      ++used_;
    } else {
      const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number);
      if (error != std::errc{} || end != field.data() + field.size()) number = std::string::npos;
    }
    if (number >= values_.positional.size()) fail("format: no value for {" + field + "}");
    return values_.positional[number];
  }

  Heap& heap_;
  const TracedText& pattern_;
  const Arguments& values_;
  std::size_t used_ = 0;
  TextBuilder out_;
};

}  // namespace

Value format_percent(Heap& heap, const Value& pattern, const Value& values) {
  const bool several = values.is<List*>() && values.get<List*>()->tuple;
  if (several) heap.charge(values.get<List*>()->items.size() * sizeof(Value));
  return PercentFormatter(heap, pattern.text(),
                          several ? values.get<List*>()->items : std::vector<Value>{values})
      .format();
}

Value format_braces(Heap& heap, const TracedText& pattern, const Arguments& values) {
  return BraceFormatter(heap, pattern, values).format();
}

}  // namespace strata::chat
