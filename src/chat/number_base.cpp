// Reads whole numbers of other bases. A number is turned into pieces of nine decimal digits, digit
// by digit: quadratic in its length, which is why that is bounded and charged for.

#include "chat/number_base.h"

#include <utility>
#include <vector>

namespace strata::chat {

namespace {

constexpr int kMostBase = 36;
constexpr std::uint64_t kPiece = 1'000'000'000;
constexpr std::size_t kPieceDigits = 9;

/// Returns the value of a digit, or kMostBase for what is none.
int value_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return kMostBase;
}

/// Takes "0x" and the like from the beginning of a number if they fit its base, which may be 0: as
/// they say. Returns whether there was one; an underscore may follow it.
bool take_prefix(std::string_view& text, std::int64_t& base) {
  if (text.size() < 2 || text[0] != '0') return false;
  const int said = base_of_letter(text[1]);
  if (said == 0 || (base != 0 && base != said)) return false;
  base = said;
  text.remove_prefix(2);
  if (text.starts_with('_')) text.remove_prefix(1);
  return true;
}

/// Returns the digits without single underscores between them; nothing if that is not what they
/// are.
std::optional<std::string> plain_digits(std::string_view text, int base) {
  std::string digits;
  bool after_digit = false;
  for (const char c : text) {
    const bool is_digit = is_digit_of(c, base);
    if (!is_digit && (c != '_' || !after_digit)) return std::nullopt;
    if (is_digit) digits += c;
    after_digit = is_digit;
  }
  if (!after_digit || digits.size() > kMostBaseDigits) return std::nullopt;
  return digits;
}

}  // namespace

int base_of_letter(char letter) {
  switch (letter) {
    case 'x':
    case 'X': return 16;
    case 'o':
    case 'O': return 8;
    case 'b':
    case 'B': return 2;
    default: return 0;
  }
}

bool is_digit_of(char c, int base) { return value_of(c) < base; }

std::string decimal_digits(std::string_view digits, int base) {
  std::vector<std::uint64_t> pieces{0};  // the lowest first
  for (const char c : digits) {
    auto carry = static_cast<std::uint64_t>(value_of(c));
    for (std::uint64_t& piece : pieces) {
      carry += piece * static_cast<std::uint64_t>(base);
      piece = carry % kPiece;
      carry /= kPiece;
    }
    if (carry > 0) pieces.push_back(carry);
  }
  std::string text = std::to_string(pieces.back());
  pieces.pop_back();
  for (; !pieces.empty(); pieces.pop_back()) {
    const std::string piece = std::to_string(pieces.back());
    text += std::string(kPieceDigits - piece.size(), '0') + piece;
  }
  return text;
}

std::optional<std::string> whole_in_base(Heap& heap, std::string_view text, std::int64_t base) {
  if (base < 0 || base == 1 || base > kMostBase || text.size() > 2 * kMostBaseDigits) {
    return std::nullopt;
  }
  heap.look_at(text.size() * text.size() / kPieceDigits);
  const bool below = text.starts_with('-');
  if (below || text.starts_with('+')) text.remove_prefix(1);
  const bool is_literal = base == 0;
  const bool has_prefix = take_prefix(text, base);
  if (base == 0) base = 10;
  const std::optional<std::string> digits = plain_digits(text, static_cast<int>(base));
  if (!digits) return std::nullopt;
  std::string decimal = decimal_digits(*digits, static_cast<int>(base));
  // A literal that begins with 0 is 0.
  if (is_literal && !has_prefix && digits->front() == '0' && decimal != "0") return std::nullopt;
  return below ? '-' + decimal : decimal;
}

}  // namespace strata::chat
