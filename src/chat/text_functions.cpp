// Strips, replaces, splits and changes strings. Searches go over bytes: in UTF-8 a string is found
// only where it begins as a character.

#include "chat/text_functions.h"

#include <algorithm>

#include "chat/print.h"
#include "chat/unicode.h"

namespace strata::chat {

namespace {

/// Says whether a code point is among the characters to strip.
class Stripped {
 public:
  Stripped(Heap& heap, const TracedText* characters) : heap_(heap), characters_(characters) {}
  [[nodiscard]] bool operator()(std::string_view text, std::size_t at, CodePoint c) const {
    heap_.decode(c.bytes);
    if (characters_ == nullptr) return is_space(c.value);
    heap_.look_at(characters_->size());
    const std::string& all = characters_->bytes();
    // A byte is found several times as fast as a string of one.
    if (c.bytes == 1) return all.find(text[at]) != std::string::npos;
    return all.find(text.substr(at, c.bytes)) != std::string::npos;
  }

 private:
  Heap& heap_;
  const TracedText* characters_;
};

std::size_t most_splits(std::int64_t most) {
  return most < 0 ? std::string::npos : static_cast<std::size_t>(most);
}

void check_separator(const TracedText& separator) {
  if (separator.empty()) fail("split: the separator is empty");
}

bool is_small(char c) { return c >= 'a' && c <= 'z'; }
/// Says whether the filter title takes what stands behind a character for a word.
bool begins_word_after(std::uint32_t c) {
  return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_space(c);
}
bool is_capital(char c) { return c >= 'A' && c <= 'Z'; }

}  // namespace

TextSearch search_for(Heap& heap, std::string_view wanted, TextSearch::Which which) {
  heap.charge(TextSearch::memory_bytes(wanted.size()));
  heap.look_at(wanted.size());
  return TextSearch(wanted, which);
}

Value strip(Heap& heap, const TracedText& text, const TracedText* characters, Sides sides) {
  const std::string& bytes = text.bytes();
  const Stripped stripped(heap, characters);
  std::size_t begin = 0;
  std::size_t end = bytes.size();
  while (sides.left && begin < end) {
    const CodePoint first = code_point_at(bytes, begin);
    if (!stripped(bytes, begin, first)) break;
    begin += first.bytes;
  }
  while (sides.right && end > begin) {
    const CodePoint last = code_point_before(bytes, end);
    if (!stripped(bytes, end - last.bytes, last)) break;
    end -= last.bytes;
  }
  return heap.text(text.slice(begin, end));
}

Value replace(Heap& heap, const TracedText& text, const TracedText& old, const TracedText& fresh,
              std::int64_t most) {
  if (old.empty()) fail("replace: the text to replace is empty");
  const std::string& bytes = text.bytes();
  heap.look_at(bytes.size());
  const TextSearch search = search_for(heap, old.bytes());
  TextBuilder result(heap);
  std::size_t at = 0;
  for (std::size_t left = most_splits(most); left > 0; --left) {
    heap.step();
    const std::size_t found = search.in(std::string_view(bytes).substr(at));
    if (found == std::string::npos) break;
    result.append(text, at, at + found);
    result.append(fresh);
    at += found + old.size();
  }
  result.append(text, at, bytes.size());
  return result.value();
}

Value split(Heap& heap, const TracedText& text, const TracedText& separator, std::int64_t most) {
  check_separator(separator);
  heap.look_at(text.size());
  const TextSearch search = search_for(heap, separator.bytes());
  std::vector<Value> parts;
  std::size_t at = 0;
  for (std::size_t left = most_splits(most); left > 0; --left) {
    const std::size_t found = search.in(std::string_view(text.bytes()).substr(at));
    if (found == std::string::npos) break;
    parts.push_back(heap.text(text.slice(at, at + found)));
    at += found + separator.size();
  }
  parts.push_back(heap.text(text.slice(at, text.size())));
  return heap.list(std::move(parts));
}

Value split_from_right(Heap& heap, const TracedText& text, const TracedText& separator,
                       std::int64_t most) {
  check_separator(separator);
  heap.look_at(text.size());
  const TextSearch search = search_for(heap, separator.bytes(), TextSearch::Which::kLast);
  std::vector<Value> parts;
  std::size_t end = text.size();
  for (std::size_t left = most_splits(most); left > 0; --left) {
    const std::size_t found = search.in(std::string_view(text.bytes()).substr(0, end));
    if (found == std::string::npos) break;
    parts.push_back(heap.text(text.slice(found + separator.size(), end)));
    end = found;
  }
  parts.push_back(heap.text(text.slice(0, end)));
  std::reverse(parts.begin(), parts.end());
  return heap.list(std::move(parts));
}

Value split_words(Heap& heap, const TracedText& text, std::int64_t most) {
  const std::string& bytes = text.bytes();
  heap.decode(bytes.size());
  std::vector<Value> parts;
  std::size_t at = skip_space(bytes, 0, bytes.size());
  for (std::size_t left = most_splits(most); at < bytes.size() && left > 0; --left) {
    std::size_t end = at;
    while (end < bytes.size()) {
      const CodePoint next = code_point_at(bytes, end);
      if (is_space(next.value)) break;
      end += next.bytes;
    }
    parts.push_back(heap.text(text.slice(at, end)));
    at = skip_space(bytes, end, bytes.size());
  }
  if (at < bytes.size()) parts.push_back(heap.text(text.slice(at, bytes.size())));
  return heap.list(std::move(parts));
}

namespace {

/// Returns the bytes of the line end that begins at a byte, or 0.
std::size_t line_end_at(std::string_view bytes, std::size_t at) {
  if (bytes.substr(at, 2) == "\r\n") return 2;
  const CodePoint c = code_point_at(bytes, at);
  const bool ends = (c.value >= '\n' && c.value <= '\r') || (c.value >= 0x1C && c.value <= 0x1E) ||
                    (c.bytes > 1 && c.value == 0x85) || c.value == 0x2028 || c.value == 0x2029;
  return ends ? c.bytes : 0;
}

}  // namespace

Value split_lines(Heap& heap, const TracedText& text, LineEnds ends) {
  const std::string& bytes = text.bytes();
  heap.decode(bytes.size());
  std::vector<Value> lines;
  std::size_t begin = 0;
  while (begin < bytes.size()) {
    std::size_t end = begin;
    std::size_t line_end = 0;
    while (end < bytes.size() && (line_end = line_end_at(bytes, end)) == 0) {
      end += code_point_at(bytes, end).bytes;
    }
    lines.push_back(heap.text(text.slice(begin, ends == LineEnds::kKept ? end + line_end : end)));
    begin = end + line_end;
  }
  return heap.list(std::move(lines));
}

Value join(Heap& heap, const std::vector<Value>& items, const TracedText& separator) {
  TextBuilder result(heap);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) result.append(separator);
    print(result, heap, items[i]);
  }
  return result.value();
}

Value change_case(Heap& heap, const TracedText& text, LetterCase wanted) {
  TextBuilder result(heap);
  bool first = true;  // of the text, or of a word
  for (const TextSpan& span : text.spans()) {
    heap.charge(span.end - span.begin);
    std::string changed = text.bytes().substr(span.begin, span.end - span.begin);
    for (std::size_t at = 0; at < changed.size(); at += code_point_at(changed, at).bytes) {
      if (in_cased_script(code_point_at(changed, at).value)) {
        fail("upper, lower, capitalize and title change ASCII letters only, not '" +
             changed.substr(at, code_point_at(changed, at).bytes) + "'");
      }
      char& c = changed[at];
      const bool capital = wanted == LetterCase::kUpper || (wanted != LetterCase::kLower && first);
      const bool letter = is_small(c) || is_capital(c);
      if (capital && is_small(c)) c = static_cast<char>(c - 'a' + 'A');
      if (!capital && is_capital(c)) c = static_cast<char>(c - 'A' + 'a');
      first = wanted == LetterCase::kTitle   ? !letter
              : wanted == LetterCase::kWords ? begins_word_after(code_point_at(changed, at).value)
                                             : false;
    }
    result.append(changed, span.origin);
  }
  return result.value();
}

}  // namespace strata::chat
