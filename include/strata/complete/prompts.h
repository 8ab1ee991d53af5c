// A prompt is what a model continues: token ids, how the tokens after them are drawn, and where
// they end. Prompts come as a text, as something that a user says to the model, or as a line of
// JSON with settings of its own; `generate`, `chat` and the samples of a run all make one of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/complete/generator.h"
#include "strata/complete/model_text.h"

namespace strata {

/// Continuations of one prompt are at most so many.
inline constexpr std::int64_t kMostSamples = 1'000'000;

/// How a prompt is continued, where its record does not say otherwise.
struct PromptSettings {
  Sampling sampling{};
  std::int64_t most_tokens = 0;  ///< 0: 256, or as many as the model has positions for
  std::int64_t samples = 1;
  std::vector<std::int32_t> end_tokens{};  ///< ids that end what is drawn
  std::vector<std::string> stops{};        ///< texts that end it, and are left out
};

/// A prompt with everything decided.
struct Prompt {
  std::string id{};     ///< that of its record, or the number of its line
  std::string where{};  ///< for messages: "prompts.jsonl:3"
  std::vector<std::int32_t> ids{};
  PromptSettings settings{};
  bool is_conversation = false;  ///< and is to be answered
};

/// How prompts become tokens.
struct PromptReading {
  const ModelText& text;
  PromptSettings settings{};
  std::int64_t positions = 0;  ///< of a sequence
  bool chat = false;           ///< a text is what a user says
  std::string system{};        ///< what the system says before that; empty: nothing
  TurnEnd answer_end{};        ///< where answers to conversations end besides
  bool parse_special = false;  ///< texts of special tokens become these tokens
};

/// Has an answer to a conversation end where the model's template ends answers: at its token, or at
/// its text where the tokenizer has no token for it.
void end_answer(PromptSettings& settings, const TurnEnd& end);

/// Fills in how many tokens are drawn, if nobody said it, for sequences of at most so many
/// positions. Throws ConfigError for settings that cannot be.
void complete_settings(Prompt& prompt, std::int64_t positions);

/// Returns the prompt of a text. Throws ConfigError that begins with `where`.
[[nodiscard]] Prompt read_text_prompt(const PromptReading& how, const std::string& text,
                                      const std::string& where);
/// Returns the prompt of a line of JSON: an object with "prompt" (a text), "messages" or "tokens",
/// and perhaps "id", "max_tokens", "temperature", "top_k", "top_p", "min_p", "repeat_penalty",
/// "seed", "samples" and "stop". Throws ConfigError that begins with `where` and names the key.
[[nodiscard]] Prompt read_prompt_record(const PromptReading& how, const std::string& json,
                                        std::string where, std::int64_t line);

/// Returns what the generator is asked for to draw a sample of a prompt.
[[nodiscard]] GenerateRequest request_of(const Prompt& prompt, std::int64_t sample);

}  // namespace strata
