// Scores sequences that are there: the probability of each of their tokens after those before it.
// Commands that evaluate own one; everything happens in the calling thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "strata/engine/sweep_engine.h"

namespace strata {

/// A sequence to be scored.
struct ScoreRequest {
  std::vector<std::int32_t> ids;  ///< at least one
  std::size_t from = 1;           ///< the first token that is scored, at least 1
};

class Scorer {
 public:
  /// Returns the next request, or nothing if there are no more.
  using Next = std::function<std::optional<ScoreRequest>()>;
  /// Is given the natural logarithms of the probabilities of tokens [from, size) of a sequence, by
  /// its number in the order in which requests were taken.
  using Scored = std::function<void(std::size_t sequence, std::span<const double> logprobs)>;

  /// The engine was planned with GenerationNeeds::scores and outlives the scorer; its weights are
  /// loaded.
  explicit Scorer(SweepEngine& engine) : engine_(engine) {}

  /// Scores all requests that `next` gives, each of at most as many tokens as the setup says.
  /// Throws NumericalError if a probability is not a number, what the callbacks throw, and what the
  /// device does.
  void run(const Next& next, const Scored& scored);

 private:
  struct Sequence {
    std::size_t number = 0;
    ScoreRequest request;
    std::size_t done = 0;  ///< tokens whose keys and values are kept
    std::vector<double> logprobs{};
  };
  /// Sequences by slot; a slot is a place in a group.
  using Slots = std::vector<std::optional<Sequence>>;

  /// Fills the buffers for a sweep; `scoring` gets the sequence of each score, in order.
  SweepPlan plan_sweep(Slots& slots, std::vector<Sequence*>& scoring);

  SweepEngine& engine_;
  std::size_t taken_ = 0;
};

}  // namespace strata
