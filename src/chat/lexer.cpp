// Cuts templates into text and tokens. The lexer goes through text until a tag begins, and through
// the tag until its end; within brackets an end of a tag is none, so {{ {'a': {}} }} is read as it
// is meant.

#include "chat/lexer.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "chat/number_base.h"
#include "chat/string_literal.h"
#include "chat/unicode.h"

namespace strata::chat {

namespace {

bool is_decimal(char c) { return c >= '0' && c <= '9'; }

/// Returns the source with "\n" at all line ends, and without the last one.
std::string normalized(std::string_view source) {
  std::string result;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      result += source[i];
    } else {
      result += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (result.ends_with('\n')) result.pop_back();
  return result;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) text();
    add(TokenKind::kEnd, {});
    return std::move(tokens_);
  }

 private:
  [[nodiscard]] bool sees(std::string_view what) const { return sees_at(at_, what); }
  [[nodiscard]] bool sees_at(std::size_t at, std::string_view what) const {
    return at < source_.size() && std::string_view(source_).substr(at, what.size()) == what;
  }
  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void move_to(std::size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    at_ = end;
  }
  void skip_white_space() { move_to(skip_space(source_, at_, source_.size())); }

  /// Reads text up to the next tag, and the tag.
  void text() {
    const std::size_t begin = at_;
    std::size_t tag = source_.find('{', begin);
    while (tag != std::string::npos && !begins_tag(tag)) tag = source_.find('{', tag + 1);
    add_text(begin, tag);
    if (at_ == source_.size()) return;
    const char kind = source_[at_ + 1];
    const int begin_line = line_;
    at_ += 2;
    if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) ++at_;
    if (kind == '#') return comment(begin_line);
    if (kind == '%' && raw_begins()) return raw(begin_line);
    add(kind == '%' ? TokenKind::kBlockBegin : TokenKind::kOutputBegin, {});
    inside(kind == '%' ? "%}" : "}}", begin_line);
    add(kind == '%' ? TokenKind::kBlockEnd : TokenKind::kOutputEnd, {});
    end_tag(kind == '%');
  }

  [[nodiscard]] bool begins_tag(std::size_t at) const {
    if (at + 1 >= source_.size()) return false;
    const char next = source_[at + 1];
    return next == '{' || next == '%' || next == '#';
  }

  /// Adds the text [begin, tag) without what the tag behind it removes, and goes to the tag.
  void add_text(std::size_t begin, std::size_t tag) {
    std::size_t end = std::min(tag, source_.size());
    if (tag != std::string::npos) end = kept_before_tag(begin, tag);
    const int line = line_;
    move_to(std::min(tag, source_.size()));
    if (end > begin) {
      tokens_.push_back({TokenKind::kText, source_.substr(begin, end - begin), line});
    }
  }
  [[nodiscard]] std::size_t kept_before_tag(std::size_t begin, std::size_t tag) const {
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    if (sign == '-') return skip_space_back(source_, begin, tag);
    if (sign == '+' || source_[tag + 1] == '{') return tag;
    // A line that another tag has begun is not stripped, so that nothing before `begin` is looked
    // at but for the end of the line before.
    const std::size_t first = begin == 0 ? 0 : begin - 1;
    const std::size_t line_end = std::string_view(source_).substr(first, tag - first).rfind('\n');
    if (line_end == std::string::npos && begin > 0) return tag;
    const std::size_t line = line_end == std::string::npos ? 0 : first + line_end + 1;
    return skip_space_back(source_, line, tag) == line ? line : tag;
  }

  void comment(int begin_line) {
    const std::size_t begin = at_;
    const std::size_t end = source_.find("#}", begin);
    if (end == std::string::npos) throw SyntaxError(begin_line, "a comment has no end, '#}'");
    move_to(end);
    if (at_ > begin && (source_[at_ - 1] == '-' || source_[at_ - 1] == '+')) --at_;
    end_tag(true);
  }

  /// Says whether {% raw %} stands here, and goes behind it if so.
  bool raw_begins() {
    std::size_t at = skip_space(source_, at_, source_.size());
    if (source_.compare(at, 3, "raw") != 0) return false;
    at = skip_space(source_, at + 3, source_.size());
    const bool strip = at < source_.size() && source_[at] == '-';
    if (source_.compare(at + (strip ? 1 : 0), 2, "%}") != 0) return false;
    move_to(at + (strip ? 3 : 2));
    if (strip) skip_white_space();
    return true;
  }
  /// Takes text as it stands up to {% endraw %}.
  void raw(int begin_line) {
    const std::size_t begin = at_;
    for (std::size_t tag = source_.find("{%", at_); tag != std::string::npos;
         tag = source_.find("{%", tag + 2)) {
      std::size_t at = tag + 2;
      if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) ++at;
      at = skip_space(source_, at, source_.size());
      if (source_.compare(at, 6, "endraw") != 0) continue;
      add_text(begin, tag);
      move_to(skip_space(source_, at + 6, source_.size()));
      const bool sign = sees("-") || sees("+");
      if (source_.compare(at_ + (sign ? 1 : 0), 2, "%}") != 0) break;
      return end_tag(true);
    }
    throw SyntaxError(begin_line, "{% raw %} has no {% endraw %}");
  }

  /// Goes behind the end of a tag and what it removes; a sign may stand before it.
  void end_tag(bool is_block) {
    const bool strip = sees("-");
    const bool keep = sees("+");
    at_ += strip || keep ? 3 : 2;
    if (strip) {
      skip_white_space();
    } else if (is_block && !keep && sees("\n")) {
      move_to(at_ + 1);
    }
  }

  /// Says whether the tag ends here.
  [[nodiscard]] bool tag_ends(std::string_view end) const {
    if (!brackets_.empty()) return false;
    if (sees(end)) return true;
    const bool sign = sees("-") || (end == "%}" && sees("+"));
    return sign && source_.compare(at_ + 1, 2, end) == 0;
  }

  /// Reads the tokens of a tag up to its end.
  void inside(std::string_view end, int begin_line) {
    brackets_.clear();
    while (true) {
      skip_white_space();
      if (at_ >= source_.size()) {
        throw SyntaxError(begin_line, "a tag has no end, '" + std::string(end) + "'");
      }
      if (tag_ends(end)) return;
      const char c = source_[at_];
      if (begins_name(code_point_at(source_, at_).value)) {
        name();
      } else if (is_decimal(c)) {
        number();
      } else if (c == '\'' || c == '"') {
        string(c);
      } else {
        an_operator();
      }
    }
  }

  void name() {
    std::size_t end = at_;
    while (end < source_.size()) {
      const CodePoint next = code_point_at(source_, end);
      if (!continues_name(next.value)) break;
      end += next.bytes;
    }
    add(TokenKind::kName, source_.substr(at_, end - at_));
    at_ = end;
  }

  /// Returns where digits end that begin at `at`; a single "_" may stand between two.
  [[nodiscard]] std::size_t digits_end(std::size_t at) const {
    const auto digit = [&](std::size_t i) { return i < source_.size() && is_decimal(source_[i]); };
    while (digit(at) || (at < source_.size() && source_[at] == '_' && digit(at + 1))) ++at;
    return at;
  }
  [[nodiscard]] bool digit_at(std::size_t at) const {
    return at < source_.size() && is_decimal(source_[at]);
  }
  /// Returns where a fraction and an exponent behind digits end, or `at` if there is neither.
  [[nodiscard]] std::size_t real_end(std::size_t at) const {
    if (sees_at(at, ".") && digit_at(at + 1)) at = digits_end(at + 1);
    if (!sees_at(at, "e") && !sees_at(at, "E")) return at;
    const bool sign = sees_at(at + 1, "+") || sees_at(at + 1, "-");
    const std::size_t exponent = at + (sign ? 2 : 1);
    return digit_at(exponent) ? digits_end(exponent) : at;
  }
  /// Reads 0x1f and the like; returns whether there is such a number.
  bool number_of_other_base() {
    const int base =
        source_[at_] == '0' && at_ + 1 < source_.size() ? base_of_letter(source_[at_ + 1]) : 0;
    if (base == 0) return false;
    std::string digits;
    std::size_t end = at_ + 2;
    while (end < source_.size()) {
      const std::size_t digit = end + (source_[end] == '_' ? 1 : 0);
      if (digit >= source_.size() || !is_digit_of(source_[digit], base)) break;
      digits += source_[digit];
      end = digit + 1;
    }
    if (digits.empty()) return false;
    constexpr std::size_t kMostDigits = 1000;  // since templates may have many such numbers
    if (digits.size() > kMostDigits) {
      throw SyntaxError(line_, "a number has more than " + std::to_string(kMostDigits) + " digits");
    }
    add(TokenKind::kInteger, decimal_digits(digits, base));
    at_ = end;
    return true;
  }

  /// A number that begins with 0 is 0 and ends there; what follows it is not a number's.
  void number() {
    if (number_of_other_base()) return;
    const std::size_t whole = digits_end(at_);
    std::size_t end = real_end(whole);
    const bool real = end > whole;
    if (!real && source_[at_] == '0') {
      end = source_.find_first_not_of("0_", at_);
      end = digits_end(at_) < end ? digits_end(at_) : end;
      while (source_[end - 1] == '_') --end;
    }
    std::string text = source_.substr(at_, end - at_);
    std::erase(text, '_');
    at_ = end;
    add(real ? TokenKind::kFloat : TokenKind::kInteger, std::move(text));
  }

  void string(char quote) {
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) throw SyntaxError(line_, "a string has no end");
    const std::string_view inner = std::string_view(source_).substr(at_ + 1, end - at_ - 1);
    add(TokenKind::kString, unescaped(inner, line_));
    move_to(end + 1);
  }

  void an_operator() {
    constexpr std::array<std::string_view, 25> kOperators{
        "==", "!=", ">=", "<=", "//", "**", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ","};
    const auto* const found = std::find_if(kOperators.begin(), kOperators.end(),
                                           [&](std::string_view op) { return sees(op); });
    if (found == kOperators.end()) {
      const std::size_t bytes = code_point_at(source_, at_).bytes;
      throw SyntaxError(line_,
                        "unexpected character '" + source_.substr(at_, bytes) + "' in a tag");
    }
    balance(found->front());
    add(TokenKind::kOperator, std::string(*found));
    at_ += found->size();
  }
  /// Keeps count of the brackets that are open.
  void balance(char c) {
    constexpr std::string_view kOpen = "([{";
    constexpr std::string_view kClose = ")]}";
    if (kOpen.find(c) != kOpen.npos) brackets_ += kClose[kOpen.find(c)];
    if (kClose.find(c) == kClose.npos) return;
    if (!brackets_.ends_with(c)) {
      throw SyntaxError(line_, std::string("'") + c + "' closes nothing that is open");
    }
    brackets_.pop_back();
  }

  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::string brackets_;  ///< what closes those that are open
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source) { return Lexer(source).run(); }

}  // namespace strata::chat
