// Samples of a run: what the model that is trained makes of a few prompts, which are texts to go on
// with or conversations to answer. A session has one if run.sample_every asks for it, and the
// trainer writes what was drawn.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "strata/complete/model_text.h"
#include "strata/complete/prompts.h"
#include "strata/config/config.h"
#include "strata/engine/sweep_engine.h"

namespace strata {

/// A prompt and what was drawn after it.
struct RunSample {
  std::string prompt;  ///< as the config holds it: a text, or the JSON of a conversation
  std::string text;
  /// "stop" after a token that ends texts or answers, or the text that ends answers; "nonfinite"
  /// where logits were not finite, else "length".
  std::string finish_reason;
  std::int64_t prompt_tokens = 0;
  std::vector<std::int32_t> ids;  ///< drawn, the end included
};

/// Returns {"step", "prompt", "text", "finish_reason", "prompt_tokens", "tokens"} as a line, for
/// samples.jsonl of the run folder. The prompt is a text, or the object of a conversation.
[[nodiscard]] std::string json_line(std::int64_t step, const RunSample& sample);

class RunSamples {
 public:
  /// Reads tokenizer, template and prompts of the config. Throws ConfigError, and IoError for what
  /// cannot be read.
  explicit RunSamples(const RunConfig& config);

  /// Draws a sample for each prompt, which depends on the weights, the seed of the run, `step`, the
  /// prompt and its number alone. On several ranks all of them call it and none ends earlier than
  /// others. `drawn` is called after each token; what it throws comes out. Blocks.
  [[nodiscard]] std::vector<RunSample> draw(SweepEngine& engine, std::int64_t step, int ranks,
                                            const std::function<void()>& drawn) const;

 private:
  /// A prompt, and how the config has it.
  struct SamplePrompt {
    std::string given;
    Prompt prompt;
  };
  [[nodiscard]] SamplePrompt read(const std::string& given, const std::string& where) const;

  std::uint64_t seed_;
  std::int64_t tokens_;
  std::unique_ptr<const ModelText> text_;
  std::vector<std::int32_t> ends_;  ///< ids that end texts of the model
  std::vector<SamplePrompt> prompts_;
};

}  // namespace strata
