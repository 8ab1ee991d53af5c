// Decides which text of a rendered conversation is learnt: what the assistant wrote, and the
// end-of-turn token after it. docs/fine-tuning.md says how.
#pragma once

#include <cstdint>
#include <vector>

#include "strata/chat/chat_template.h"
#include "strata/chat/conversation.h"
#include "strata/chat/rendered_chat.h"

namespace strata {

struct AssistantSpans {
  /// What has loss, in order and without overlaps; the origin has the message alone.
  std::vector<TextSpan> spans;
  /// The assistant's messages of which nothing has loss, since the template shows nothing of them.
  std::vector<std::int32_t> silent;
};

/// Returns what has loss in `rendered`, which `chat_template` made of `conversation` with
/// `options`. Without spans the conversation teaches nothing, and the caller should say so. Renders
/// the beginnings of the conversation, two for each message of the assistant, unless the template
/// marks by `{% generation %}` what is learnt; beginnings that the template refuses are done
/// without.
[[nodiscard]] AssistantSpans assistant_spans(const ChatTemplate& chat_template,
                                             const Conversation& conversation,
                                             const RenderOptions& options,
                                             const RenderedChat& rendered);

}  // namespace strata
