// Short runs of tiny models as the checks of the self-test need them: a config that leaves nothing
// to the machine, a session that is made as it is for a user's run, and what came of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "doctor/self_test_checks.h"
#include "strata/train/session.h"

namespace strata {

/// Returns the config of a model of three layers that runs in milliseconds, on synthetic tokens, in
/// bf16, with clipping, and with heads that tensor cores take. Nothing is saved.
[[nodiscard]] RunConfig tiny_training(const SelfTestOptions& options);

/// Returns the hooks with which sessions of the self-test make their backends.
[[nodiscard]] SessionHooks hooks_of(const SelfTestOptions& options);

/// The group of one rank that these runs train as.
class SingleRank {
 public:
  explicit SingleRank(const SelfTestOptions& options);
  [[nodiscard]] Ranks& ranks() { return ranks_; }

 private:
  std::unique_ptr<Ranks> own_;
  Ranks& ranks_;
};

/// What steps left.
struct TrainingResult {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<std::vector<double>> weights;  ///< masters, by block; exact
};

/// Submits the steps from `begin` up to `end`.
void train_steps(Session& session, std::int64_t begin, std::int64_t end);
/// Waits, and returns what the session's steps and weights are.
[[nodiscard]] TrainingResult result_of(Session& session);

/// Returns the first difference of two results by bits, with its place and both values, or an empty
/// text. `from` is the step of the first loss.
[[nodiscard]] std::string first_difference(const TrainingResult& got, const TrainingResult& want,
                                           std::int64_t from = 0);

}  // namespace strata
