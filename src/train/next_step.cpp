// Prints what a user will probably type next. Commands call it last, when what they made is there.

#include "strata/train/next_step.h"

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/chat/chat_template.h"
#include "strata/data/byte_tokenizer.h"
#include "strata/model/config.h"
#include "strata/tokenizer/tokenizer.h"

namespace strata {

namespace {

/// Tells whether a model's folder has no tokenizer, and its ids are not bytes.
bool needs_tokenizer(const std::filesystem::path& folder) {
  try {
    return !Tokenizer::file_in(folder.string()) &&
           load_llama_config(folder / "config.json").vocab_size != ByteTokenizer::kVocabulary;
  } catch (const Error&) {  // it says what is wrong when it is used
    return false;
  }
}

}  // namespace

void say_next(const std::string& commands) { log::info("next     {}", commands); }

std::string trying_out(const std::filesystem::path& model, const std::filesystem::path& folder) {
  bool is_talked_to = false;
  try {
    is_talked_to = ChatTemplate::of_model((folder / "").string()).has_value();
  } catch (const Error&) {  // it says what is wrong when it is used
  }
  if (is_talked_to) return "strata chat " + shell_word(model);
  return "strata generate " + shell_word(model) +
         (needs_tokenizer(folder) ? " --tokenizer TOKENIZER" : "") + " --prompt TEXT";
}

}  // namespace strata
