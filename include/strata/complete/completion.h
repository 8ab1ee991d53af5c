// A completion is what was drawn after a prompt: its text as tokens come, and the reason why it
// ended. The prompt says where that is. Everything that shows or writes drawn texts makes one for
// each sequence and adds the tokens that the generator hands out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/complete/prompts.h"

namespace strata {

class Completion {
 public:
  /// `text` outlives it.
  Completion(const ModelText& text, Prompt prompt, std::int64_t sample);

  /// Adds a token, and returns the text that is certain by now. What may be part of a character or
  /// of a stop is held back until it is decided, or until the token is the last one. Nothing may be
  /// added once it is over.
  std::string add(const DrawnToken& token);
  /// Returns what is held back, for a sequence that ends though it is not over.
  std::string finish();
  /// Returns whether nothing follows: a token or a stop ended it, or it has as many tokens as the
  /// prompt asks for.
  [[nodiscard]] bool over() const;

  /// Returns "stop" after a token or a text that ends it, else "length".
  [[nodiscard]] std::string_view finish_reason() const { return stopped_ ? "stop" : "length"; }
  /// Returns the text so far.
  [[nodiscard]] const std::string& text() const { return text_; }
  /// Returns the ids that were drawn, the end included.
  [[nodiscard]] const std::vector<std::int32_t>& ids() const { return ids_; }
  [[nodiscard]] const Prompt& prompt() const { return prompt_; }
  /// Returns {"id", "sample", "text", "finish_reason", "prompt_tokens", "tokens"} as a line, with
  /// "ids" and "logprobs" on request.
  [[nodiscard]] std::string line(bool logprobs) const;

 private:
  Prompt prompt_;
  std::int64_t sample_;
  TextStream stream_;
  std::string text_;
  bool stopped_ = false;
  std::vector<std::int32_t> ids_;
  std::vector<double> logprobs_;
};

/// A sequence that is to be drawn.
struct PromptSample {
  Prompt prompt;
  std::int64_t sample = 0;  ///< which of the prompt's samples it is
};

/// Returns the next sequence, or nothing if there are no more.
using NextSample = std::function<std::optional<PromptSample>()>;
/// Is given each sequence after each of its tokens, with the text that the token made certain.
using TextAdded = std::function<void(const Completion& completion, const std::string& added)>;

/// Draws all sequences that `next` gives until they are over. Throws ConfigError, which names the
/// prompt, for one that the model cannot continue; what the callbacks throw; and as Generator::run
/// does.
void complete_prompts(Generator& generator, const ModelText& text, const NextSample& next,
                      const TextAdded& added);

}  // namespace strata
