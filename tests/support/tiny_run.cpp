// Runs engines on ranks that are threads and puts the shards of their results together by tensor
// name.

#include "support/tiny_run.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <mutex>

#include "support/thread_ranks.h"

namespace strata::test {

namespace {

/// Puts the shards of all ranks together and cuts them into tensors.
std::map<std::string, std::vector<double>> gather_tensors(
    const TrainingState& state, Ranks& ranks,
    const std::function<std::vector<double>(BlockId block)>& shard_of) {
  std::map<std::string, std::vector<double>> tensors;
  for (const BlockId b : state.ids()) {
    const std::vector<double> shard = shard_of(b);
    if (shard.empty()) continue;  // of a gradient that nobody makes, on any rank
    const std::vector<std::byte> bytes =
        ranks.all_gather_host(std::as_bytes(std::span<const double>(shard)), Channel::kSubmit);
    std::vector<double> all(bytes.size() / sizeof(double));
    std::memcpy(all.data(), bytes.data(), bytes.size());
    const Block& block = state.layout().blocks[b];
    for (const SourceRun& run : source_runs(block, 0, block.elements, INT64_MAX)) {
      const auto first = all.begin() + run.block_begin;
      tensors[run.source->name] = std::vector<double>(first, first + run.count);
    }
  }
  return tensors;
}

}  // namespace

std::map<std::string, std::vector<double>> gather_weights(const TrainingState& state,
                                                          Ranks& ranks) {
  return gather_tensors(state, ranks, [&](BlockId block) { return state.master(block); });
}

std::map<std::string, std::vector<double>> gather_gradients(const TrainingState& state,
                                                            Ranks& ranks) {
  return gather_tensors(state, ranks, [&](BlockId block) { return state.gradient(block); });
}

void trace_run(Recorder& recorder, const RunConfig& config, int ranks,
               std::optional<WaitFor> omit) {
  run_ranks(ranks, [&](Ranks& group) {
    const bool watched = group.rank() == 0;
    TinyEngine engine(config, group, {.trace = watched ? &recorder : nullptr, .omit_wait = omit});
    if (watched) recorder.start();
    engine.submit_steps(0, config.run.steps);
    engine.synchronize();
    if (watched) recorder.stop();
  });
}

std::string first_race(const Recorder& recorder) {
  const std::vector<Race> races = recorder.races(1);
  return races.empty() ? "" : races.front().text;
}

StateBytes state_bytes(TrainingState& state) {
  StateBytes bytes;
  for (const BlockId b : state.ids()) {
    const BlockState& s = state.block(b);
    for (const TensorView* view : {&s.weight, &s.low, &s.m, &s.v, &s.scale}) {
      if (!*view) continue;
      const auto* data = static_cast<const std::byte*>(view->data);
      bytes.emplace_back(data, data + view->bytes().bytes);
    }
  }
  return bytes;
}

RunResult run_steps(TinyEngine& engine) {
  RunResult result;
  engine.submit_steps(0, engine.config().run.steps);
  engine.synchronize();
  for (const StepOutcome& outcome : engine.take_outcomes()) {
    result.losses.push_back(outcome.loss.value());
    result.norms.push_back(outcome.grad_norm);
  }
  result.weights = gather_weights(engine.state(), engine.groups().shard());
  return result;
}

RunResult run_tiny(const RunConfig& config, int ranks, const TinyHooks& hooks) {
  std::mutex mutex;
  RunResult result;
  run_ranks(ranks, [&](Ranks& group) {
    TinyEngine engine(config, group, hooks);
    RunResult own = run_steps(engine);
    const std::lock_guard lock(mutex);
    if (group.rank() == 0) result = std::move(own);
  });
  return result;
}

double relative_error(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  const double error = std::sqrt(difference) / (norm > 0 ? std::sqrt(norm) : 1.0);
  return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
}

}  // namespace strata::test
