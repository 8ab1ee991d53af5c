// What an entry of run.sample_prompts is. A config holds each as a text: a prompt itself, or the
// JSON of a conversation, which stands there as an object. Reading and writing configs, planning
// and sampling all ask here which one it is.
#pragma once

#include <string_view>

namespace strata {

/// Returns whether an entry is a conversation: the text of a JSON object that has "messages".
[[nodiscard]] bool is_conversation(std::string_view entry);

}  // namespace strata
