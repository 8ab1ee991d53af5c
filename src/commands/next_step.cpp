// Prints what a user will probably type next, with names of files quoted as a shell wants them.
// Commands call it last, when what they made is there.

#include "commands/next_step.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/chat/chat_template.h"

namespace strata {

void say_next(const std::string& commands) { log::info("next     {}", commands); }

std::string trying_out(const std::filesystem::path& model, const std::filesystem::path& folder) {
  bool is_talked_to = false;
  try {
    is_talked_to = ChatTemplate::of_model((folder / "").string()).has_value();
  } catch (const Error&) {  // it says what is wrong when it is used
  }
  return is_talked_to ? "strata chat " + shell_word(model)
                      : "strata generate " + shell_word(model) + " --prompt TEXT";
}

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
