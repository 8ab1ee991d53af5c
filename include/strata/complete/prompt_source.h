// All prompts of a job. They are read twice: first all of them, to know how much memory they need
// and that none is wrong, then one by one as there is room for their sequences. `generate` makes a
// source of what it is given, surveys it, and draws what the survey counted.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "strata/complete/completion.h"
#include "strata/complete/completion_file.h"
#include "strata/complete/input_lines.h"
#include "strata/complete/prompts.h"
#include "strata/model/config.h"
#include "strata/plan/choose_generation.h"

namespace strata {

/// The prompts that were given, to be read from the beginning as often as needed.
class PromptSource {
 public:
  /// The texts of the model, which `how` refers to, outlive the source.
  PromptSource(PromptReading how, InputLines lines)
      : how_(std::move(how)), lines_(std::move(lines)) {}

  [[nodiscard]] bool has_records() const { return lines_.has_records(); }
  void rewind();
  /// Returns the next prompt, or nothing after the last. Throws ConfigError that names its place if
  /// it is none.
  [[nodiscard]] std::optional<Prompt> next();

 private:
  PromptReading how_;
  InputLines lines_;
  bool text_was_read_ = false;
};

/// What all prompts together need.
struct PromptSurvey {
  std::int64_t longest = 0;    ///< tokens of a sequence, prompt included
  std::int64_t sequences = 0;  ///< that are not in the output yet
  std::int64_t tokens = 0;     ///< that they may draw
  std::int64_t prompt_tokens = 0;
  bool penalties = false;
  bool conversations = false;  ///< whether there are any

  /// Returns as many sequences that all have the mean length; there is one at least.
  [[nodiscard]] GenerationLoad load() const;
};

/// Reads all prompts of `source` from where it is. `context` is how many tokens a sequence may
/// have, if the user says so; `done`, which may be null, has completions that are not drawn again.
/// Throws ConfigError for the first prompt that is wrong.
[[nodiscard]] PromptSurvey survey_prompts(PromptSource& source, std::optional<std::int64_t> context,
                                          const LlamaConfig& model, const CompletionFile* done);

/// Hands out the sequences of all prompts, one by one, but those that are done.
class PromptSamples {
 public:
  /// Both outlive it; `done` may be null.
  PromptSamples(PromptSource& source, const CompletionFile* done) : source_(source), done_(done) {}

  [[nodiscard]] std::optional<PromptSample> next();

 private:
  PromptSource& source_;
  const CompletionFile* done_;
  std::optional<Prompt> prompt_;
  std::int64_t sample_ = 0;
};

}  // namespace strata
