// The search against that of std::string, and its work where that one's is quadratic.

#include "strata/base/text_search.h"

#include <string>
#include <string_view>
#include <vector>

#include "support/catch.h"

namespace strata {
namespace {

/// Returns all texts of up to `most` letters of "ab".
std::vector<std::string> texts_of_two_letters(std::size_t most) {
  std::vector<std::string> texts{""};
  for (std::size_t i = 0; texts[i].size() < most; ++i) {
    texts.push_back(texts[i] + 'a');
    texts.push_back(texts[i] + 'b');
  }
  return texts;
}

}  // namespace

TEST_CASE("a text is found where std::string finds it, from both ends") {
  const std::vector<std::string> texts = texts_of_two_letters(9);
  const std::vector<std::string> all_wanted = texts_of_two_letters(4);
  for (const std::string& wanted : all_wanted) {
    const TextSearch first(wanted);
    const TextSearch last(wanted, TextSearch::Which::kLast);
    for (const std::string& text : texts) {
      INFO('"' << wanted << "\" in \"" << text << '"');
      REQUIRE(first.in(text) == text.find(wanted));
      REQUIRE(last.in(text) == text.rfind(wanted));
    }
  }
}

// std::string's own search would compare 10^13 bytes.
TEST_CASE("a text that all but stands everywhere is searched in one pass") {
  const std::string text(8'000'000, 'a');
  const std::string half(4'000'000, 'a');
  CHECK(TextSearch(half + 'b').in(text) == std::string_view::npos);
  CHECK(TextSearch('b' + half, TextSearch::Which::kLast).in(text) == std::string_view::npos);
}

}  // namespace strata
