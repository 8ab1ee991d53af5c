// Searches texts by the algorithm of Knuth, Morris and Pratt. Bytes that cannot begin a match are
// passed over by memchr, so that a word in a long text is found about as fast as by find().

#include "strata/base/text_search.h"

#include <algorithm>
#include <cstring>

namespace strata {

namespace {

/// Returns the number of the next byte from `at` on that is `wanted`, counted from the search's
/// beginning; the text's size if there is none.
std::size_t next_in(std::string_view text, std::size_t at, char wanted, TextSearch::Which which) {
  const std::size_t left = text.size() - at;
  const bool forwards = which == TextSearch::Which::kFirst;
  const char* const begin = forwards ? text.data() + at : text.data();
  const void* const found =
      forwards ? std::memchr(begin, wanted, left) : ::memrchr(begin, wanted, left);
  if (found == nullptr) return text.size();
  const auto place = static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
  return forwards ? place : text.size() - 1 - place;
}

}  // namespace

TextSearch::TextSearch(std::string_view wanted, Which which)
    : wanted_(wanted), fallback_(wanted.size()), which_(which) {
  if (which == Which::kLast) std::reverse(wanted_.begin(), wanted_.end());
  for (std::size_t i = 1, matched = 0; i < wanted_.size(); ++i) {
    while (matched > 0 && wanted_[i] != wanted_[matched]) matched = fallback_[matched - 1];
    if (wanted_[i] == wanted_[matched]) ++matched;
    fallback_[i] = matched;
  }
}

std::size_t TextSearch::in(std::string_view text) const {
  const bool forwards = which_ == Which::kFirst;
  if (wanted_.empty()) return forwards ? 0 : text.size();
  std::size_t matched = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (matched == 0) at = next_in(text, at, wanted_.front(), which_);
    if (at == text.size()) break;
    const char c = forwards ? text[at] : text[text.size() - 1 - at];
    while (matched > 0 && c != wanted_[matched]) matched = fallback_[matched - 1];
    if (c == wanted_[matched]) ++matched;
    if (matched == wanted_.size()) return forwards ? at + 1 - matched : text.size() - 1 - at;
  }
  return std::string_view::npos;
}

}  // namespace strata
