// Quotes a name for a shell, only where a shell would take a character for more than itself.

#include "strata/base/shell_word.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace strata {

std::string shell_word(const std::filesystem::path& file) {
  const std::string text = file.string();
  constexpr std::string_view kPlain = "/._-+=:,@%";
  const bool is_plain = !text.empty() && std::ranges::all_of(text, [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || kPlain.find(c) != kPlain.npos;
  });
  if (is_plain) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace strata
