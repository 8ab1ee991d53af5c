// Samples of a run: what the model that is trained makes of a few prompts. A session has one if
// run.sample_every asks for it, and the trainer writes what was drawn.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/config/config.h"
#include "strata/plan/sweep_assembly.h"
#include "strata/run/model_text.h"

namespace strata {

/// A prompt and what was drawn after it.
struct RunSample {
  std::string prompt;
  std::string text;
  /// "stop" after a token that ends texts, "nonfinite" where logits were not, else "length".
  std::string finish_reason;
  std::int64_t prompt_tokens = 0;
  std::vector<std::int32_t> ids;  ///< drawn, the end included
};

/// Returns {"step", "prompt", "text", "finish_reason", "prompt_tokens", "tokens"} as a line, for
/// samples.jsonl of the run folder.
[[nodiscard]] std::string json_line(std::int64_t step, const RunSample& sample);

class RunSamples {
 public:
  /// Reads the tokenizer and the prompts of the config. Throws ConfigError, and IoError for a
  /// tokenizer that cannot be read.
  explicit RunSamples(const RunConfig& config);

  /// Draws a sample for each prompt, which depends on the weights, the seed of the run, `step`, the
  /// prompt and its number alone. On several ranks all of them call it and none ends earlier than
  /// others. `drawn` is called after each token; what it throws comes out. Blocks.
  [[nodiscard]] std::vector<RunSample> draw(SweepAssembly& assembly, std::int64_t step, int ranks,
                                            const std::function<void()>& drawn) const;

 private:
  std::uint64_t seed_;
  std::int64_t tokens_;
  std::unique_ptr<const ModelText> text_;
  std::optional<std::int32_t> end_;
  std::vector<std::string> prompts_;
  std::vector<std::vector<std::int32_t>> ids_;  ///< of the prompts
};

}  // namespace strata
