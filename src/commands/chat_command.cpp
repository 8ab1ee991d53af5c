// `chat` talks with a model. Each turn renders the whole conversation anew, as the template wants
// it, and goes through the model from its beginning.

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/log.h"
#include "strata/base/stop_signals.h"
#include "strata/base/text.h"
#include "strata/base/utf8.h"
#include "strata/commands/generate.h"
#include "strata/complete/completion.h"
#include "strata/complete/named_model.h"

namespace strata {

namespace {

/// Returns what somebody says; a terminal need not send UTF-8.
ChatMessage message(const char* role, const std::string& text) {
  return {.role = role, .content = with_valid_utf8(text)};
}

/// Prints the answer to a prompt as it is drawn, and returns it.
std::string print_answer(Generator& generator, const ModelText& text, const Prompt& prompt) {
  const StopSignals stop;
  std::optional<PromptSample> once = PromptSample{.prompt = prompt};
  std::string answer;
  complete_prompts(
      generator, text, [&] { return std::exchange(once, std::nullopt); },
      [&](const Completion& completion, const std::string& added) {
        if (const int signal = stop.received()) throw Interrupted(signal);
        std::cout << printable_for(STDOUT_FILENO, added) << std::flush;
        if (completion.over()) answer = completion.text();
      });
  std::cout << std::endl;
  return answer;
}

}  // namespace

int chat_command(const ChatOptions& options) {
  const NamedModel model("chat", options.model);
  model.text().require_template();
  PromptSettings settings = model.settings(options.draw);
  if (!options.draw.ignore_eos) {
    model.warn_of_endless_answers();
    end_answer(settings, model.text().turn_end());
  }
  constexpr std::int64_t kContext = 8192;
  const std::int64_t context =
      options.model.context.value_or(std::min(kContext, model.config().context_limit()));
  const std::unique_ptr<GenerationSession> session =
      model.load(context, {}, settings.sampling.repeat_penalty != 1);
  Generator generator(session->engine());
  std::vector<ChatMessage> messages;
  if (!options.system.empty()) messages.push_back(message("system", options.system));
  const bool asks = isatty(STDIN_FILENO) != 0;
  if (asks) log::info("chat     each line is answered; Ctrl-D ends it");
  std::string said;
  while (true) {
    if (asks) std::cout << "> " << std::flush;
    if (!std::getline(std::cin, said)) break;
    if (said.empty()) continue;
    messages.push_back(message("user", said));
    Prompt prompt{.id = "1",
                  .where = "the conversation cannot go on",
                  .ids = model.text().encode(Conversation::of(messages)),
                  .settings = settings,
                  .is_conversation = true};
    complete_settings(prompt, context);
    messages.push_back(message("assistant", print_answer(generator, model.text(), prompt)));
  }
  if (asks) std::cout << std::endl;
  return 0;
}

}  // namespace strata
