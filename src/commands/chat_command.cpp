// Talks with a model. Each turn renders the whole conversation anew, as the template wants it, and
// goes through the model from its beginning.

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands/completions.h"
#include "commands/model_session.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/stop_signals.h"
#include "strata/base/text.h"
#include "strata/base/utf8.h"
#include "strata/commands/generate.h"

namespace strata {

namespace {

/// Returns what somebody says; a terminal need not send UTF-8.
ChatMessage message(const char* role, const std::string& text) {
  return {.role = role, .content = with_valid_utf8(text)};
}

}  // namespace

int chat_command(const ChatOptions& options) {
  const NamedModel model("chat", options.model);
  model.text().require_template();
  PromptSettings settings = model.settings(options.draw);
  if (!options.draw.ignore_eos) {
    model.warn_of_endless_answers();
    std::ranges::move(model.answer_stops(), std::back_inserter(settings.stops));
  }
  constexpr std::int64_t kContext = 8192;
  const std::int64_t context =
      options.model.context.value_or(std::min(kContext, model.config().max_position_embeddings));
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
                  .where = "the conversation",
                  .ids = model.text().encode(Conversation::of(messages)),
                  .settings = settings,
                  .is_conversation = true};
    complete_prompt(prompt, context);
    GenerateRequest request{.prompt = prompt.ids,
                            .sampling = settings.sampling,
                            .most_tokens = prompt.settings.most_tokens};
    const std::string problem = generator.problem(request);
    if (!problem.empty()) throw ConfigError("the conversation cannot go on: " + problem);
    Completion completion(model.text(), prompt, 0);
    std::optional<GenerateRequest> once = std::move(request);
    const StopSignals stop;
    generator.run([&] { return std::exchange(once, std::nullopt); },
                  [&](const DrawnToken& token) {
                    if (const int signal = stop.received()) throw Interrupted(signal);
                    const bool ends =
                        !options.draw.ignore_eos && model.ends(token.id, prompt.is_conversation);
                    std::string added;
                    const bool goes_on = completion.add(token, ends, added) && !completion.full();
                    if (!goes_on) added += completion.finish();
                    std::cout << printable_for(STDOUT_FILENO, added) << std::flush;
                    return goes_on;
                  });
    std::cout << std::endl;
    messages.push_back(message("assistant", completion.text()));
  }
  if (asks) std::cout << std::endl;
  return 0;
}

}  // namespace strata
