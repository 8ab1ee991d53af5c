// Continues sequences: admits them as there is room, plans sweeps over prompts and new tokens, and
// hands out what was drawn. What becomes of a sequence does not depend on the others. Commands own
// one; everything happens in the calling thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "strata/engine/sweep_engine.h"
#include "strata/schedule/sweep_batch.h"

namespace strata {

/// How the tokens of a sequence are drawn; see SampleTokens.
struct Sampling {
  double temperature = 1;
  double top_p = 1;
  double min_p = 0;
  double repeat_penalty = 1;
  std::int64_t top_k = 0;
  std::uint64_t seed = 0;

  /// Returns what is wrong with the numbers, with the name of the first wrong one; empty if nothing
  /// is.
  [[nodiscard]] std::string problem() const;
};

/// A sequence to be continued.
struct GenerateRequest {
  std::vector<std::int32_t> prompt;
  Sampling sampling;
  std::int64_t most_tokens = 0;  ///< that are drawn
  std::int64_t sample = 0;       ///< tells sequences with the same prompt and seed apart
};

/// A token that was drawn.
struct DrawnToken {
  std::size_t sequence = 0;  ///< in the order in which requests were taken, from 0 on
  std::int32_t id = 0;
  double logprob = 0;  ///< natural logarithm of its probability by the model's logits
};

/// Counts of a Generator, and seconds.
struct GenerationCounts {
  std::int64_t sequences = 0;      ///< that have ended
  std::int64_t prompt_tokens = 0;  ///< that went through the model
  std::int64_t drawn_tokens = 0;
  std::int64_t sweeps = 0;
  double seconds = 0;  ///< in run()
};

class Generator {
 public:
  /// Returns the next request, or nothing if there are no more.
  using Next = std::function<std::optional<GenerateRequest>()>;
  /// Is given every drawn token; returns whether the sequence goes on, as far as its limit allows.
  using Drawn = std::function<bool(const DrawnToken& token)>;

  /// The engine outlives the generator; its weights are loaded.
  explicit Generator(SweepEngine& engine);

  /// Returns why a request cannot be served, with the remedy; empty if it can.
  [[nodiscard]] std::string problem(const GenerateRequest& request) const;
  /// Continues all requests that `next` gives; problem() has found none in them. Throws
  /// NumericalError if logits are not finite, what the callbacks throw, and what the device does.
  void run(const Next& next, const Drawn& drawn);
  [[nodiscard]] const GenerationCounts& counts() const { return counts_; }

 private:
  /// What the batch does not know of a sequence.
  struct Sequence {
    std::size_t number = 0;
    GenerateRequest request;
    std::vector<std::int32_t> ids{};   ///< prompt and what was drawn
    std::vector<std::int32_t> seen{};  ///< different ids, if there is a penalty
    std::uint64_t key = 0;             ///< of its random numbers

    void add(std::int32_t id);
  };

  bool admit(const GenerateRequest& request);
  /// Fills the buffers for a sweep. `drawing` gets the slots that draw a token, in order.
  SweepPlan plan_sweep(std::vector<std::size_t>& drawing);

  SweepEngine& engine_;
  SweepBatch batch_;
  std::vector<Sequence> sequences_;  ///< by slot of the batch
  std::size_t taken_ = 0;
  GenerationCounts counts_;
};

}  // namespace strata
