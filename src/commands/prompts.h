// The prompts that `generate` is given: one on the command line, a file of text, or JSON lines with
// settings of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "strata/complete/generator.h"
#include "strata/complete/model_text.h"

namespace strata {

/// How a prompt is continued, where its record does not say otherwise.
struct PromptSettings {
  Sampling sampling;
  std::int64_t most_tokens = 0;  ///< 0: 256, or as many as the model has positions for
  std::int64_t samples = 1;
  std::vector<std::string> stops{};
};

/// A prompt with everything decided.
struct Prompt {
  std::string id;     ///< that of its record, or the number of its line
  std::string where;  ///< for messages: "prompts.jsonl:3"
  std::vector<std::int32_t> ids;
  PromptSettings settings;
  bool is_conversation = false;  ///< and is to be answered
};

/// How prompts become tokens.
struct PromptReading {
  const ModelText& text;
  PromptSettings settings;
  std::int64_t positions = 0;               ///< of a sequence
  bool chat = false;                        ///< a text is what a user says
  std::string system{};                     ///< what the system says before that; empty: nothing
  std::vector<std::string> answer_stops{};  ///< texts that end answers, where no token does
  bool parse_special = false;               ///< texts of special tokens become these tokens
};

/// Fills in how many tokens are drawn, if nobody said it, for sequences of at most so many
/// positions. Throws ConfigError for settings that cannot be.
void complete_prompt(Prompt& prompt, std::int64_t positions);

/// Returns the prompt of a text.
[[nodiscard]] Prompt read_text_prompt(const PromptReading& how, const std::string& text,
                                      const std::string& where);
/// Returns the prompt of a line of JSON: an object with "prompt" (a text), "messages" or "tokens",
/// and perhaps "id", "max_tokens", "temperature", "top_k", "top_p", "min_p", "repeat_penalty",
/// "seed", "samples" and "stop". Throws ConfigError that begins with `where` and names the key.
[[nodiscard]] Prompt read_prompt_record(const PromptReading& how, const std::string& json,
                                        std::string where, std::int64_t line);

}  // namespace strata
