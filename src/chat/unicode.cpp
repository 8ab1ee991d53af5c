// Decodes UTF-8 leniently: texts come from JSON, which was checked, and from templates.

#include "chat/unicode.h"

#include <algorithm>
#include <array>
#include <span>

#include "chat/python_text_tables.h"

namespace strata::chat {

namespace {

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

std::size_t length_by_lead(unsigned char lead) {
  if (lead < 0xC2) return 1;
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 1;
}

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

template <std::size_t N>
bool in_any(const std::array<Range, N>& ranges, std::uint32_t code_point) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const Range& range) {
    return code_point >= range.first && code_point <= range.last;
  });
}

}  // namespace

CodePoint code_point_at(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t bytes = length_by_lead(lead);
  if (bytes == 1 || at + bytes > text.size()) return {lead, 1};
  std::uint32_t value = lead & (0xFFu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if (!is_continuation(text[at + i])) return {lead, 1};
    value = value << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3Fu);
  }
  return {value, bytes};
}

CodePoint code_point_before(std::string_view text, std::size_t end) {
  for (std::size_t bytes = 1; bytes <= std::min<std::size_t>(4, end); ++bytes) {
    if (is_continuation(text[end - bytes])) continue;
    const CodePoint found = code_point_at(text.substr(0, end), end - bytes);
    if (found.bytes == bytes) return found;
    break;
  }
  return {static_cast<unsigned char>(text[end - 1]), 1};
}

std::size_t count_code_points(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); at += code_point_at(text, at).bytes) ++count;
  return count;
}

std::size_t code_point_offset(std::string_view text, std::size_t number) {
  std::size_t at = 0;
  for (; number > 0 && at < text.size(); --number) at += code_point_at(text, at).bytes;
  return at;
}

std::size_t valid_utf8_prefix(std::string_view text) {
  constexpr std::array<std::uint32_t, 5> kSmallest{0, 0, 0x80, 0x800, 0x10000};  // by bytes
  std::size_t at = 0;
  while (at < text.size()) {
    const CodePoint next = code_point_at(text, at);
    const bool surrogate = next.value >= 0xD800 && next.value < 0xE000;
    const bool alone = next.bytes == 1 && next.value >= 0x80;
    if (alone || surrogate || next.value < kSmallest[next.bytes] || next.value > 0x10FFFF) break;
    at += next.bytes;
  }
  return at;
}

void append_utf8(std::string& text, std::uint32_t code_point) {
  const auto add = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  const auto add_rest = [&](int shift) { add(0x80 | ((code_point >> shift) & 0x3F)); };
  if (code_point < 0x80) {
    add(code_point);
  } else if (code_point < 0x800) {
    add(0xC0 | code_point >> 6);
    add_rest(0);
  } else if (code_point < 0x10000) {
    add(0xE0 | code_point >> 12);
    add_rest(6);
    add_rest(0);
  } else {
    add(0xF0 | code_point >> 18);
    add_rest(12);
    add_rest(6);
    add_rest(0);
  }
}

bool is_space(std::uint32_t code_point) {
  constexpr std::array<Range, 10> kSpaces{{{0x09, 0x0D},
                                           {0x1C, 0x20},
                                           {0x85, 0x85},
                                           {0xA0, 0xA0},
                                           {0x1680, 0x1680},
                                           {0x2000, 0x200A},
                                           {0x2028, 0x2029},
                                           {0x202F, 0x202F},
                                           {0x205F, 0x205F},
                                           {0x3000, 0x3000}}};
  return in_any(kSpaces, code_point);
}

namespace {

bool in_table(std::span<const python_text::CodePointRange> table, std::uint32_t code_point) {
  const auto after = std::upper_bound(
      table.begin(), table.end(), code_point,
      [](std::uint32_t wanted, const auto& range) { return wanted < range.first; });
  return after != table.begin() && code_point <= (after - 1)->last;
}

bool is_ascii_letter(std::uint32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace

bool begins_name(std::uint32_t code_point) {
  return is_ascii_letter(code_point) || code_point == '_' ||
         in_table(python_text::kNameStarts, code_point);
}

bool continues_name(std::uint32_t code_point) {
  if (code_point >= 0x80) return in_table(python_text::kNameParts, code_point);
  return begins_name(code_point) || is_digit(code_point);
}

bool is_printable(std::uint32_t code_point) {
  if (code_point < 0x80) return code_point >= ' ' && code_point < 0x7F;
  return in_table(python_text::kPrintable, code_point);
}

bool is_digit(std::uint32_t code_point) {
  return (code_point >= '0' && code_point <= '9') || in_table(python_text::kDigits, code_point);
}

std::size_t skip_space(std::string_view text, std::size_t begin, std::size_t end) {
  while (begin < end) {
    const CodePoint next = code_point_at(text, begin);
    if (!is_space(next.value)) break;
    begin += next.bytes;
  }
  return std::min(begin, end);
}

std::size_t skip_space_back(std::string_view text, std::size_t begin, std::size_t end) {
  while (end > begin) {
    const CodePoint last = code_point_before(text, end);
    if (!is_space(last.value)) break;
    end -= last.bytes;
  }
  return std::max(begin, end);
}

bool in_cased_script(std::uint32_t code_point) {
  // Latin to Armenian, Georgian, Cherokee, phonetic and Greek extensions, letter-like symbols,
  // Glagolitic and Coptic, further Cyrillic and Latin, ligatures, full-width forms, Deseret to
  // Adlam.
  constexpr std::array<Range, 14> kCased{{{0xB5, 0xB5},
                                          {0xC0, 0xD6},
                                          {0xD8, 0xF6},
                                          {0xF8, 0x587},
                                          {0x10A0, 0x10FF},
                                          {0x13A0, 0x13FF},
                                          {0x1C80, 0x1FFF},
                                          {0x2126, 0x2188},
                                          {0x24B6, 0x24E9},
                                          {0x2C00, 0x2DFF},
                                          {0xA640, 0xABBF},
                                          {0xFB00, 0xFB17},
                                          {0xFF21, 0xFF5A},
                                          {0x10400, 0x1E943}}};
  return in_any(kCased, code_point);
}

}  // namespace strata::chat
