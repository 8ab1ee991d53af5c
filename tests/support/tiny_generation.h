// Generation with a tiny model, by default on the cpu backend, without model files or a session:
// what tests of sweeps and of the generator need.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "strata/comm/rank_groups.h"
#include "strata/complete/generator.h"
#include "strata/engine/generation_engine.h"
#include "strata/ops/backend.h"
#include "strata/plan/generation_setup.h"

namespace strata::test {

struct TinyGenerationOptions {
  LlamaConfig model;
  GenerationNeeds needs;
  BackendKind backend = BackendKind::kCpu;
  TraceSink* trace = nullptr;  ///< may be null; must outlive the generation
  std::optional<WaitFor> omit_wait{};
  Execution execution = Execution::kThreads;
  /// Gives the weights; by default they are drawn.
  std::function<void(TrainingState&, ThreadPool&)> fill = nullptr;
};

/// What was drawn for a request.
struct Continuation {
  std::vector<std::int32_t> ids;
  std::vector<double> logprobs;
  bool operator==(const Continuation&) const = default;  ///< bit for bit
};

class TinyGeneration {
 public:
  explicit TinyGeneration(const TinyGenerationOptions& options);
  ~TinyGeneration();
  TinyGeneration(const TinyGeneration&) = delete;
  TinyGeneration& operator=(const TinyGeneration&) = delete;

  /// Continues all requests; `goes_on` may end a sequence after a token.
  [[nodiscard]] std::vector<Continuation> run(const std::vector<GenerateRequest>& requests,
                                              const Generator::Drawn& goes_on = nullptr);
  [[nodiscard]] const GenerationSetup& setup() const { return setup_; }
  [[nodiscard]] GenerationEngine& engine() { return *engine_; }
  [[nodiscard]] Generator& generator() { return *generator_; }
  [[nodiscard]] Backend& backend() { return backend_; }
  /// Returns all logits of the first rows that the head computed last, in f64.
  [[nodiscard]] std::vector<double> last_logits(std::int64_t rows);

 private:
  std::unique_ptr<Ranks> ranks_;
  RankGroups groups_;
  Backend backend_;
  GroupCollectives collectives_;
  GenerationSetup setup_;
  std::unique_ptr<GenerationEngine> engine_;
  std::unique_ptr<Generator> generator_;
};

}  // namespace strata::test
