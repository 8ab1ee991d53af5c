// `tokenize --show` and `inspect` print through here. Text of a document is shown with what a
// terminal would obey written out.

#include "commands/token_printer.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "strata/base/text.h"
#include "strata/data/byte_tokenizer.h"

namespace strata {

namespace {

constexpr std::string_view kGreen = "\033[32m";
constexpr std::string_view kPlain = "\033[0m";

std::string shown_text(const ShownTokens& shown, std::size_t tokens) {
  const std::span<const std::int32_t> ids = shown.ids.first(tokens);
  return shown.tokenizer != nullptr ? shown.tokenizer->decode(ids) : ByteTokenizer::decode(ids);
}

/// Returns a token on one line.
std::string piece_of(const ShownTokens& shown, std::int32_t id) {
  std::string piece;
  if (shown.tokenizer != nullptr) {
    piece = shown.tokenizer->token(id);
  } else if (id == ByteTokenizer::kEndOfDocument) {
    piece = "(end of document)";
  } else {
    piece = static_cast<char>(id);
  }
  return printable_name(piece);
}

bool counts(const ShownTokens& shown, std::size_t token) {
  return shown.loss.empty() || shown.loss[token] != 0;
}

/// Prints the text in runs that have loss or have not. A text is decoded from its beginning, since
/// a token's text may depend on those before it.
void print_text(std::ostream& out, const ShownTokens& shown, bool colours) {
  std::size_t printed = 0;
  for (std::size_t end = 0; end < shown.ids.size();) {
    const bool learnt = counts(shown, end);
    while (end < shown.ids.size() && (!colours || counts(shown, end) == learnt)) ++end;
    const std::string text = shown_text(shown, end);
    const std::size_t begin = std::min(printed, text.size());
    out << (colours && learnt ? kGreen : "") << printable(std::string_view(text).substr(begin))
        << (colours && learnt ? kPlain : "");
    printed = text.size();
  }
  out << '\n';
}

std::string padded(std::string text, std::size_t columns) {
  text.insert(0, text.size() < columns ? columns - text.size() : 0, ' ');
  return text;
}

}  // namespace

bool shows_colours() {
  const char* const refused = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) != 0 && (refused == nullptr || *refused == '\0');
}

void print_tokens(std::ostream& out, const ShownTokens& shown, bool colours) {
  std::int64_t learnt = 0;
  for (std::size_t i = 0; i < shown.ids.size(); ++i) learnt += counts(shown, i) ? 1 : 0;
  out << printable_name(shown.name) << ": " << format_count(std::ssize(shown.ids)) << " tokens, "
      << format_count(learnt) << " with loss\n";
  print_text(out, shown, colours);
  out << "  position       id loss  token\n";
  for (std::size_t i = 0; i < shown.ids.size(); ++i) {
    const bool coloured = colours && counts(shown, i);
    out << padded(std::to_string(shown.first + static_cast<std::int64_t>(i)), 10)
        << padded(std::to_string(shown.ids[i]), 9) << (counts(shown, i) ? " loss  " : "    -  ")
        << (coloured ? kGreen : "") << piece_of(shown, shown.ids[i]) << (coloured ? kPlain : "")
        << '\n';
  }
  out << '\n';
}

}  // namespace strata
