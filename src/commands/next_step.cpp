// Prints what a user will probably type next. Commands call it last, when what they made is there.

#include "commands/next_step.h"

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

}  // namespace strata
