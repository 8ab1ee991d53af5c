// Tells text from other files. What a file's first bytes say goes before what its name says, and
// both before a whole reading, which can end with nothing better than "not UTF-8".

#include "data/text_survey.h"

#include <algorithm>
#include <span>
#include <string>

#include "data/text_hash.h"
#include "strata/base/bytes.h"
#include "strata/base/utf8.h"

namespace strata {

namespace {

constexpr FileKind kZeroBytes{"is binary: it has bytes that are 0",
                              "Name text files, or add --format text if it is text all the same"};
constexpr FileKind kNotUtf8{"is not text in UTF-8",
                            "Convert it first, as with iconv -f LATIN1 -t UTF-8 FILE > TEXT"};

/// Sees whether the pieces of a text, one after the other, are valid UTF-8.
class Utf8Check {
 public:
  void add(std::string_view piece) {
    if (!valid_) return;
    rest_ += piece;
    rest_.erase(0, valid_utf8_bytes(rest_));
    // A character has at most four bytes: a longer rest is not the beginning of one.
    valid_ = rest_.size() < 4;
  }
  [[nodiscard]] bool valid() const { return valid_; }
  /// Returns whether it is valid and does not end within a character.
  [[nodiscard]] bool whole() const { return valid_ && rest_.empty(); }

 private:
  std::string rest_;  ///< between two pieces: the beginning of a character that a piece cut in two
  bool valid_ = true;
};

}  // namespace

std::optional<FileKind> other_than_text(std::string_view beginning, std::string_view name) {
  auto kind = recognize_format(beginning);
  if (!kind) kind = recognize_utf16(beginning);
  if (!kind) kind = recognize_json(beginning);
  if (!kind) kind = format_by_name(name);
  return kind;
}

TextSurvey survey_text(std::string_view text, std::string_view name, bool as_text) {
  TextSurvey result;
  if (!as_text) {
    result.not_text = other_than_text(text.substr(0, kBeginningBytes), name);
    if (!result.not_text && text.find('\0') != text.npos) result.not_text = kZeroBytes;
  }
  if (as_text) result.not_text = recognize_utf16(text.substr(0, kBeginningBytes));
  if (!result.not_text && valid_utf8_bytes(text) != text.size()) result.not_text = kNotUtf8;
  if (!result.not_text) result.hash = hash_text(text);
  return result;
}

void read_pieces(const InputFile& file, const std::function<bool(std::string_view)>& on_piece) {
  std::string buffer;
  for (std::size_t begin = 0; begin < file.bytes(); begin += buffer.size()) {
    buffer.resize(std::min<std::size_t>(kMiB, file.bytes() - begin));
    file.read(begin, std::as_writable_bytes(std::span(buffer)));
    if (!on_piece(begin == 0 ? without_mark(buffer) : buffer)) return;
  }
}

TextSurvey survey_text(const InputFile& file, bool as_text, const std::function<void()>& on_piece) {
  TextSurvey result;
  const std::string beginning = read_beginning(file);
  result.not_text =
      as_text ? recognize_utf16(beginning) : other_than_text(beginning, file.path().string());
  if (result.not_text) return result;
  TextHash hash;
  Utf8Check utf8;
  bool zeros = false;
  read_pieces(file, [&](std::string_view piece) {
    hash.add(piece);
    utf8.add(piece);
    zeros = !as_text && piece.find('\0') != std::string_view::npos;
    on_piece();
    return !zeros && utf8.valid();
  });
  result.hash = hash.value();
  if (zeros) {
    result.not_text = kZeroBytes;
  } else if (!utf8.whole()) {
    result.not_text = kNotUtf8;
  }
  return result;
}

}  // namespace strata
